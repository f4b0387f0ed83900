"""What a client agent asks servers besides keys: changes, questions, renewals in batches."""

from __future__ import annotations

from adsum import forwarded
from adsum.agent.asking import (
    AnswerForwarded,
    AskServer,
    ForwardRead,
    ForwardRenewal,
    ForwardWrite,
    GiveUpForwarded,
    ServerAnswered,
    ServerRefused,
    ServerUnreached,
)
from adsum.agent.forwarding import REQUESTS_MAX
from adsum.dedup import DedupKey
from adsum.forwarded import ForwardedChange, FoundPiece, Renewed, RenewSessions
from adsum.kv import KeyCause, ReadMode
from adsum.session import Session, SessionDestroy
from adsum.store_requests import SessionRead, SessionsFound, SessionShape
from tests.agent.test_forwarding import DONE, PUT, WALL_MS, A, B, Road, refused

DESTROY = SessionDestroy("6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01")
SESSION = Session("s1", "n1", b"", 0, 0)
LIST = SessionRead(SessionShape.ALL)
LIST_AFTER_7 = SessionRead(SessionShape.ALL, since=7)
FOUND = SessionsFound(9, [SESSION])
LEADER_NS, FOLLOWER_NS = 3_000_000_000, 1_000_000_000


def changes(ticket: int, server: bytes, *, attempt: int = 0, timeout_ns: int = LEADER_NS) -> AskServer:
    key = DedupKey("me", 5, 1, 1, attempt)
    body = forwarded.encode(ForwardedChange(DESTROY, key, WALL_MS, 0))
    return AskServer(ticket, server, "store.change", body, timeout_ns)


def asks(ticket: int, server: bytes, read: SessionRead, timeout_ns: int = LEADER_NS) -> AskServer:
    return AskServer(ticket, server, "store.read", forwarded.encode(read), timeout_ns)


def renews(ticket: int, server: bytes, *ids: str, timeout_ns: int = LEADER_NS) -> AskServer:
    return AskServer(ticket, server, "session.renew", forwarded.encode(RenewSessions(ids)), timeout_ns)


def renewed(*sessions: Session | None) -> bytes:
    return forwarded.encode(Renewed(list(sessions)))


def whole(found: SessionsFound) -> bytes:
    return forwarded.encode(FoundPiece(forwarded.encode(found)))


def test_a_change_is_named_as_a_write_of_a_key_is_and_goes_to_the_leader() -> None:
    road = Road(A, B, leader=B)
    assert road.asked(ForwardWrite(DESTROY, "d")) == [changes(1, B)]
    [answer] = road.told(ServerAnswered(1, DONE))
    assert isinstance(answer, AnswerForwarded)
    assert answer.token == "d"


def test_a_change_that_may_have_been_done_is_tried_again_as_a_later_attempt() -> None:
    road = Road(A, B, leader=B)
    road.asked(ForwardWrite(DESTROY, "d"))
    road.told(ServerUnreached(1, is_sent=True, sentence="the line broke"))
    assert road.at(50) == [changes(2, A, attempt=1, timeout_ns=FOLLOWER_NS)]


def test_sessions_are_asked_of_the_leader_and_their_index_is_known_from_then_on() -> None:
    road = Road(A, B, leader=B)
    assert road.asked(ForwardRead(LIST, "r")) == [asks(1, B, LIST)]
    assert road.told(ServerAnswered(1, whole(FOUND))) == [AnswerForwarded("r", FOUND)]
    assert road.core.seen == 9


def test_those_who_wait_for_the_same_sessions_are_one_call() -> None:
    road = Road(A)
    assert len(road.asked(ForwardRead(LIST_AFTER_7, "r"))) == 1
    assert road.asked(ForwardRead(LIST_AFTER_7, "s")) == []
    assert road.told(ServerAnswered(1, whole(FOUND))) == [
        AnswerForwarded("r", FOUND),
        AnswerForwarded("s", FOUND),
    ]


def test_a_stale_question_about_sessions_goes_to_any_server_and_needs_no_leader() -> None:
    road = Road(A)
    stale = SessionRead(SessionShape.ALL, mode=ReadMode.STALE)
    assert road.asked(ForwardRead(stale, "r")) == [asks(1, A, stale, FOLLOWER_NS)]


def test_an_answer_in_pieces_is_fetched_and_put_together() -> None:
    road = Road(A)
    road.asked(ForwardRead(LIST, "r"))
    body = forwarded.encode(FOUND)
    first, second = FoundPiece(body[:5], 17), FoundPiece(body[5:])
    more = AskServer(2, A, "key.more", forwarded.encode(17), FOLLOWER_NS)
    assert road.told(ServerAnswered(1, forwarded.encode(first))) == [more]
    assert road.told(ServerAnswered(2, forwarded.encode(second))) == [AnswerForwarded("r", FOUND)]


def test_renewals_gather_for_five_milliseconds_and_leave_in_one_batch() -> None:
    road = Road(A, leader=A)
    assert road.asked(ForwardRenewal("s1", "a")) == []
    assert road.asked(ForwardRenewal("s2", "b")) == []
    assert road.asked(ForwardRenewal("s1", "c")) == []
    assert road.core.deadline() == 5_000_000
    assert road.at(5) == [renews(1, A, "s1", "s2")]
    assert road.told(ServerAnswered(1, renewed(SESSION, None))) == [
        AnswerForwarded("a", SESSION),
        AnswerForwarded("b", None),
        AnswerForwarded("c", SESSION),
    ]
    assert road.core.deadline() is None


def test_a_batch_has_at_most_1024_sessions() -> None:
    road = Road(A, leader=A)
    sent = [effect for number in range(1_025) for effect in road.asked(ForwardRenewal(f"s{number}", number))]
    assert sent == [renews(1, A, *(f"s{number}" for number in range(1_024)))]
    assert road.at(99) == []
    assert road.at(100) == [renews(2, A, "s1024")]


def test_batches_are_a_hundred_milliseconds_apart_and_one_alone_does_not_wait_for_that() -> None:
    road = Road(A, leader=A)
    road.asked(ForwardRenewal("s1", "a"))
    assert road.at(5) == [renews(1, A, "s1")]
    road.asked(ForwardRenewal("s2", "b"))
    assert road.at(104) == []
    assert road.at(105) == [renews(2, A, "s2")]
    assert road.at(1_000) == []
    road.asked(ForwardRenewal("s3", "c"))
    assert road.core.deadline() == 1_005_000_000
    assert road.at(1_005) == [renews(3, A, "s3")]


def test_renewals_that_found_no_leader_are_held_and_tried_again_as_they_are() -> None:
    road = Road(A, B, leader=B)
    road.asked(ForwardRenewal("s1", "a"))
    road.at(5)
    assert road.told(ServerUnreached(1, is_sent=True, sentence="the line broke")) == []
    assert road.at(55) == [renews(2, A, "s1", timeout_ns=FOLLOWER_NS)]
    answers = road.told(ServerAnswered(2, renewed(SESSION)))
    assert answers == [AnswerForwarded("a", SESSION)]


def test_renewals_that_are_held_for_too_long_are_refused_with_the_last_reason() -> None:
    road = Road(A)
    road.asked(ForwardRenewal("s1", "a"))
    road.at(6)
    [answer] = road.told(ServerRefused(1, KeyCause.NO_LEADER, "an election is on")) + road.at(7_010)
    assert refused(answer) == (
        KeyCause.NO_LEADER,
        "it was held for 7 s, and at last: an election is on",
    )


def test_an_answer_with_too_few_sessions_is_none() -> None:
    road = Road(A)
    road.asked(ForwardRenewal("s1", "a"))
    road.at(5)
    assert road.told(ServerAnswered(1, renewed())) == []
    assert road.at(55) == [renews(2, A, "s1", timeout_ns=FOLLOWER_NS)]


def test_whoever_gives_a_renewal_up_is_not_answered_and_the_others_are() -> None:
    road = Road(A, leader=A)
    road.asked(ForwardRenewal("s1", "a"))
    road.asked(ForwardRenewal("s2", "b"))
    road.asked(GiveUpForwarded("a"))
    assert road.at(5) == [renews(1, A, "s1", "s2")]
    assert road.told(ServerAnswered(1, renewed(SESSION, SESSION))) == [AnswerForwarded("b", SESSION)]


def test_a_batch_that_nobody_waits_for_is_not_sent() -> None:
    road = Road(A, leader=A)
    road.asked(ForwardRenewal("s1", "a"))
    road.asked(GiveUpForwarded("a"))
    assert road.core.deadline() is None
    assert road.at(5) == []


def test_writes_that_wait_leave_room_for_renewals() -> None:
    road = Road(A)
    for number in range(REQUESTS_MAX):
        road.asked(ForwardWrite(PUT, number))
    road.asked(ForwardRenewal("s1", "a"))
    assert any(effect == renews(REQUESTS_MAX + 1, A, "s1", timeout_ns=FOLLOWER_NS) for effect in road.at(5))
