"""Who may tell of the store: servers, and everybody else within what a server named."""

from __future__ import annotations

import pytest

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import FRAME_BYTES
from adsum.catalog.replication.deltas import decode, push
from adsum.catalog.replication.effects import AskPeer, CarryThis
from adsum.catalog.replication.exchanges import STORE_AWAITED_NS_MAX
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.state import span_of
from adsum.catalog.replication.store_doubts import ANSWER_NS, DOUBT_NS
from adsum.catalog.replication.store_news import StoreNews
from adsum.catalog.replication.store_word import DENIED_NS
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.owners import STORE
from tests.catalog.replication.support import Group, Peer, at

TRUE, FALSE = b"what the servers have", b"what an agent brought along"


def told(generation: int, value: bytes, version: int = 5) -> bytes:
    item = Item(3, version, value)
    return push(STORE, generation, version, term(item), [item])


def published(generation: int, value: bytes, version: int = 5) -> StoreNews:
    return StoreNews(generation, version, (Item(3, version, value),), is_whole=True, tells=False)


def has(peer: Peer) -> list[bytes | None]:
    state = peer.core.state(STORE)
    return [item.value for item in state.live()] if state is not None else []


def asks(peer: Peer) -> list[AskPeer]:
    effects = peer.take()
    peer.effects = [each for each in effects if not isinstance(each, AskPeer)]
    return [each for each in effects if isinstance(each, AskPeer)]


def brought_along(peer: Peer, *, items: int = 1, item_bytes: int = 10) -> None:
    """What a server of another cluster told it: generation 8."""
    gone, servers = Peer(200), peer.core._copies.store_word.servers
    peer.core.servers_changed(at(0), [gone.short])
    values = [Item(number, number, bytes(item_bytes)) for number in range(1, items + 1)]
    gone.core.publish_store(at(0), StoreNews(8, items, tuple(values), is_whole=True, tells=False))
    state = gone.core.state(STORE)
    assert state is not None
    holding = peer.core._copies.entry(STORE)
    assert holding is not None
    while holding.front is None or holding.front.low_water < items:
        since = holding.front.low_water if holding.front is not None else 0
        encoded, _ = span_of(state, since, FRAME_BYTES)
        peer.core._copies.hear(at(0), gone.short, holding, decode(encoded), is_push=False)
    peer.core.servers_changed(at(0), servers)
    peer.take()


def known_servers(servers: int) -> tuple[Group, Peer, Peer, list[Peer]]:
    """An agent, another one, and servers that publish generation 7."""
    group = Group(2 + servers)
    one, other, *publishing = group.peers
    group.pass_time(5 * SECOND)
    for server in publishing:
        server.core.publish_store(group.now, published(7, TRUE))
    for peer in (one, other):
        peer.core.servers_changed(group.now, [server.short for server in publishing])
    return group, one, other, publishing


def test_what_no_server_named_is_neither_shown_nor_told_on_before_a_server_was_asked() -> None:
    group, one, other, servers = known_servers(3)
    one.core.hear(group.now, other.short, (told(7, TRUE),))
    assert (has(one), one.payloads()) == ([], ())
    group.pass_time(SECOND // 10, answers=False)
    (ask,) = asks(one)
    assert (ask.to in {server.short for server in servers}, ask.method) == (True, "catalog.confirm")
    body = group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body)
    one.core.answered(group.now, ask.ticket, body)
    assert has(one) == [TRUE]
    assert one.payloads() == (told(7, TRUE),)


def test_what_two_servers_do_not_know_is_dropped_and_the_copy_stands() -> None:
    group, one, other, servers = known_servers(3)
    one.core.hear(group.now, servers[0].short, (told(7, TRUE),))
    one.payloads()
    one.core.hear(group.now, other.short, (told(8, FALSE),))
    asked = []
    for _ in range(10):
        group.pass_time(SECOND // 10, answers=False)
        asked += (found := asks(one))
        for ask in found:
            body = group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body)
            one.core.answered(group.now, ask.ticket, body)
    assert len({ask.to for ask in asked}) == len(asked) == 2
    assert (has(one), one.payloads(), one.core.tally.dropped) == ([TRUE], (), {"in doubt": 1})


def test_one_server_that_is_behind_settles_nothing() -> None:
    group, one, other, (behind, ahead) = known_servers(2)
    ahead.core.publish_store(group.now, published(8, b"newer"))
    one.core.servers_changed(group.now, [behind.short])
    one.core.hear(group.now, other.short, (told(8, b"newer"),))
    group.pass_time(SECOND // 10, answers=False)
    (ask,) = asks(one)
    assert ask.to == behind.short
    one.core.servers_changed(group.now, [behind.short, ahead.short])
    body = behind.core.asked(group.now, one.short, ask.method, ask.body)
    one.core.answered(group.now, ask.ticket, body)
    group.pass_time(SECOND // 10)
    assert has(one) == [b"newer"]


def test_where_there_is_one_server_its_word_is_enough() -> None:
    group, one, other, (server,) = known_servers(1)
    one.core.hear(group.now, other.short, (told(8, FALSE),))
    group.pass_time(SECOND)
    assert (has(one), one.core.tally.dropped) == ([TRUE], {"in doubt": 1})  # it named 7 with its answer
    one.core.hear(group.now, other.short, (told(7, b"newer", version=6),))
    assert has(one) == [b"newer"]
    assert server.core.store_told == (0, 0)


@pytest.mark.parametrize("answer", [None, bodies.BUSY, b"\xff nonsense"])
def test_who_does_not_answer_is_asked_again_or_replaced_and_that_ends(answer: bytes | None) -> None:
    group, one, other, _ = known_servers(2)
    one.core.hear(group.now, other.short, (told(8, FALSE),))
    asked = 0
    for _ in range(2 * DOUBT_NS // (SECOND // 10)):
        group.pass_time(SECOND // 10, answers=False)
        for ask in asks(one):
            if ask.method == "catalog.confirm":
                asked += 1
                one.core.answered(group.now, ask.ticket, answer)
            else:
                one.core.answered(group.now, ask.ticket, None)
    assert 30 <= asked <= 50
    assert has(one) == []
    assert one.core.tally.dropped["in doubt"] == 1


def test_a_server_that_hangs_is_not_waited_for() -> None:
    group, one, other, _ = known_servers(2)
    one.core.hear(group.now, other.short, (told(7, TRUE),))
    group.pass_time(SECOND // 10, answers=False)
    (hung,) = asks(one)
    group.pass_time(ANSWER_NS, answers=False)
    (again,) = asks(one)
    body = group.by_short[again.to].core.asked(group.now, one.short, again.method, again.body)
    one.core.answered(group.now, again.ticket, body)
    assert has(one) == [TRUE]
    one.core.answered(group.now, hung.ticket, None)
    assert asks(one) == []


def test_whoever_goes_on_telling_what_servers_do_not_know_costs_them_a_question_in_three_seconds() -> None:
    group, one, other, servers = known_servers(3)
    one.core.hear(group.now, servers[0].short, (told(7, TRUE),))
    for number in range(60):
        one.core.hear(group.now, other.short, (told(8, b"%d" % number, version=number + 1),))
        group.pass_time(SECOND // 10)
    assert has(one) == [TRUE]
    assert DENIED_NS == 3 * SECOND
    assert one.core.tally.asked_bytes < 10 * 1_100
    assert all(server.core.store_told == (0, 0) for server in servers)


def test_within_a_named_generation_news_come_from_anybody_also_while_no_server_is_there() -> None:
    one, other, server = Peer(1), Peer(2), Peer(3)
    one.core.servers_changed(at(1), [server.short])
    one.core.hear(at(1), server.short, (told(7, TRUE),))
    one.core.servers_changed(at(2), [])
    one.core.hear(at(3), other.short, (told(7, b"the last word", version=6),))
    assert has(one) == [b"the last word"]
    one.core.hear(at(4), other.short, (told(8, FALSE),))
    one.core.tick(at(10 * MINUTE))
    assert has(one) == [b"the last word"]


def test_what_waited_for_a_server_is_asked_of_it_when_it_comes() -> None:
    group, one, other, servers = known_servers(1)
    one.core.servers_changed(group.now, [])
    one.core.hear(group.now, other.short, (told(7, TRUE),))
    group.pass_time(SECOND)
    assert has(one) == []
    one.core.servers_changed(group.now, [server.short for server in servers])
    group.pass_time(SECOND // 10)
    assert has(one) == [TRUE]


def test_an_exchange_brings_no_later_generation_from_an_agent() -> None:
    """Somebody who was in another cluster, whose servers began theirs under a later clock."""
    group, one, stranger, (server,) = known_servers(1)
    for peer in (one, stranger):
        peer.core.hear(group.now, server.short, (told(7, TRUE),))
        peer.payloads()
    gone = Peer(9)
    stranger.core.servers_changed(group.now, [gone.short])
    stranger.core.hear(group.now, gone.short, (told(8, FALSE),))
    stranger.payloads()
    stranger.core.servers_changed(group.now, [server.short])
    group.mix(20 * SECOND)
    assert (has(one), has(stranger)) == ([TRUE], [FALSE])
    assert server.core.store_told == (8, 5)  # which a leader outdoes
    server.core.publish_store(group.now, published(9, TRUE, version=1))
    group.mix(20 * SECOND)
    assert has(one) == [TRUE]
    assert one.core.root == server.core.root


def test_what_is_in_doubt_is_not_fetched() -> None:
    group, one, stranger, (server,) = known_servers(1)
    one.core.hear(group.now, server.short, (told(7, TRUE),))
    gone = Peer(9)
    stranger.core.servers_changed(group.now, [gone.short])
    stranger.core.hear(group.now, gone.short, (told(8, FALSE),))
    methods = set[str]()
    for _ in range(60):
        one.core.root_heard(group.now, stranger.short, stranger.core.root)
        group.pass_time(SECOND // 10, answers=False)
        for ask in asks(one):
            methods.add(ask.method)
            body = group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body)
            one.core.answered(group.now, ask.ticket, body)
    assert methods == {"catalog.compare", "catalog.confirm"}
    assert (has(one), one.core.tally.exchanges_begun > 1) == ([TRUE], True)


def test_news_that_was_confirmed_is_told_on_once() -> None:
    group, one, other, (server,) = known_servers(1)
    for _ in range(3):
        one.core.hear(group.now, other.short, (told(7, TRUE),))
    one.core.hear(group.now, server.short, (told(7, TRUE),))
    group.pass_time(SECOND)
    carried = [each for each in one.take() if isinstance(each, CarryThis)]
    assert [each.payload for each in carried] == [told(7, TRUE)]


def test_a_store_that_nobody_takes_is_given_once_in_an_exchange_and_ever_less_often() -> None:
    group, odd, other, (server,) = known_servers(1)
    other.core.hear(group.now, server.short, (told(7, TRUE),))
    brought_along(odd, items=300, item_bytes=1_000)
    group.mix(10 * SECOND)
    calls, sent, begun = group.calls, group.call_bytes, odd.core.tally.exchanges_begun
    group.mix(MINUTE)
    assert 2 <= odd.core.tally.exchanges_begun - begun <= 8
    assert group.calls - calls < 60
    assert group.call_bytes - sent < 8 * (FRAME_BYTES + 4_000) + 60 * 1_500


def test_whose_store_is_not_taken_tells_the_leader_next_and_again_after_half_a_minute() -> None:
    group, odd, other, servers = known_servers(3)
    leader, *_followers = servers
    other.core.hear(group.now, leader.short, (told(7, TRUE),))
    brought_along(odd)
    odd.core.servers_changed(group.now, [each.short for each in servers], leader=leader.short)

    def meet_only_the_other(duration_ns: int) -> None:
        for _ in range(duration_ns // (SECOND // 10)):
            odd.core.root_heard(group.now, other.short, other.core.root)
            group.pass_time(SECOND // 10)

    meet_only_the_other(4 * SECOND)
    assert [each.core.store_told for each in servers] == [(8, 1), (0, 0), (0, 0)]
    served = leader.core.tally.exchanges_served
    meet_only_the_other(25 * SECOND)
    assert leader.core.tally.exchanges_served == served
    meet_only_the_other(2 * MINUTE)
    assert 2 <= leader.core.tally.exchanges_served - served <= 8


def test_without_a_leader_nobody_is_told_in_its_place_and_a_new_one_at_once() -> None:
    group, odd, other, servers = known_servers(2)
    other.core.hear(group.now, servers[0].short, (told(7, TRUE),))
    brought_along(odd)
    odd.core.servers_changed(group.now, [each.short for each in servers])
    for _ in range(40):
        odd.core.root_heard(group.now, other.short, other.core.root)
        group.pass_time(SECOND // 10)
    assert [each.core.store_told for each in servers] == [(0, 0), (0, 0)]
    shorts = [each.short for each in servers]
    for leader, told_so_far in ((0, [(8, 1), (0, 0)]), (1, [(8, 1), (8, 1)])):
        odd.core.servers_changed(group.now, shorts, leader=servers[leader].short)
        group.pass_time(SECOND // 10)
        assert [each.core.store_told for each in servers] == told_so_far


def test_the_leader_is_told_also_where_nobody_else_has_anything_of_the_store() -> None:
    group = Group(3)
    odd, other, leader = group.peers
    group.pass_time(5 * SECOND)
    leader.core.servers_changed(group.now, (), is_one=True)
    for peer in (odd, other):
        peer.core.servers_changed(group.now, [leader.short], leader=leader.short)
    brought_along(odd)
    odd.core.servers_changed(group.now, [leader.short], leader=leader.short)
    for _ in range(40):
        odd.core.root_heard(group.now, other.short, other.core.root)
        group.pass_time(SECOND // 10)
    assert (leader.core.store_told, has(other), has(leader)) == ((8, 1), [], [])


def test_a_newcomer_has_the_store_when_it_has_joined_also_from_a_partner_that_is_no_server() -> None:
    group, one, _other, (server,) = known_servers(1)
    one.core.hear(group.now, server.short, (told(7, TRUE),))
    newcomer = Peer(99)
    group.peers.append(newcomer)
    group.by_short[newcomer.short] = newcomer
    newcomer.core.servers_changed(group.now, [server.short])
    newcomer.core.joined(group.now, one.short)
    for _ in range(30):
        group.pass_time(10 * MILLISECOND, step_ns=10 * MILLISECOND)
        assert (newcomer.core.agreed_ns is None) == (has(newcomer) == [])
    assert has(newcomer) == [TRUE]
    assert newcomer.core.is_settled_in


def test_a_store_named_after_a_pause_does_not_stand_for_the_exchange_that_makes_up_for_it() -> None:
    group, one, other, (server,) = known_servers(1)
    other.core.hear(group.now, server.short, (told(7, TRUE),))
    doubting: list[AskPeer] = []
    while not doubting:
        one.core.root_heard(group.now, other.short, other.core.root)
        group.pass_time(SECOND // 10, answers=False)
        for ask in asks(one):
            if ask.method == "catalog.confirm":
                doubting.append(ask)
            else:
                body = group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body)
                one.core.answered(group.now, ask.ticket, body)
    one.core.compare_anew(group.now, wait_ns=SECOND)
    body = server.core.asked(group.now, one.short, "catalog.confirm", doubting[0].body)
    one.core.answered(group.now, doubting[0].ticket, body)
    group.settle_calls()
    assert not one.core.is_settled_in
    group.pass_time(2 * SECOND)
    assert (one.core.is_settled_in, has(one)) == (True, [TRUE])


def test_a_newcomer_is_not_kept_joining_by_what_servers_do_not_know() -> None:
    group, odd, _other, (server,) = known_servers(1)
    brought_along(odd)
    newcomer = Peer(99)
    group.peers.append(newcomer)
    group.by_short[newcomer.short] = newcomer
    newcomer.core.servers_changed(group.now, [server.short])
    newcomer.core.joined(group.now, odd.short)
    group.pass_time(3 * SECOND, step_ns=50 * MILLISECOND)
    assert newcomer.core.is_settled_in
    assert has(newcomer) == [TRUE]


def test_a_server_tells_all_who_lack_the_store_alone_where_it_is_with_it() -> None:
    _, _, _, (server,) = known_servers(1)
    now, body = at(MINUTE), bodies.compare(0, Peer(77).core._copies.root.pack_words())
    for number in range(1_000):
        answer = server.core.asked(now, number.to_bytes(8, "big"), bodies.CONFIRM, body)
        ((owner, generation, *_rest),), _ = bodies.read_compared(answer)
        assert (owner, generation) == (STORE, 7)


def test_an_answer_that_was_cut_before_the_store_denies_nothing() -> None:
    group, one, other, _ = known_servers(1)
    one.core.hear(group.now, other.short, (told(7, TRUE),))
    group.pass_time(SECOND // 10, answers=False)
    (ask,) = asks(one)
    one.core.answered(group.now, ask.ticket, bodies.compared([], is_more=True))
    group.pass_time(3 * SECOND // 10, answers=False)
    (again,) = asks(one)
    body = group.by_short[again.to].core.asked(group.now, one.short, again.method, again.body)
    one.core.answered(group.now, again.ticket, body)
    assert (has(one), one.core.tally.dropped) == ([TRUE], {})


def test_a_newcomer_is_not_kept_joining_by_servers_that_have_no_time() -> None:
    group, odd, _other, servers = known_servers(5)
    brought_along(odd)
    for server in servers:
        server.core.asked = lambda *_question: bodies.BUSY  # type: ignore[method-assign]
    newcomer = Peer(99)
    group.peers.append(newcomer)
    group.by_short[newcomer.short] = newcomer
    newcomer.core.servers_changed(group.now, [server.short for server in servers])
    for peer in (odd, *servers):
        newcomer.core.joined(group.now, peer.short)
    group.pass_time(STORE_AWAITED_NS_MAX + 30 * SECOND)  # five of six partners have no time
    assert newcomer.core.is_settled_in


def test_a_leader_that_has_no_time_is_told_no_more_often() -> None:
    group, odd, other, servers = known_servers(3)
    leader, *_followers = servers
    other.core.hear(group.now, leader.short, (told(7, TRUE),))
    brought_along(odd, items=300, item_bytes=1_000)
    leader.core._serving._has_time = lambda *_asked: False  # type: ignore[method-assign]
    odd.core.servers_changed(group.now, [each.short for each in servers], leader=leader.short)
    begun = odd.core.tally.exchanges_begun
    for _ in range(600):
        odd.core.root_heard(group.now, other.short, other.core.root)
        group.pass_time(SECOND // 10)
    assert odd.core.tally.exchanges_begun - begun < 15


def test_what_waits_is_shown_when_another_server_names_it_before_the_one_that_was_asked() -> None:
    group, one, other, servers = known_servers(2)
    items = [Item(number, number, b"%d" % number) for number in (1, 2, 3)]
    for server in servers:
        server.core.publish_store(group.now, StoreNews(9, 3, tuple(items), is_whole=True, tells=False))
    *early, last = pushes_of(9, items)
    one.core.hear(group.now, other.short, tuple(early))
    group.pass_time(SECOND // 10, answers=False)
    (ask,) = asks(one)
    asked = group.by_short[ask.to]
    (unasked,) = (server for server in servers if server is not asked)
    one.core.hear(group.now, unasked.short, (last,))
    body = asked.core.asked(group.now, one.short, ask.method, ask.body)
    one.core.answered(group.now, ask.ticket, body)
    assert sorted(filter(None, has(one))) == [b"1", b"2", b"3"]


def pushes_of(generation: int, items: list[Item]) -> list[bytes]:
    digest, pushes = 0, []
    for item in items:
        digest ^= term(item)
        pushes.append(push(STORE, generation, item.version, digest, [item]))
    return pushes


def test_a_server_that_answers_after_another_was_asked_settles_it_all_the_same() -> None:
    group, one, other, _ = known_servers(3)
    one.core.hear(group.now, other.short, (told(7, TRUE),))
    group.pass_time(SECOND // 10, answers=False)
    (slow,) = asks(one)
    group.pass_time(ANSWER_NS + SECOND // 10, answers=False)
    assert len(asks(one)) == 1
    body = group.by_short[slow.to].core.asked(group.now, one.short, slow.method, slow.body)
    one.core.answered(group.now, slow.ticket, body)
    assert has(one) == [TRUE]
