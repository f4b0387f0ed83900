from __future__ import annotations

import cbor2

from adsum.catalog.replication.effects import CarryThis, ForeignNews, OwnerChanged, RootMoved
from adsum.catalog.replication.publisher import Urgency
from adsum.now import SECOND
from tests.catalog.replication.support import Group, Peer, at, values


def test_a_change_is_one_push_that_makes_the_other_complete() -> None:
    one, other = Peer(1), Peer(2)
    other.core.joined(at(0), one.short)
    one.core.publish(at(0), "node", b"record")
    one.core.publish(at(0), "web", b"service")
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
        one.core.publish(at(0), f"item {number}", b"a definition of some length")
    one.core.tick(at(0))
    one.take()
    for flip in range(300):
        one.core.publish(
            at((flip + 1) * SECOND), "item 40", cbor2.dumps([3, 39, flip % 2]), urgency=Urgency.PASSING
        )
        one.core.tick(at((flip + 1) * SECOND))
    assert max(len(payload) for payload in one.payloads()) <= 48


def test_what_is_news_is_told_on_unchanged_and_once() -> None:
    one, other = Peer(1), Peer(2)
    other.core.joined(at(0), one.short)
    one.core.publish(at(0), "web", b"service")
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
    one.core.publish(group.now, "web", b"service")
    group.mix(5 * SECOND)
    assert values(other, one) == {1: b"service"}
    assert one.core.root == other.core.root


def test_foreign_news_of_my_own_records_are_not_applied_but_reported() -> None:
    one, clone, other = Peer(1), Peer(1, generation=7), Peer(2)
    one.core.joined(at(0), other.short)
    clone.core.publish(at(0), "web", b"service")
    clone.core.tick(at(0))
    one.core.hear(at(1), other.short, clone.payloads())
    assert one.take() == [ForeignNews(other.short, 7, 1)]
    one.core.hear(at(2), other.short, clone.payloads())
    assert one.take() == []
    assert values(one, one) == {}
    assert one.core.tally.dropped == {"foreign": 1}
