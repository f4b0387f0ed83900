"""Why a server turned, as the log and the journal tell it."""

from __future__ import annotations

from adsum.now import MILLISECOND, Now
from adsum.raft.core import RaftCore
from adsum.raft.messages import AppendRejected, Heartbeat, VoteReply, VoteRequest
from adsum.raft.types import NO_TERM, MemberId, Role, Term, Turn, TurnCause
from tests.raft.support import STAMP, A, B, C, core, restored


def settle(server: RaftCore) -> None:
    while (batch := server.ready()) is not None:
        server.stored(batch.ticket)
        if batch.committed:
            server.applied(batch.committed[-1].index)


def vote(source: MemberId, term: int, *, is_prevote: bool = False) -> VoteReply:
    return VoteReply(STAMP, source, A, Term(term), is_prevote, True, 0, NO_TERM)


def leading() -> RaftCore:
    server = core()
    server.campaign()
    settle(server)
    server.step(vote(C, 2, is_prevote=True))
    settle(server)
    server.step(vote(C, 2))
    settle(server)
    assert server.replica.role is Role.LEADER
    return server


def ticks(server: RaftCore, count: int) -> None:
    for _ in range(count):
        now = server.replica.now
        server.tick(Now(now.monotonic_ns + 50 * MILLISECOND, now.wall_ms + 50))


def test_at_first_nothing_was_the_cause() -> None:
    assert core().turn == Turn(TurnCause.STARTED)


def test_a_leader_knows_who_voted_for_it() -> None:
    assert leading().turn == Turn(TurnCause.ELECTED, (A, C))
    alone = core(restored(voters=(A,)))
    alone.campaign()
    settle(alone)
    assert alone.turn == Turn(TurnCause.ELECTED, (A,))


def test_a_follower_knows_whom_it_heard_and_who_fell_silent() -> None:
    server = core()
    server.step(Heartbeat(STAMP, B, A, Term(3), 0, 1))
    assert server.turn == Turn(TurnCause.HEARD, (B,))
    ticks(server, 50)
    assert server.replica.role is Role.PRE_CANDIDATE
    assert server.turn == Turn(TurnCause.LEADER_SILENT, (B,))
    server.step(Heartbeat(STAMP, C, A, Term(3), 0, 1))
    assert server.turn == Turn(TurnCause.HEARD, (C,))


def test_a_leader_whose_quorum_is_silent_knows_it() -> None:
    server = leading()
    ticks(server, 50)
    assert server.turn == Turn(TurnCause.QUORUM_SILENT)


def test_a_leader_whose_disk_failed_knows_it() -> None:
    server = leading()
    server.store_failed()
    assert server.turn == Turn(TurnCause.DISK)


def test_a_leader_tells_a_later_term_from_one_that_it_asked_for() -> None:
    server = leading()
    server.step(AppendRejected(STAMP, B, A, Term(9), 0, 0, NO_TERM))
    assert server.turn == Turn(TurnCause.LATER_TERM, (B,))
    server = leading()
    server.step(VoteRequest(STAMP, B, A, Term(9), 9, Term(8), is_prevote=False, is_transfer=True))
    assert server.turn == Turn(TurnCause.HANDED_OVER, (B,))
