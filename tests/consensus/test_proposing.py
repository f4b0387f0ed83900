"""Proposals that wait for room in the log: whose turn it is, and who is told to come again."""

from __future__ import annotations

import pytest

from adsum.consensus import commands
from adsum.consensus.commands import ProposalUrgency
from adsum.consensus.effects import AnswerRequests
from adsum.consensus.errors import OutcomeUnknown, QueueFull, Stopping
from adsum.consensus.settings import RaftSettings, ServerSettings
from adsum.dedup import DedupKey
from adsum.now import Now
from adsum.raft.errors import NotLeader
from adsum.raft.messages import Heartbeat
from adsum.raft.types import Term
from tests.consensus.support import STAMP, A, B, Bench, leading

NARROW = ServerSettings(proposals_under_way_max=2, proposals_queued_max=6)


def by(agent: str) -> DedupKey:
    return DedupKey(agent, 1, 1, 1)


def propose(
    bench: Bench, *words: str, agent: str = "", urgency: ProposalUrgency = ProposalUrgency.WRITE
) -> None:
    for word in words:
        dedup = by(agent) if agent else None
        command = commands.Propose(word.encode(), word, dedup, urgency=urgency)
        bench.effects += bench.core.command(bench.now, command)


def submit(bench: Bench, word: str, agent: str = "a") -> None:
    command = commands.SubmitProposal(word.encode(), word, by(agent))
    bench.effects += bench.core.command(bench.now, command)


def answers(bench: Bench) -> list[tuple[object, object]]:
    told = [answer for effect in bench.taken(AnswerRequests) for answer in effect.answers]
    return [(token, outcome if isinstance(outcome, bytes) else type(outcome)) for token, outcome in told]


def queued(bench: Bench) -> int:
    return bench.core.proposing.queue.count


def test_so_many_are_under_way_and_the_others_follow_when_there_is_room() -> None:
    bench = leading(NARROW)
    propose(bench, "1", "2", "3", "4", "5")
    assert (bench.core.proposals_waiting, queued(bench)) == (2, 3)
    bench.tick()
    bench.store()
    bench.tick()
    assert bench.machine.words == [b"1", b"2"]
    assert bench.core.deadline() == bench.now.monotonic_ns  # there is room: no need to wait for a timer
    bench.settle()
    assert bench.machine.words == [b"1", b"2", b"3", b"4", b"5"]
    assert [token for token, _ in answers(bench)] == ["1", "2", "3", "4", "5"]
    assert bench.core.proposing.counters.queued == 3


def test_agents_take_turns_and_each_has_its_own_in_order() -> None:
    bench = leading(NARROW)
    propose(bench, "a1", "a2", "a3", "a4", "a5", agent="a")
    propose(bench, "b1", agent="b")
    propose(bench, "c1")
    bench.settle()
    assert bench.machine.words == [b"a1", b"a2", b"a3", b"b1", b"c1", b"a4", b"a5"]


def test_sessions_go_before_writes() -> None:
    bench = leading(NARROW)
    propose(bench, "a1", "a2", "a3", agent="a")
    propose(bench, "s1", "s2", urgency=ProposalUrgency.SESSION)
    bench.settle()
    assert bench.machine.words == [b"a1", b"a2", b"s1", b"s2", b"a3"]


def test_one_agent_gets_half_of_the_queue_and_another_still_finds_room() -> None:
    bench = leading(NARROW)
    propose(bench, "1", "2", "3", "4", "5", agent="a")
    with pytest.raises(QueueFull):
        propose(bench, "6", agent="a")
    propose(bench, "7", "8", agent="b")
    with pytest.raises(QueueFull):
        propose(bench, "9", agent="b")
    propose(bench, "10", agent="c")
    assert queued(bench) == 6
    assert bench.core.proposing.counters.refused == 2
    bench.settle()
    assert len(bench.machine.words) == 8
    propose(bench, "11", agent="a")


def test_bytes_are_shared_as_well_and_one_that_is_larger_than_the_rest_finds_a_queue_without_it() -> None:
    bench = leading(ServerSettings(proposals_under_way_max=1, proposals_queued_bytes_max=100))
    propose(bench, "first", "x" * 60, agent="a")
    with pytest.raises(QueueFull):
        propose(bench, "x" * 41, agent="a")
    propose(bench, "x" * 80, agent="b")
    bench.settle()
    assert list(map(len, bench.machine.words)) == [5, 60, 80]


def test_values_that_are_larger_than_may_be_uncommitted_wait_for_room_and_for_no_timer() -> None:
    bench = leading(ServerSettings(raft=RaftSettings(uncommitted_bytes_max=1_000)))
    for word in ("x" * 900, "y" * 900):
        submit(bench, word)
    assert queued(bench) == 1
    bench.settle()
    assert list(map(len, bench.machine.words)) == [900, 900]
    assert bench.core.requests.counters.retried == 0


def test_who_waited_for_one_that_leads_no_more_knows_that_nothing_was_done() -> None:
    bench = leading(NARROW)
    propose(bench, "1", "2", "3")
    bench.effects += bench.core.receive(bench.now, Heartbeat(STAMP, B, A, Term(9), 1, 1))
    bench.tick()
    assert answers(bench) == [("3", NotLeader)]


def test_who_stops_turns_them_away() -> None:
    bench = leading(NARROW)
    propose(bench, "1", "2", "3")
    bench.effects += bench.core.end()
    assert answers(bench) == [("3", Stopping), ("1", OutcomeUnknown), ("2", OutcomeUnknown)]


def test_a_request_past_the_bound_is_told_at_once() -> None:
    bench = leading(NARROW)
    for number in range(6):
        submit(bench, str(number))
    assert answers(bench) == [("5", QueueFull)]


def test_a_request_that_waited_too_long_for_room_is_known_not_to_be_done() -> None:
    bench = leading(NARROW)
    for number in range(3):
        submit(bench, str(number))
    bench.tick()  # the disk does not answer, and a lone voter leads on until its own silence is noticed
    bench.now = Now(bench.now.monotonic_ns + 7_000_000_000, 7_000)
    bench.core.requests.look(bench.now.monotonic_ns)
    assert [(token, type(outcome)) for token, outcome in bench.core.answers] == [
        ("0", OutcomeUnknown),
        ("1", OutcomeUnknown),
        ("2", QueueFull),
    ]


def test_what_nobody_waits_for_any_more_is_not_proposed() -> None:
    bench = leading(NARROW)
    for number in range(4):
        submit(bench, str(number))
    bench.core.command(bench.now, commands.GiveUp("2"))
    bench.settle()
    assert bench.machine.words == [b"0", b"1", b"3"]


def test_a_follower_has_no_queue() -> None:
    bench = Bench((A, B), NARROW)
    with pytest.raises(NotLeader):
        propose(bench, "1")
