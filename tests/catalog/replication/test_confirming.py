"""What a member lacks is there when it has been confirmed, or it is said that nobody could be asked."""

from __future__ import annotations

import pytest

from adsum.catalog.replication import bodies
from adsum.catalog.replication.confirming import CONFIRM_NS, NOT_COMPARED, TOO_MANY, WAITING_MAX
from adsum.catalog.replication.effects import AskPeer, Confirmed
from adsum.catalog.replication.serving import PROVE_BURST
from adsum.now import MILLISECOND, SECOND
from tests.catalog.replication.support import Group, Peer, at, values


def settled(members: int) -> Group:
    """All have had their first exchange; no pushes wait."""
    group = Group(members)
    group.pass_time(5 * SECOND)
    for peer in group.peers:
        peer.take()
    return group


def published(group: Group, owner: Peer, value: bytes) -> None:
    """With a push that nobody hears."""
    owner.core.publisher.put(group.now.monotonic_ns, "web", value)
    owner.core.tick(group.now)
    owner.payloads()


def confirmed(peer: Peer) -> list[Confirmed]:
    peer.effects = peer.take()
    return [each for each in peer.effects if isinstance(each, Confirmed)]


def asks(peer: Peer) -> list[AskPeer]:
    effects = peer.take()
    peer.effects = [each for each in effects if not isinstance(each, AskPeer)]
    return [each for each in effects if isinstance(each, AskPeer)]


def test_alone_there_is_nobody_who_knows_better() -> None:
    peer = Peer(1)
    peer.core.confirm(at(0), 7)
    assert confirmed(peer) == [Confirmed(7, "")]
    assert peer.core.behind_ns(at(SECOND)) == 0


def test_what_others_have_is_there_once_it_is_confirmed() -> None:
    group = settled(3)
    one, other, third = group.peers
    published(group, other, b"new")
    assert values(one, other) == {}
    one.core.confirm(group.now, 7)
    assert confirmed(one) == []
    group.settle_calls()
    assert confirmed(one) == [Confirmed(7, "")]
    assert values(one, other) == other.published() != {}
    assert values(third, other) == {}


def test_equal_copies_are_confirmed_by_one_question_to_two_however_often_it_is_asked() -> None:
    group = settled(5)
    calls, one = group.calls, group.peers[0]
    for request in range(50):
        one.core.confirm(group.now, request)
        group.settle_calls()
    assert len(confirmed(one)) == 50
    assert group.calls - calls == 100
    assert all(not each.error for each in confirmed(one))


def test_requests_that_come_while_one_is_compared_wait_for_a_comparison_of_their_own() -> None:
    group = settled(3)
    one, other, _ = group.peers
    one.core.confirm(group.now, 1)
    first = asks(one)
    answers = [
        (ask.ticket, group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body))
        for ask in first
    ]
    published(group, other, b"after the answer")
    one.core.confirm(group.now, 2)
    one.core.confirm(group.now, 3)
    for ticket, body in answers:
        one.core.answered(group.now, ticket, body)
    assert confirmed(one) == [Confirmed(1, "")]
    assert values(one, other) == {}
    group.settle_calls()
    assert confirmed(one)[1:] == [Confirmed(2, ""), Confirmed(3, "")]
    assert values(one, other)


def test_a_server_is_among_the_two_if_there_is_one() -> None:
    group = settled(9)
    one, server = group.peers[0], group.peers[6]
    one.core.servers_changed(group.now, [server.short])
    for request in range(20):
        one.core.confirm(group.now, request)
        asked = asks(one)
        assert len({ask.to for ask in asked}) == 2
        assert server.short in {ask.to for ask in asked}
        for ask in asked:
            body = group.by_short[ask.to].core.asked(group.now, one.short, ask.method, ask.body)
            one.core.answered(group.now, ask.ticket, body)


@pytest.mark.parametrize("answer", [None, bodies.BUSY, b"\xff nonsense"])
def test_whoever_does_not_answer_is_replaced_by_another(answer: bytes | None) -> None:
    group = settled(4)
    one = group.peers[0]
    one.core.confirm(group.now, 1)
    lost, kept = asks(one)
    one.core.answered(group.now, lost.ticket, answer)
    body = group.by_short[kept.to].core.asked(group.now, one.short, kept.method, kept.body)
    one.core.answered(group.now, kept.ticket, body)
    assert confirmed(one) == []
    group.pass_time(SECOND // 2, answers=False)
    (again,) = asks(one)
    assert again.to not in (lost.to, kept.to)
    one.core.answered(group.now, again.ticket, body)
    assert confirmed(one) == [Confirmed(1, "")]


def test_one_that_hangs_is_replaced_before_the_time_is_over() -> None:
    group = settled(4)
    one = group.peers[0]
    one.core.confirm(group.now, 1)
    hung, kept = asks(one)
    body = group.by_short[kept.to].core.asked(group.now, one.short, kept.method, kept.body)
    one.core.answered(group.now, kept.ticket, body)
    group.pass_time(SECOND, answers=False)
    (again,) = asks(one)
    assert again.to not in (hung.to, kept.to)
    one.core.answered(group.now, again.ticket, body)
    assert confirmed(one) == [Confirmed(1, "")]


def test_nobody_answers_for_two_seconds_and_the_requests_are_told_so() -> None:
    group = settled(3)
    one = group.peers[0]
    one.core.confirm(group.now, 1)
    group.pass_time(CONFIRM_NS - 200 * MILLISECOND, answers=False)
    assert confirmed(one) == []
    group.pass_time(400 * MILLISECOND, answers=False)
    assert confirmed(one) == [Confirmed(1, NOT_COMPARED)]
    assert one.core.tally.confirmations_failed == 1
    (late, *_) = asks(one)
    one.core.answered(group.now, late.ticket, None)
    assert confirmed(one) == [Confirmed(1, NOT_COMPARED)]


def test_more_requests_than_may_wait_are_refused_at_once() -> None:
    group = settled(3)
    one = group.peers[0]
    for request in range(WAITING_MAX + 2):
        one.core.confirm(group.now, request)
    assert confirmed(one) == [Confirmed(WAITING_MAX + 1, TOO_MANY)]


def test_many_proofs_a_second_are_served_while_changes_are_under_way() -> None:
    group = settled(3)
    one, other, third = group.peers
    for number in range(40):
        published(group, other if number % 2 else third, b"change %d" % number)
        one.core.confirm(group.now, number)
        group.settle_calls()
        group.pass_time(SECOND // 10, answers=False)
        asks(one)
    assert len([each for each in confirmed(one) if not each.error]) == 40
    assert values(one, other) == other.published()


def test_proofs_without_end_are_turned_away_and_the_exchanges_of_others_go_on() -> None:
    group = settled(2)
    one, other = group.peers
    published(group, other, b"new")
    words = one.core._copies.root.pack_words()
    question = bodies.compare(0, words)
    answers = [
        other.core.asked(group.now, one.short, bodies.CONFIRM, question) for _ in range(PROVE_BURST + 5)
    ]
    assert answers.count(bodies.BUSY) == 5
    assert other.core.asked(group.now, one.short, bodies.COMPARE, question) != bodies.BUSY


# How old a copy may be.


def test_a_copy_is_behind_from_the_first_sight_of_another_until_they_agreed() -> None:
    group = settled(2)
    one, other = group.peers
    assert one.core.behind_ns(group.now) == 0
    published(group, other, b"new")
    seen = group.now
    one.core.root_heard(seen, other.short, other.core.root)
    assert one.core.behind_ns(at(seen.monotonic_ns + 700 * MILLISECOND)) == 700 * MILLISECOND
    group.mix(5 * SECOND)
    assert values(one, other)
    assert one.core.behind_ns(at(group.now.monotonic_ns + 2 * SECOND)) == 0


def test_a_copy_is_behind_from_the_start_until_the_first_exchange() -> None:
    one = Peer(1)
    one.core.joined(at(SECOND), Peer(2).short)
    assert one.core.behind_ns(at(3 * SECOND)) == 3 * SECOND
