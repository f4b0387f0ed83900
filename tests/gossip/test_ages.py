"""How old news is told to be, from hop to hop, and what a metric makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip import ages
from adsum.gossip.broadcasts import Broadcasts, Class
from adsum.gossip.commands import Describe, ForceLeave
from adsum.gossip.effects import Send, SyncPart
from adsum.gossip.wire import PacketKind
from adsum.now import MILLISECOND, SECOND
from tests.gossip.support import Stage, alive, asked, of, opened, roster, short, suspect


@given(st.integers(0, 16 * SECOND), st.integers(0, 1 << 62))
def test_an_age_is_told_within_five_milliseconds_and_above_a_second_within_fifty(
    age_ns: int, now_ns: int
) -> None:
    born_ns = ages.born_ns(now_ns, ages.coded(now_ns, now_ns - age_ns))
    unit_ns = ages.FINE_NS if age_ns < SECOND - ages.FINE_NS else ages.COARSE_NS
    assert born_ns is not None
    assert abs(now_ns - born_ns - age_ns) <= unit_ns // 2


def test_what_is_not_known_stays_not_known_and_the_very_old_stays_old() -> None:
    assert ages.coded(SECOND, None) == ages.UNKNOWN
    assert ages.born_ns(SECOND, ages.UNKNOWN) is None
    assert ages.coded(60 * SECOND, 0) == ages.OLDEST


def test_ages_stand_beside_their_claims() -> None:
    broadcasts = Broadcasts(members_max=10, retransmit_mult=4)
    broadcasts.queues[Class.MEMBERSHIP].put(SECOND, "a", b"a")
    broadcasts.queues[Class.MEMBERSHIP].put(None, "b", b"b")
    broadcasts.queues[Class.EVENTS].put(0, "c", b"c")
    broadcasts.queues[Class.CATALOG].put(0, "d", b"d")
    taken = broadcasts.take(SECOND + 100 * MILLISECOND, 1_000, 9)
    assert dict(zip(taken.claims, taken.ages, strict=True)) == {b"a": 10, b"b": 255, b"c": 101}
    assert taken.carried == [b"d"]


def last_told(stage: Stage) -> tuple[Sequence[bytes], bytes]:
    packets = [opened(each)[1] for each in of(stage.effects, Send)]
    told = [packet for packet in packets if packet.claims]
    return told[-1].claims, told[-1].ages


def test_my_own_news_is_as_old_as_its_waiting() -> None:
    stage = Stage("a")
    stage.stop_probing()
    stage.command(Describe(b"new"))
    stage.run_for(SECOND)
    assert stage.core.tally.news_by_datagram == 0
    _, told = last_told(stage)
    assert 1 <= told[0] <= SECOND // ages.FINE_NS


def test_what_was_heard_is_older_by_the_way_and_the_waiting() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    newer = alive("b", incarnation=1)
    stage.tell("a", newer, ages=bytes((100,)))
    tally = stage.core.tally
    assert (tally.news_by_datagram, tally.news_age_s.total) == (1, 1.0)
    stage.run_for(100 * MILLISECOND)
    stage.effects.clear()
    stage.packet("a", PacketKind.PING, sequence=1, about=stage.core._shared.me.short)
    claims, told = last_told(stage)
    assert (claims, told) == ([newer.encoded], bytes((101,)))


def test_news_is_counted_once_and_old_news_never() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    for _ in range(3):
        stage.tell("a", alive("b", incarnation=1), ages=b"\x04")
    stage.tell("a", alive("b"), ages=b"\x04")
    assert stage.core.tally.news_by_datagram == 1
    assert sum(stage.core.tally.news_age_s.counts) == 1


def test_news_whose_age_is_not_told_is_counted_and_has_none() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    stage.tell("a", alive("b", incarnation=1))
    assert stage.core.tally.news_by_datagram == 1
    assert sum(stage.core.tally.news_age_s.counts) == 0


def test_my_answer_to_an_accusation_is_new_and_nobody_elses_news() -> None:
    stage = Stage("a")
    stage.stop_probing()
    stage.tell("a", suspect("me", "a"), ages=b"\x50")
    stage.effects.clear()
    stage.packet("a", PacketKind.PING, sequence=1, about=stage.core._shared.me.short)
    assert last_told(stage)[1] == b"\x00"
    assert stage.core.tally.news_by_datagram == 0


def test_what_a_sync_brought_is_counted_apart_and_told_on_without_an_age() -> None:
    stage = Stage("a", "b", "c")
    stage.stop_probing()
    stage.report(asked(1, roster(SyncPart(alive("b", incarnation=1).encoded))))
    assert (stage.core.tally.news_by_sync, stage.core.tally.news_by_datagram) == (1, 0)
    stage.effects.clear()
    stage.packet("a", PacketKind.PING, sequence=1, about=stage.core._shared.me.short)
    assert last_told(stage)[1] == bytes((ages.UNKNOWN,))


def test_what_i_find_out_after_a_datagram_or_a_sync_is_my_own_news() -> None:
    stage = Stage("a", "b", "c")
    stage.stop_probing()
    stage.tell("a", alive("b", incarnation=1), ages=b"\x50")
    stage.report(asked(1, roster(SyncPart(alive("b", incarnation=2).encoded))))
    stage._forget_news()
    stage.command(ForceLeave("c", is_pruned=False))
    stage.packet("a", PacketKind.PING, sequence=1, about=short("me"))
    assert last_told(stage)[1] == b"\x00"
    assert (stage.core.tally.news_by_datagram, stage.core.tally.news_by_sync) == (1, 1)
