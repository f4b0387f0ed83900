"""Requests that are held, sent on, tried again, and given an answer that is true."""

from __future__ import annotations

import pytest

from adsum.consensus import requests
from adsum.consensus.commands import GiveUp, SubmitProposal, SubmitRead
from adsum.consensus.effects import AnswerRequests, AskLeader, StoreGroup
from adsum.consensus.errors import NoLeader, OutcomeUnknown, Stopping, Unavailable
from adsum.consensus.reports import GroupStored, LeaderAnswered
from adsum.dedup import DedupKey
from adsum.now import MILLISECOND, SECOND
from adsum.raft.errors import RaftRefused, TooLarge
from adsum.raft.messages import Heartbeat
from adsum.raft.types import Term
from tests.consensus.support import STAMP, A, B, Bench, C, leading

KEY = DedupKey("client", 1, 1, 1)


def following() -> Bench:
    """B leads, and has just been heard."""
    bench = Bench((A, B, C))
    bench.core.receive(bench.now, Heartbeat(STAMP, B, A, Term(2), 1, 1))
    bench.settle()
    bench.effects.clear()
    assert bench.core.leader == B
    return bench


def submit(bench: Bench, request: SubmitProposal | SubmitRead) -> None:
    bench.effects += bench.core.command(bench.now, request)


def answers(bench: Bench) -> list[tuple[object, object]]:
    bench.settle()
    return [
        (token, type(outcome) if isinstance(outcome, Exception) else outcome)
        for effect in bench.taken(AnswerRequests)
        for token, outcome in effect.answers
    ]


def answered(bench: Bench, outcome: bytes | int | Exception) -> None:
    bench.settle()
    (asked,) = bench.taken(AskLeader)
    bench.effects += bench.core.report(bench.now, LeaderAnswered(asked.ticket, outcome))


def test_the_leader_proposes_it_itself() -> None:
    bench = leading()
    submit(bench, SubmitProposal(b"a", "a"))
    assert answers(bench) == [("a", b"heard a")]
    assert len(bench.core.requests) == 0


def test_a_read_at_the_leader_is_confirmed_there() -> None:
    bench = leading()
    submit(bench, SubmitRead("read"))
    assert answers(bench) == [("read", 2)]


def test_others_ask_the_leader_for_as_long_as_it_is_held() -> None:
    bench = following()
    submit(bench, SubmitProposal(b"a", "a", KEY))
    (asked,) = bench.taken(AskLeader)
    assert asked == AskLeader(1, "b", b"a", KEY, 7 * SECOND)
    bench.effects += bench.core.report(bench.now, LeaderAnswered(1, b"heard a"))
    assert answers(bench) == [("a", b"heard a")]


def test_a_read_of_a_follower_waits_until_the_state_machine_here_has_come_there() -> None:
    bench = following()
    submit(bench, SubmitRead("read"))
    answered(bench, 2)
    assert answers(bench) == []
    bench.core.requests.applied(2, bench.core.answers)
    bench.tick()
    assert answers(bench) == [("read", 2)]


def test_a_read_of_a_follower_is_sent_to_the_leader_when_nobody_may_join_it_any_more() -> None:
    bench = following()
    turn = bench.core.reads.turn
    submit(bench, SubmitRead("read"))
    assert (bench.taken(AskLeader), bench.core.reads.turn) == ([], turn)
    assert bench.core.deadline() == bench.now.monotonic_ns
    bench.tick()
    (asked,) = bench.taken(AskLeader)
    assert (asked.data, bench.core.reads.turn) == (None, turn + 1)


def test_a_read_whose_index_never_comes_here_is_answered_once() -> None:
    bench = following()
    submit(bench, SubmitRead("read"))
    answered(bench, 9)
    bench.pass_ms(7_000)
    assert answers(bench) == [("read", OutcomeUnknown)]
    bench.core.requests.applied(9, bench.core.answers)
    assert answers(bench) == []


def test_while_nobody_leads_it_is_held_and_in_the_end_nothing_was_done() -> None:
    bench = Bench((A, B, C))
    submit(bench, SubmitProposal(b"a", "a"))
    bench.pass_ms(6_999)
    assert answers(bench) == []
    bench.pass_ms(1)
    (effect,) = bench.taken(AnswerRequests)
    ((token, outcome),) = effect.answers
    assert (token, type(outcome)) == ("a", NoLeader)
    assert str(outcome) == "it was held for 7 s, and at last: no leader is known"


@pytest.mark.parametrize("dedup", [None, KEY], ids=["without a key", "with a key"])
def test_what_certainly_came_to_nothing_is_tried_again_after_a_moment(dedup: DedupKey | None) -> None:
    bench = following()
    submit(bench, SubmitProposal(b"a", "a", dedup))
    answered(bench, Unavailable("not sent"))
    assert answers(bench) == []
    assert bench.taken(AskLeader) == []
    bench.pass_ms(50)
    (again,) = bench.taken(AskLeader)
    assert (again.data, again.dedup, again.timeout_ns) == (b"a", dedup, 6_950 * MILLISECOND)


def test_what_may_have_happened_is_tried_again_only_under_its_key() -> None:
    bench = following()
    submit(bench, SubmitProposal(b"a", "without"))
    answered(bench, OutcomeUnknown("the line broke"))
    assert answers(bench) == [("without", OutcomeUnknown)]
    submit(bench, SubmitProposal(b"b", "with", KEY))
    answered(bench, OutcomeUnknown("the line broke"))
    assert answers(bench) == []
    bench.pass_ms(50)
    (again,) = bench.taken(AskLeader)
    assert again.dedup == KEY.again()


def test_what_the_old_leader_never_answers_is_asked_of_the_new_one() -> None:
    """It stands still, and its connection with it."""
    bench = following()
    submit(bench, SubmitProposal(b"a", "with", KEY))
    submit(bench, SubmitRead("read"))
    submit(bench, SubmitProposal(b"b", "without"))
    bench.settle()
    bench.taken(AskLeader)
    bench.core.receive(bench.now, Heartbeat(STAMP, C, A, Term(3), 1, 1))
    bench.settle()
    bench.pass_ms(50)
    again = [(asked.node, asked.data, asked.dedup) for asked in bench.taken(AskLeader)]
    assert again == [("c", b"a", KEY.again()), ("c", None, None)]
    assert answers(bench) == []
    bench.effects += bench.core.report(bench.now, LeaderAnswered(1, b"by the old one, at last"))
    assert answers(bench) == []


def tried_in_vain_and_tried_again() -> Bench:
    """The line broke after the leader had it, and then the leader could not be asked."""
    bench = following()
    submit(bench, SubmitProposal(b"a", "a", KEY))
    answered(bench, OutcomeUnknown("the line broke"))
    bench.pass_ms(50)
    answered(bench, Unavailable("nobody is there"))
    assert answers(bench) == []
    return bench


def test_that_the_last_try_came_to_nothing_says_nothing_of_the_ones_before() -> None:
    bench = tried_in_vain_and_tried_again()
    bench.core.receive(bench.now, Heartbeat(STAMP, C, A, Term(3), 1, 1))
    bench.pass_ms(50)
    answered(bench, RaftRefused("no"))
    assert answers(bench) == [("a", OutcomeUnknown)]


def test_what_may_have_happened_is_unknown_also_when_nobody_leads_any_more() -> None:
    bench = tried_in_vain_and_tried_again()
    bench.core.raft.campaign()  # the leader is silent
    bench.pass_ms(7_000)
    assert bench.core.leader is None
    assert answers(bench) == [("a", OutcomeUnknown)]


def test_what_may_have_happened_is_unknown_also_when_the_process_ends_between_two_tries() -> None:
    bench = tried_in_vain_and_tried_again()
    bench.effects += bench.core.end()
    assert answers(bench) == [("a", OutcomeUnknown)]


def test_what_is_the_callers_mistake_is_said_at_once() -> None:
    bench = following()
    submit(bench, SubmitProposal(b"a", "a", KEY))
    answered(bench, RaftRefused("no"))
    assert answers(bench) == [("a", RaftRefused)]


@pytest.mark.parametrize("server", ["leads", "follows", "knows no leader"])
def test_what_no_leader_could_take_is_refused_before_it_is_held(server: str) -> None:
    bench = {"leads": leading, "follows": following}.get(server, lambda: Bench((A, B, C)))()
    with pytest.raises(TooLarge):
        submit(bench, SubmitProposal(b"x" * ((8 << 20) + 1), "large"))
    with pytest.raises(AssertionError, match="it cannot be read back"):
        submit(bench, SubmitProposal(b"x", "nobody's", DedupKey("", 1, 1, 1)))
    assert (answers(bench), len(bench.core.requests)) == ([], 0)
    assert bench.taken(AskLeader) == []


def test_what_is_not_answered_in_time_is_unknown_and_a_late_answer_is_nobodys() -> None:
    bench = leading()
    submit(bench, SubmitProposal(b"a", "a"))
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    bench.pass_ms(7_000)
    told = [answer for effect in bench.taken(AnswerRequests) for answer in effect.answers]
    assert [(token, type(outcome)) for token, outcome in told] == [("a", OutcomeUnknown)]
    bench.effects += bench.core.report(bench.now, GroupStored(group.ticket, needs_segment=False))
    assert answers(bench) == []


def test_whoever_gives_up_is_not_tried_again() -> None:
    bench = following()
    submit(bench, SubmitProposal(b"a", "a", KEY))
    answered(bench, Unavailable("not sent"))
    bench.effects += bench.core.command(bench.now, GiveUp("a"))
    bench.pass_ms(8_000)
    assert bench.taken(AskLeader) == []
    assert bench.taken(AnswerRequests) == []


def test_more_than_the_api_has_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "HELD_MAX", 1)
    bench = following()
    submit(bench, SubmitProposal(b"a", "a"))
    with pytest.raises(Unavailable, match="1 requests wait for an answer"):
        submit(bench, SubmitProposal(b"b", "b"))


def test_when_the_process_ends_each_is_told_what_may_have_happened() -> None:
    bench = following()
    for token in ("tried", "read", "waits"):
        submit(bench, SubmitRead(token) if token == "read" else SubmitProposal(b"a", token))
    first, *_ = bench.taken(AskLeader)[-1:]
    bench.core.report(bench.now, LeaderAnswered(first.ticket, Unavailable("not sent")))
    (effect,) = bench.core.end()
    assert isinstance(effect, AnswerRequests)
    assert [(token, type(outcome)) for token, outcome in effect.answers] == [
        ("tried", OutcomeUnknown),
        ("read", Stopping),
        ("waits", Stopping),
    ]
    with pytest.raises(Stopping):
        submit(bench, SubmitProposal(b"b", "b"))
