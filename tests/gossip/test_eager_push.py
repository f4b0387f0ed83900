"""News that leaves at once, marks that name it afterwards, and what is asked for by them."""

from __future__ import annotations

from adsum.gossip import eager_push, news_allowance
from adsum.gossip.commands import Carry, Describe, FireEvent
from adsum.gossip.effects import CarriedHeard, Send
from adsum.gossip.fresh_news import TIERS
from adsum.gossip.recent_news import mark_of
from adsum.gossip.settings import GossipSettings
from adsum.gossip.wire import Packet, PacketFlag, PacketKind
from adsum.now import HOUR, MILLISECOND, SECOND
from tests.gossip.support import Stage, alive, of, opened, profile, sent, suspect

MANY = tuple(f"m{number}" for number in range(200))
FEW = MANY[:10]


def listening(*peers: str) -> Stage:
    """It has been told news for long enough to ask for what it lacks."""
    stage = quiet(*peers)
    stage.packet(peers[0], PacketKind.GOSSIP, carried=[b"any"])
    stage.run_for(eager_push.LISTENED_NS)
    return stage


def quiet(*peers: str, settings: GossipSettings | None = None, has_ticks: bool = False) -> Stage:
    stage = Stage(*peers, settings=settings)
    stage.stop_probing()
    if not has_ticks:
        stage.core._shared.gossip_at(HOUR)
        stage.core._shared._gossip_ns = 0  # so that news does not bring it forward
    return stage


def pushed(stage: Stage, within_ns: int = 15 * MILLISECOND) -> list[Packet]:
    """What goes out before a tick would have told it."""
    return [
        packet
        for packet in sent(stage.run_for(within_ns), PacketKind.GOSSIP)
        if packet.carried or packet.claims
    ]


def test_in_a_small_cluster_what_arises_here_goes_to_every_member_at_once() -> None:
    stage = quiet(*FEW)
    stage.command(Carry("check", b"critical", is_urgent=True))
    sends = of(stage.run_for(0), Send)
    assert sorted(each.to for each in sends) == sorted(profile(name).address for name in FEW)
    assert {opened(each)[1].flags for each in sends} == {PacketFlag.NOT_ON}
    assert all(opened(each)[1].carried == [b"critical"] for each in sends)


def test_what_arises_here_soon_after_a_push_waits_and_goes_together() -> None:
    stage = quiet(*FEW)
    stage.command(Carry("check", b"first"))
    stage.run_for(MILLISECOND)
    for number in range(3):
        stage.command(Carry(number, b"%d" % number))
    assert stage.run_for(8 * MILLISECOND) == []
    assert [sorted(packet.carried) for packet in pushed(stage)] == [[b"0", b"1", b"2"]] * len(FEW)


def test_in_a_large_cluster_what_arises_here_goes_to_eight_and_what_is_heard_to_five() -> None:
    stage = quiet(*MANY)
    stage.command(Carry("check", b"mine"))
    assert [packet.carried for packet in pushed(stage)] == [[b"mine"]] * 8
    stage.tell("m1", alive("m2", incarnation=1))
    told = pushed(stage)
    assert [packet.claims for packet in told] == [[alive("m2", incarnation=1).encoded]] * 5
    assert {packet.flags for packet in told} == {0}


def test_what_was_heard_is_not_pushed_to_all_also_when_it_came_from_an_address_that_no_member_has() -> None:
    stage = quiet(*FEW)
    heard = of(stage.packet("stranger", PacketKind.GOSSIP, carried=[b"delta"]), CarriedHeard)
    assert [each.payloads for each in heard] == [(b"delta",)]
    stage.command(Carry("check", b"delta", is_heard=True))
    assert [(packet.carried, packet.flags) for packet in pushed(stage)] == [([b"delta"], 0)] * 5


def test_what_its_sender_tells_to_all_is_not_pushed_on_but_named_in_the_next_ticks() -> None:
    stage = quiet(*FEW, has_ticks=True)
    newer = alive("m2", incarnation=1)
    stage.tell("m1", newer, flags=PacketFlag.NOT_ON)
    assert stage.core._shared.fresh_heard.tier == len(TIERS)
    ticks = [packet.have for packet in sent(stage.run_for(2 * SECOND), PacketKind.GOSSIP) if packet.have]
    assert ticks == [mark_of(newer.encoded)] * 9


def test_what_is_heard_twice_is_pushed_once() -> None:
    stage = quiet(*MANY)
    for teller in ("m1", "m3"):
        stage.tell(teller, alive("m2", incarnation=1))
    assert len(pushed(stage)) == 5
    stage.tell("m4", alive("m2", incarnation=1))
    assert pushed(stage) == []


def test_another_payload_of_the_same_mark_keeps_nothing_from_being_pushed_or_handed_over() -> None:
    stage = quiet(*FEW)
    twin = b"junkT\xa1o\xd6"
    assert mark_of(twin) == mark_of(b"critical")
    stage.packet("m1", PacketKind.GOSSIP, carried=[twin], flags=PacketFlag.NOT_ON)
    stage.command(Carry("check", b"critical", is_urgent=True))
    assert [packet.carried for packet in pushed(stage)] == [[b"critical"]] * len(FEW)
    (answer,) = sent(stage.packet("m3", PacketKind.GOSSIP, want=mark_of(twin)), PacketKind.GOSSIP, to="m3")
    assert answer.carried == [b"critical"]


def test_news_of_ten_milliseconds_goes_in_one_datagram_to_each() -> None:
    stage = quiet(*MANY)
    for number in range(10):
        stage.tell("m1", alive(f"m{number + 2}", incarnation=1))
    assert [len(packet.claims) for packet in pushed(stage)] == [10] * 5


def test_membership_goes_before_the_catalog_and_critical_before_passing() -> None:
    stage = quiet(*FEW)
    for number in range(30):
        stage.command(Carry(("well", number), b"p" * 510))
    stage.command(Carry("failing", b"c" * 510, is_urgent=True))
    stage.command(Describe(b"changed"))
    first, second, *_rest = pushed(stage)[:: len(FEW)]
    assert (len(first.claims), first.carried) == (1, [b"c" * 510, b"p" * 510])
    assert (second.claims, second.carried) == ([], [b"p" * 510] * 2)


def test_a_flood_is_pushed_within_the_allowance_and_told_by_ticks_beside() -> None:
    stage = quiet(*MANY, has_ticks=True)
    for number in range(2_000):
        stage.command(Carry(number, b"%04d" % number * 100))
    sends = of(stage.run_for(SECOND), Send)
    most_bytes = news_allowance.AT_ONCE + news_allowance.BYTES_A_SECOND
    one_push_bytes = 8 * 1_400  # that is begun while anything is left of the allowance
    sent_bytes = sum(len(each.message) for each in sends)
    assert 3 * 5 * 1_300 < sent_bytes < most_bytes + one_push_bytes  # of which ticks have taken most
    assert stage.core.tally.pushes_put_off > 0


def test_in_time_the_allowance_pushes_what_a_flood_left_behind_with_more_in_each_datagram() -> None:
    stage = quiet(*MANY)
    for number in range(200):
        stage.command(Carry(number, b"%04d" % number * 100))
    stage.run_for(30 * SECOND)
    assert stage.core._shared.fresh_own.tier == len(TIERS)


def test_what_was_told_on_for_long_enough_meanwhile_is_not_pushed_any_more() -> None:
    stage = quiet(*MANY)
    stage.command(Carry("check", b"first"))
    stage.command(Carry("check", b"second"))
    assert {tuple(packet.carried) for packet in pushed(stage)} == {(b"second",)}


def test_who_lacks_what_a_member_names_asks_it_once_and_again_when_the_answer_is_lost() -> None:
    stage = listening(*FEW)
    have = mark_of(b"one") + mark_of(b"two")
    (asks,) = sent(stage.packet("m1", PacketKind.GOSSIP, have=have), PacketKind.GOSSIP, to="m1")
    assert asks.want == have
    assert stage.packet("m2", PacketKind.GOSSIP, have=have) == []
    stage.run_for(eager_push.ASK_AGAIN_NS)
    (again,) = sent(stage.packet("m2", PacketKind.GOSSIP, have=have), PacketKind.GOSSIP, to="m2")
    assert again.want == have


def test_what_is_known_is_not_asked_for_however_it_was_learnt() -> None:
    stage = quiet(*FEW)
    stage.command(Carry("check", b"mine"))
    heard = suspect("m2", "m1")
    stage.tell("m1", heard)
    stage.packet("m1", PacketKind.GOSSIP, carried=[b"delta"])
    have = mark_of(b"mine") + mark_of(heard.encoded) + mark_of(b"delta")
    assert stage.packet("m3", PacketKind.GOSSIP, have=have) == []


def test_a_member_is_given_what_it_asks_for_and_need_not_push_it_on() -> None:
    stage = quiet(*FEW)
    heard = alive("m2", incarnation=1)
    stage.tell("m1", heard, ages=bytes((30,)))
    stage.packet("m1", PacketKind.GOSSIP, carried=[b"delta"])
    want = mark_of(heard.encoded) + mark_of(b"delta") + mark_of(b"unknown")
    (answer,) = sent(stage.packet("m3", PacketKind.GOSSIP, want=want), PacketKind.GOSSIP, to="m3")
    assert (answer.claims, answer.ages, answer.carried) == ([heard.encoded], bytes((30,)), [b"delta"])
    assert answer.flags == PacketFlag.NOT_ON


def test_strangers_are_neither_asked_nor_answered() -> None:
    stage = listening(*FEW)
    stage.command(Carry("check", b"mine"))
    assert of(stage.packet("stranger", PacketKind.GOSSIP, have=b"mark"), Send) == []
    assert of(stage.packet("stranger", PacketKind.GOSSIP, want=mark_of(b"mine")), Send) == []


def test_who_asks_without_end_is_answered_within_the_allowance() -> None:
    stage = quiet(*FEW)
    stage.command(Carry("check", b"m" * 500))
    want = mark_of(b"m" * 500)
    answers = [of(stage.packet("m1", PacketKind.GOSSIP, want=want), Send) for _ in range(1_000)]
    assert sum(map(len, answers)) <= news_allowance.SMALL_AT_ONCE // 500 + 1
    assert stage.core.tally.answers_refused >= 800


def test_who_asks_for_what_nobody_has_keeps_nobody_from_pushing() -> None:
    stage = quiet(*MANY)
    for number in range(1_000):
        assert stage.packet("m1", PacketKind.GOSSIP, want=b"%04d" % number) == []
    stage.command(Carry("check", b"critical", is_urgent=True))
    assert len(pushed(stage)) == 8
    assert stage.core.tally.answers_refused == 0


def test_who_names_what_nobody_has_makes_it_ask_within_an_allowance() -> None:
    stage = listening(*FEW)
    asks = [of(stage.packet("m1", PacketKind.GOSSIP, have=b"%04d" % number), Send) for number in range(1_000)]
    assert sum(map(len, asks)) == eager_push.ASKS_AT_ONCE
    assert (stage.core.tally.news_asked_for, stage.core.tally.news_not_asked_for) == (100, 900)


def test_an_answer_is_as_good_as_a_push() -> None:
    stage = quiet(*FEW)
    stage.packet("m1", PacketKind.GOSSIP, have=mark_of(b"delta"))
    heard = of(
        stage.packet("m1", PacketKind.GOSSIP, carried=[b"delta"], flags=PacketFlag.NOT_ON), CarriedHeard
    )
    assert [each.payloads for each in heard] == [(b"delta",)]


def test_what_members_tell_is_remembered_up_to_so_many_bytes() -> None:
    stage = quiet(*FEW)
    for number in range(16_000):
        stage.packet("m1", PacketKind.GOSSIP, carried=[b"%05d" % number * 250])
    recent = stage.core._shared.recent
    told = (b"%05d" % number * 250 for number in range(16_000))
    kept = [payload for payload in told if recent.get(mark_of(payload)) is not None]
    assert sum(map(len, kept)) < 4.2 * 1024 * 1024
    assert kept[-1] == b"15999" * 250


def test_events_are_pushed_like_other_news() -> None:
    stage = quiet(*FEW)
    stage.command(FireEvent("deploy", b"42"))
    assert [len(packet.claims) for packet in pushed(stage)] == [1] * len(FEW)


def test_with_no_members_to_push_to_news_waits_for_the_tick_and_nothing_is_named() -> None:
    stage = quiet(*FEW, settings=GossipSettings(push_nodes=0), has_ticks=True)
    stage.tell("m1", alive("m2", incarnation=1))
    stage.command(Carry("check", b"mine"))
    told = sent(stage.run_for(3 * SECOND), PacketKind.GOSSIP)
    assert sum(b"mine" in packet.carried for packet in told) == 6
    assert not any(packet.have for packet in told)


def test_alone_there_is_nobody_to_push_to() -> None:
    stage = quiet()
    stage.command(Carry("check", b"mine"))
    assert of(stage.run_for(SECOND), Send) == []
    assert (stage.core.deadline() or HOUR) > 2 * SECOND, "it does not try again and again"


def test_a_newcomer_asks_for_nothing_while_it_is_compared_with_others() -> None:
    stage = quiet(*FEW)
    stage.packet("m1", PacketKind.GOSSIP, carried=[b"any"])
    stage.run_for(eager_push.LISTENED_NS - MILLISECOND)
    assert stage.packet("m1", PacketKind.GOSSIP, have=b"mark") == []


def test_accusations_and_what_is_long_wait_for_the_tick() -> None:
    stage = quiet(*FEW)
    stage.tell("m1", suspect("m2", "m1"))
    stage.command(Carry("all", b"d" * 600))
    assert pushed(stage) == []


def test_what_is_urgent_is_pushed_whatever_its_length() -> None:
    stage = quiet(*FEW)
    stage.command(Carry("five checks", b"c" * 900, is_urgent=True))
    assert [packet.carried for packet in pushed(stage)] == [[b"c" * 900]] * len(FEW)


def test_what_arises_here_and_is_not_pushed_is_told_by_a_tick_at_once() -> None:
    stage = quiet(*FEW)
    stage.core._shared.gossip_at(HOUR)
    stage.command(Carry("all", b"d" * 600))
    assert [packet.carried for packet in pushed(stage, MILLISECOND)] == [[b"d" * 600]] * 3


def test_what_is_heard_and_not_pushed_on_is_told_by_no_tick_at_once() -> None:
    stage = quiet(*FEW)
    stage.core._shared.gossip_at(HOUR)
    stage.command(Carry("all", b"d" * 600, is_heard=True))
    assert pushed(stage, MILLISECOND) == []
    interval_ns = stage.core._shared.settings.gossip_interval_ns
    assert [packet.carried for packet in pushed(stage, interval_ns)][:3] == [[b"d" * 600]] * 3


def test_what_waits_for_the_tick_is_known_and_given_to_who_asks_for_it() -> None:
    stage = listening(*FEW)
    accusation = suspect("m2", "me")
    stage.core._suspicions.begin(stage.now, stage.member("m2"), accusation)
    stage.command(Carry("all", b"d" * 600))
    marks = mark_of(accusation.encoded) + mark_of(b"d" * 600)
    assert stage.packet("m3", PacketKind.GOSSIP, have=marks) == []
    (answer,) = sent(stage.packet("m3", PacketKind.GOSSIP, want=marks), PacketKind.GOSSIP, to="m3")
    assert (answer.claims, answer.carried) == ([accusation.encoded], [b"d" * 600])


def test_who_asks_for_what_nobody_remembers_is_not_answered() -> None:
    assert quiet(*FEW).packet("m1", PacketKind.GOSSIP, want=b"gone") == []


def test_what_was_pushed_to_all_is_not_repeated_but_named() -> None:
    stage = quiet(*FEW, has_ticks=True)
    stage.packet("m1", PacketKind.GOSSIP, carried=[b"delta"], flags=PacketFlag.NOT_ON)
    stage.command(Carry("check", b"delta"))
    told = sent(stage.run_for(3 * SECOND), PacketKind.GOSSIP)
    assert not any(packet.carried for packet in told)
    assert sum(packet.have == mark_of(b"delta") for packet in told) == 12
