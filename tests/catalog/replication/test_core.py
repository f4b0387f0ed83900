from __future__ import annotations

import cbor2

from adsum.agent.saved_catalog import spans_of, told_of
from adsum.catalog.replication.deltas import Delta, push
from adsum.catalog.replication.effects import CarryThis, Confirmed, ForeignNews, OwnerChanged, RootMoved
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.pushes import Urgency
from adsum.catalog.replication.store_news import StoreNews
from adsum.now import HOUR, MINUTE, SECOND
from adsum.owners import STORE
from tests.catalog.replication.support import Group, Peer, at, values


def test_a_change_is_one_push_that_makes_the_other_complete() -> None:
    one, other = Peer(1), Peer(2)
    other.core.joined(at(0), one.short)
    one.core.publisher.put(0, "node", b"record")
    one.core.publisher.put(0, "web", b"service")
    one.core.tick(at(0))
    payloads = one.payloads()
    assert len(payloads) == 1
    other.core.hear(at(1), one.short, payloads)
    assert values(other, one) == {0: b"record", 1: b"service"}
    state = other.core.state(one.short)
    assert state is not None
    assert state.is_complete
    carried, changed = other.take()[0], other.take()
    assert isinstance(carried, OwnerChanged)
    assert changed == []


def test_the_flip_of_a_check_is_at_most_48_bytes() -> None:
    one = Peer(1, generation=1_800_000_000_000)
    for number in range(61):
        one.core.publisher.put(0, f"item {number}", b"a definition of some length")
    one.core.tick(at(0))
    one.take()
    for flip in range(300):
        due_ns = (flip + 1) * SECOND
        one.core.publisher.put(due_ns, "item 40", cbor2.dumps([3, 39, flip % 2]), Urgency.PASSING)
        one.core.tick(at(due_ns))
    assert max(len(payload) for payload in one.payloads()) <= 48


def test_what_is_news_is_told_on_unchanged_and_once() -> None:
    one, other = Peer(1), Peer(2)
    other.core.joined(at(0), one.short)
    one.core.publisher.put(0, "web", b"service")
    one.core.tick(at(0))
    payloads = one.payloads()
    other.core.hear(at(1), one.short, payloads)
    effects = other.take()
    assert [each.payload for each in effects if isinstance(each, CarryThis)] == list(payloads)
    assert isinstance(effects[-1], RootMoved)
    other.core.hear(at(2), one.short, payloads)
    assert other.take() == []
    assert other.core.tally.known == 1


def test_who_missed_a_push_gets_it_by_an_exchange() -> None:
    group = Group(2)
    one, other = group.peers
    group.pass_time(2 * SECOND)
    one.core.publisher.put(group.now.monotonic_ns, "web", b"service")
    group.mix(5 * SECOND)
    assert values(other, one) == {1: b"service"}
    assert one.core.root == other.core.root


def test_foreign_news_of_my_own_records_are_not_applied_but_reported() -> None:
    one, clone, other = Peer(1), Peer(1, generation=7), Peer(2)
    one.core.joined(at(0), other.short)
    clone.core.publisher.put(0, "web", b"service")
    clone.core.tick(at(0))
    one.core.hear(at(1), other.short, clone.payloads())
    assert one.take() == [ForeignNews(other.short, 7, 1)]
    one.core.hear(at(2), other.short, clone.payloads())
    assert one.take() == []
    assert values(one, one) == {}
    assert one.core.tally.dropped == {"foreign": 1}


# The store: one more owner, which is no member.

RECORD = Item(3, 5, b"nothing that this version understands")


def told_of_the_store(version: int = 5) -> bytes:
    return push(STORE, 7, version, term(RECORD), [RECORD])


def test_what_the_store_publishes_is_kept_and_told_on_though_it_is_no_member() -> None:
    one, server = Peer(1), Peer(2)
    one.core.hear(at(1), server.short, (told_of_the_store(),))
    assert one.core.state(STORE) is None  # it is not known to be a server
    one.core.servers_changed(at(2), [server.short])
    assert one.payloads() == (told_of_the_store(),)
    state = one.core.state(STORE)
    assert state is not None
    assert (state.items, state.is_complete) == ({3: RECORD}, True)


def test_what_the_store_publishes_reaches_by_an_exchange_who_missed_it() -> None:
    group = Group(3)
    one, other, server = group.peers
    group.pass_time(2 * SECOND)
    for peer in (one, other):
        peer.core.servers_changed(group.now, [server.short])
    server.core.publish_store(group.now, news(5, RECORD, is_whole=True))
    one.core.hear(group.now, server.short, (told_of_the_store(),))
    one.payloads()
    group.mix(5 * SECOND)
    state = other.core.state(STORE)
    assert state is not None
    assert state.items == {3: RECORD}
    assert one.core.root == other.core.root


def test_only_servers_are_asked_for_a_proof_of_what_the_store_publishes() -> None:
    group = Group(2)
    one, other = group.peers
    group.pass_time(5 * SECOND)
    other.core.publish_store(group.now, news(1, Item(1, 1, b"node"), is_whole=True))
    one.core.confirm(group.now, 9)
    group.settle_calls()
    assert Confirmed(9, "") in one.take()
    assert one.core.state(STORE) is None
    one.core.servers_changed(group.now, [other.short])
    one.core.confirm(group.now, 10)
    group.settle_calls()
    assert Confirmed(10, "") in one.take()
    state = one.core.state(STORE)
    assert state is not None
    assert [item.value for item in state.live()] == [b"node"]


def test_a_generation_of_the_store_is_judged_by_no_clock() -> None:
    """It begins with that of whoever registered something first, and nobody has to wait until it is over."""
    one, server = Peer(1), Peer(2)
    one.core.servers_changed(at(1), [server.short])
    next_week = at(1).wall_ms + 7 * 24 * 3_600_000
    one.core.hear(at(1), server.short, (push(STORE, next_week, 5, term(RECORD), [RECORD]),))
    assert one.core.store_told == (next_week, 5)
    state = one.core.state(STORE)
    assert state is not None
    assert state.items == {3: RECORD}


def news(version: int, *items: Item, is_whole: bool = False, tells: bool = True) -> StoreNews:
    return StoreNews(7, version, items, is_whole=is_whole, tells=tells)


def test_a_server_that_leads_tells_what_its_state_machine_has() -> None:
    server, agent = Peer(1), Peer(2)
    agent.core.servers_changed(at(1), [server.short])
    server.core.publish_store(at(1), news(2, Item(1, 1, b"node"), Item(2, 2, b"service"), is_whole=True))
    server.core.tick(at(1))
    agent.core.hear(at(1), server.short, server.payloads())
    state = agent.core.state(STORE)
    assert state is not None
    assert ([item.value for item in state.live()], state.is_complete) == ([b"node", b"service"], True)
    assert agent.core.root == server.core.root


def test_a_server_that_follows_has_the_same_and_tells_nobody() -> None:
    leader, follower = Peer(1), Peer(2)
    for server, tells in ((leader, True), (follower, False)):
        server.core.publish_store(at(1), news(1, Item(1, 1, b"node"), is_whole=True, tells=tells))
        server.core.publish_store(at(2), news(2, Item(1, 2, None), tells=tells))
        server.core.tick(at(2))
    assert follower.payloads() == ()
    assert leader.core.root == follower.core.root


def test_a_server_takes_nothing_of_the_store_from_others() -> None:
    one = Peer(1)
    one.core.publish_store(at(1), news(1, Item(1, 1, b"node"), is_whole=True))
    one.core.hear(at(1), Peer(2).short, (told_of_the_store(),))
    one.core.servers_changed(at(2), [])
    one.core.tick(at(80 * HOUR))
    state = one.core.state(STORE)
    assert state is not None
    assert (state.version, [item.value for item in state.live()]) == (1, [b"node"])


def test_who_missed_a_removal_in_the_store_is_told_by_an_exchange() -> None:
    group = Group(2)
    server, agent = group.peers
    group.pass_time(2 * SECOND)
    agent.core.servers_changed(group.now, [server.short])
    server.core.publish_store(group.now, news(2, Item(1, 1, b"a"), Item(2, 2, b"b"), is_whole=True))
    group.mix(5 * SECOND)
    server.core.publish_store(group.now, news(3, Item(1, 3, None), tells=False))
    group.mix(10 * SECOND)
    state = agent.core.state(STORE)
    assert state is not None
    assert [item.value for item in state.live()] == [b"b"]


def test_without_servers_the_store_s_copy_stands_as_long_as_that_of_an_agent_that_failed() -> None:
    one, server = Peer(1), Peer(2)
    one.core.servers_changed(at(1), [server.short])
    one.core.hear(at(1), server.short, (told_of_the_store(),))
    one.core.servers_changed(at(2), [])
    one.core.tick(at(71 * HOUR))
    assert one.core.state(STORE) is not None
    one.core.tick(at(73 * HOUR))
    assert one.core.state(STORE) is None
    one.core.servers_changed(at(74 * HOUR), [server.short])  # what is still in force is taken again
    one.core.hear(at(74 * HOUR), server.short, (told_of_the_store(),))
    assert one.core.state(STORE) is not None


def test_what_the_last_run_had_of_the_store_counts_from_then_on_and_gives_way_to_servers() -> None:
    before, one, server, other = Peer(1), Peer(1), Peer(2), Peer(3)
    before.core.servers_changed(at(1), [server.short])
    before.core.hear(at(1), server.short, (told_of_the_store(),))
    told = saved_of_the_store(before)
    one.core.recall_store(at(1), told, 2 * HOUR)
    one.core.hear(at(2), other.short, (push(STORE, 7, 6, 0, [Item(4, 6, b"more")]),))
    state = one.core.state(STORE)
    assert state is not None
    assert sorted(state.items) == [3, 4]
    one.core.tick(at(69 * HOUR))
    assert one.core.state(STORE) is not None
    one.core.tick(at(71 * HOUR))
    assert one.core.state(STORE) is None

    one = Peer(1)
    one.core.recall_store(at(1), told, 0)
    one.core.servers_changed(at(2), [server.short])
    one.core.hear(at(3), server.short, (push(STORE, 8, 1, term(Item(1, 1, b"a")), [Item(1, 1, b"a")]),))
    one.core.tick(at(MINUTE))
    state = one.core.state(STORE)
    assert state is not None
    assert [item.value for item in state.live()] == [b"a"]


def saved_of_the_store(peer: Peer) -> Delta:
    state = peer.core.state(STORE)
    assert state is not None
    told = told_of(spans_of(state))
    assert told is not None
    return told


def test_a_large_store_that_was_saved_is_shown_at_once() -> None:
    before, one = Peer(1), Peer(1)
    items = tuple(Item(number, number + 1, bytes(1_000)) for number in range(300))
    before.core.publish_store(at(1), StoreNews(7, 300, items, is_whole=True, tells=False))
    state = before.core.state(STORE)
    assert state is not None
    assert len(list(spans_of(state))) == 5
    one.core.recall_store(at(1), saved_of_the_store(before), 0)
    changed = [each for each in one.take() if isinstance(each, OwnerChanged)]
    assert [len(each.after.items) for each in changed if each.after is not None] == [300]
    recalled = one.core.state(STORE)
    assert recalled is not None
    assert recalled.is_complete


def test_a_store_that_was_saved_three_days_after_the_last_server_went_is_not_shown() -> None:
    before, one = Peer(1), Peer(1)
    before.core.publish_store(at(1), news(5, RECORD, is_whole=True))
    one.core.recall_store(at(1), saved_of_the_store(before), 72 * HOUR)
    assert one.core.state(STORE) is None


def test_since_when_no_server_is_there_is_known_over_a_restart() -> None:
    before, one, server = Peer(1), Peer(1), Peer(2)
    before.core.servers_changed(at(1), [server.short])
    before.core.hear(at(1), server.short, (told_of_the_store(),))
    assert before.core.store_gone_ns() is None
    before.core.servers_changed(at(HOUR), [])
    assert before.core.store_gone_ns() == HOUR
    one.core.recall_store(at(3 * HOUR), saved_of_the_store(before), 2 * HOUR)
    assert one.core.store_gone_ns() == HOUR


def test_a_server_that_is_back_and_tells_nothing_new_keeps_the_store_s_copy() -> None:
    one, server = Peer(1), Peer(2)
    one.core.servers_changed(at(1), [server.short])
    one.core.hear(at(1), server.short, (told_of_the_store(),))
    one.core.servers_changed(at(2), [])
    one.core.servers_changed(at(MINUTE), [server.short])
    assert one.core.store_gone_ns() is None
    one.core.tick(at(73 * HOUR))
    one.core.servers_changed(at(73 * HOUR), [])
    one.core.tick(at(74 * HOUR))
    assert one.core.state(STORE) is not None


def test_an_agent_that_nobody_introduced_is_not_kept() -> None:
    one = Peer(1)
    one.core.hear(at(1), Peer(2).short, (push(b"@storf\0\0", 7, 5, term(RECORD), [RECORD]),))
    assert one.payloads() == ()
    assert b"@storf\0\0" not in one.core.owners()
