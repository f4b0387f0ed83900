from __future__ import annotations

from adsum.catalog.replication import bodies
from adsum.catalog.replication.effects import AskPeer, CarryThis
from adsum.catalog.replication.pulls import PULLS_MAX
from adsum.now import SECOND
from tests.catalog.replication.support import Group, Peer, at, values

LONG = bytes(2_000)


def announced(owner: Peer, items: int = 1) -> tuple[bytes, ...]:
    for number in range(items):
        owner.core.publisher.put(0, f"item {number}", LONG)
    owner.core.tick(at(0))
    return owner.payloads()


def test_a_notice_is_fetched_from_who_told_it_and_told_on_with_the_body_here() -> None:
    owner, relay, other = Peer(1), Peer(2), Peer(3)
    relay.core.joined(at(0), owner.short)
    (notice,) = announced(owner)
    relay.core.hear(at(0), owner.short, (notice,))
    assert not [each for each in relay.take() if isinstance(each, CarryThis)]
    relay.core.tick(at(SECOND))
    (ask,) = [each for each in relay.take() if isinstance(each, AskPeer) and each.method == bodies.ITEMS]
    assert ask.to == owner.short
    body = owner.core.asked(at(SECOND), relay.short, ask.method, ask.body)
    relay.core.answered(at(SECOND), ask.ticket, body)
    assert values(relay, owner) == {1: LONG}
    assert [each.payload for each in relay.take() if isinstance(each, CarryThis)] == [notice]
    other.core.joined(at(0), owner.short)
    other.core.hear(at(SECOND), relay.short, (notice,))
    other.core.tick(at(2 * SECOND))
    (ask,) = [each for each in other.take() if isinstance(each, AskPeer) and each.method == bodies.ITEMS]
    assert ask.to == relay.short


def test_an_item_is_asked_for_once_however_often_it_is_announced() -> None:
    owner, other = Peer(1), Peer(2)
    other.core.joined(at(0), owner.short)
    (notice,) = announced(owner)
    for _ in range(8):
        other.core.hear(at(0), owner.short, (notice,))
    other.core.tick(at(SECOND))
    other.core.hear(at(SECOND), b"another1", (notice,))
    asks = [each for each in other.take() if isinstance(each, AskPeer) and each.method == bodies.ITEMS]
    assert len(asks) == 1


def test_what_cannot_be_fetched_comes_with_an_exchange() -> None:
    group = Group(2)
    owner, other = group.peers
    group.pass_time(3 * SECOND)
    owner.core.publisher.put(group.now.monotonic_ns, "web", LONG)
    owner.core.tick(group.now)
    other.core.hear(group.now, owner.short, owner.payloads())
    group.pass_time(SECOND // 2, answers=False)
    for ask in [each for each in other.take() if isinstance(each, AskPeer)]:
        other.core.answered(group.now, ask.ticket, None)
    assert other.core.tally.pulls_failed == 1
    assert values(other, owner) == {}
    group.mix(8 * SECOND)
    assert values(other, owner) == {1: LONG}


def test_no_more_than_so_many_bodies_are_wanted_at_once() -> None:
    other = Peer(200)
    for number in range(1, PULLS_MAX + 11):
        owner = Peer(number)
        other.core.joined(at(0), owner.short)
        other.core.hear(at(0), owner.short, announced(owner))
    assert other.core.tally.pulls_refused == 10


def test_an_answer_for_an_owner_that_is_gone_changes_nothing() -> None:
    owner, other = Peer(1), Peer(2)
    other.core.joined(at(0), owner.short)
    other.core.hear(at(0), owner.short, announced(owner))
    other.core.tick(at(SECOND))
    (ask,) = [each for each in other.take() if isinstance(each, AskPeer) and each.method == bodies.ITEMS]
    root = bytes(8)
    other.core.member_left(at(SECOND), owner.short, 1)
    other.core.answered(
        at(SECOND), ask.ticket, owner.core.asked(at(SECOND), other.short, ask.method, ask.body)
    )
    assert other.core.root == root
