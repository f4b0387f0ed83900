"""The level by which the log is applied rises when every server has said that it knows it, and once."""

from __future__ import annotations

from adsum.consensus.effects import SendMessage
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine, Severity
from adsum.raft.messages import AppendReply, Heartbeat, HeartbeatReply, VoteReply, VoteRequest
from adsum.raft.settings import RaftSettings
from adsum.raft.types import EntryKind, MemberId, Term
from tests.consensus.support import STAMP, A, B, Bench, C

RAISED = LogLine(Severity.INFO, "all servers know apply level 3: the log goes on at it")


def leading(*others: MemberId) -> Bench:
    """A version that knows level 3, over a log at level 2."""
    bench = Bench((A, *others), ServerSettings(raft=RaftSettings(apply_level_max=3)))
    bench.core.raft.campaign()
    bench.settle()
    for _ in range(2 if others else 0):
        for sent in bench.taken(SendMessage):
            if isinstance(sent.message, VoteRequest) and sent.message.target == B:
                vote = VoteReply(STAMP, B, A, sent.message.term, sent.message.is_prevote, True, 1, Term(1))
                bench.core.receive(bench.now, vote)
        bench.settle()
    assert bench.core.is_leader
    return bench


def hear(bench: Bench, member: MemberId, level: int) -> None:
    raft = bench.core.raft
    reply = HeartbeatReply(STAMP, member, A, raft.replica.term, 0, level)
    bench.core.receive(bench.now, reply)
    stored = AppendReply(STAMP, member, A, raft.replica.term, raft.replica.log.last_index)
    bench.core.receive(bench.now, stored)
    bench.settle()


def levels(bench: Bench) -> list[int]:
    log = bench.core.raft.replica.log
    entries = log.entries(2, log.last_index)
    return [entry.apply_level for entry in entries if entry.kind is EntryKind.APPLY_LEVEL]


def test_a_server_alone_raises_it_at_once() -> None:
    bench = leading()
    assert bench.core.level.in_force == 2
    bench.pass_ms(50)
    bench.settle()
    assert (levels(bench), bench.core.level.in_force) == ([3], 3)
    assert bench.taken(LogLine) == [RAISED]


def test_it_waits_quietly_for_who_has_not_said_that_it_knows_it() -> None:
    bench = leading(B, C)
    hear(bench, B, 3)
    for _ in range(10):
        hear(bench, C, 2)  # an older version
        bench.pass_ms(50)
    assert (levels(bench), bench.core.level.in_force) == ([], 2)
    assert bench.core.level.waits_for() == [C]
    assert bench.taken(LogLine) == []
    for _ in range(3):
        hear(bench, C, 3)  # it was upgraded
        hear(bench, B, 3)
        bench.pass_ms(50)
    assert (levels(bench), bench.core.level.in_force) == ([3], 3)
    assert bench.core.level.waits_for() == []
    assert bench.taken(LogLine) == [RAISED]


def test_what_is_only_in_the_log_is_not_in_force_yet() -> None:
    """Another leader may follow, whose log does not have it."""
    bench = leading(B, C)
    for member in (B, C):
        hear(bench, member, 3)
    bench.pass_ms(50)
    assert (levels(bench), bench.core.level.in_force) == ([3], 2)
    hear(bench, B, 3)
    assert bench.core.level.in_force == 3


def test_who_does_not_lead_raises_nothing() -> None:
    bench = Bench((A, B, C), ServerSettings(raft=RaftSettings(apply_level_max=3)))
    bench.core.receive(bench.now, Heartbeat(STAMP, B, A, bench.core.raft.replica.term, 1, 1))
    bench.pass_ms(200)
    assert bench.core.raft.replica.log.last_index == 1
    assert bench.core.level.waits_for() == []
