"""Servers that find out whether they hold the same: what each says, and what it does about it."""

from __future__ import annotations

import pytest

from adsum.consensus import commands
from adsum.consensus.effects import AnswerRequests, SendMessage, StateDoubted, WriteSnapshot
from adsum.consensus.errors import OutcomeUnknown, StateDiffers
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine, Severity
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    VoteReply,
    VoteRequest,
)
from adsum.raft.types import Entry, EntryKind, MemberId, StateHash, Term, TurnCause
from tests.consensus.support import STAMP, A, B, Bench, C

EVERY_THIRD = ServerSettings(hash_entries=3)
HERE, ELSEWHERE = b"\x01a", b"\x01b"


def follower() -> Bench:
    """Of B, with the hash of index 3."""
    bench = Bench((A, B, C), EVERY_THIRD)
    append(bench, 2, EntryKind.TERM_BEGIN, b"")
    append(bench, 3, EntryKind.COMMAND, b"a")
    assert bench.machine.words == [b"a"]
    bench.effects.clear()
    return bench


def append(bench: Bench, index: int, kind: EntryKind, data: bytes) -> None:
    entry = Entry(index, Term(1), kind, 0, 1, None, data)
    message = Append(STAMP, B, A, Term(1), index, index - 1, Term(1), (entry,))
    bench.effects += bench.core.receive(bench.now, message)
    bench.settle()


def beat(bench: Bench, *judged: object) -> HeartbeatReply:
    """A heartbeat of B, what comes of it in a tick, and the answer to the next one."""
    for number in (1, 2):
        bench.effects += bench.core.receive(bench.now, Heartbeat(STAMP, B, A, Term(1), 2, number, *judged))  # type: ignore[arg-type]
        bench.pass_ms(50)
    bench.settle()
    replies = [each.message for each in bench.taken(SendMessage) if isinstance(each.message, HeartbeatReply)]
    return replies[-1]


def leader(voters: tuple[MemberId, ...] = (A, B, C)) -> Bench:
    """In term 2, with the hash of index 3, which B and C have stored too."""
    bench = Bench(voters, EVERY_THIRD)
    bench.core.raft.campaign()
    for _ in range(2):
        bench.settle()
        for sent in bench.taken(SendMessage):
            if isinstance(sent.message, VoteRequest) and sent.message.target == B:
                vote = VoteReply(STAMP, B, A, sent.message.term, sent.message.is_prevote, True, 1, Term(1))
                bench.effects += bench.core.receive(bench.now, vote)
    bench.core.command(bench.now, commands.Propose(b"a", "a"))
    bench.settle()
    bench.effects += bench.core.receive(bench.now, AppendReply(STAMP, B, A, Term(2), 3))
    bench.settle()
    bench.pass_ms(50)
    assert bench.machine.words == [b"a"]
    bench.effects.clear()
    return bench


def tell(bench: Bench, member: MemberId, hash_: bytes, index: int = 3) -> None:
    reply = HeartbeatReply(STAMP, member, A, Term(2), 0, 1, True, index, hash_)
    bench.effects += bench.core.receive(bench.now, reply)
    bench.pass_ms(50)
    bench.settle()


def judged(bench: Bench) -> tuple[int, bytes, bool]:
    """As the next heartbeat says it."""
    bench.taken(SendMessage)
    bench.pass_ms(100)
    beats = [each.message for each in bench.taken(SendMessage) if isinstance(each.message, Heartbeat)]
    return beats[-1].hash_index, beats[-1].state_hash, beats[-1].is_disputed


def errors(bench: Bench) -> list[str]:
    return [line.sentence for line in bench.taken(LogLine) if line.severity is Severity.ERROR]


# A follower.


def test_a_follower_tells_the_newest_hash_with_each_answer() -> None:
    reply = beat(follower())
    assert (reply.hash_index, reply.state_hash, reply.has_stopped) == (3, HERE, False)


def test_a_hash_is_taken_at_its_index_and_not_behind_it_however_many_are_applied_at_once() -> None:
    bench = Bench((A, B, C), EVERY_THIRD)
    entries = tuple(
        Entry(index, Term(1), EntryKind.COMMAND, 0, 1, None, b"%d" % index) for index in range(2, 8)
    )
    message = Append(STAMP, B, A, Term(1), 7, 1, Term(1), entries)
    bench.effects += bench.core.receive(bench.now, message)
    bench.settle()
    assert bench.core.applied == 7
    assert bench.core.raft.replica.state_hash == StateHash(6, b"\x01 3 4 5 6")


def test_one_that_has_what_a_majority_has_goes_on() -> None:
    bench = follower()
    assert not beat(bench, 3, HERE).has_stopped
    assert bench.core.comparing.agreed == 1
    assert bench.core.comparing.doubt == ""
    assert bench.taken(StateDoubted) == []


def test_one_that_differs_from_a_majority_applies_nothing_more_and_says_so() -> None:
    bench = follower()
    bench.core.command(bench.now, commands.SubmitRead("read"))
    reply = beat(bench, 3, ELSEWHERE)
    assert (reply.has_stopped, reply.can_lead) == (True, False)
    (doubted,) = bench.taken(StateDoubted)
    assert doubted.has_stopped
    assert doubted.reason == "this server's state differs from that of a majority at index 3"
    (line,) = errors(bench)
    assert "at index 3: 0161 here, 0162 there. Nothing more is applied here" in line
    assert "move the folder raft out of its data_dir" in line
    answers = [answer for effect in bench.taken(AnswerRequests) for answer in effect.answers]
    assert [(token, type(outcome)) for token, outcome in answers] == [("read", StateDiffers)]
    append(bench, 4, EntryKind.COMMAND, b"b")
    assert bench.machine.words == [b"a"]
    assert bench.core.raft.replica.log.stable == 4  # nothing is missing to the others
    bench.core.compaction.make()
    bench.pass_ms(60_000)
    assert bench.taken(WriteSnapshot) == []
    assert not bench.core.is_leader


def test_a_follower_that_is_behind_finds_out_when_it_has_come_there() -> None:
    bench = Bench((A, B, C), EVERY_THIRD)
    append(bench, 2, EntryKind.TERM_BEGIN, b"")
    assert not beat(bench, 3, ELSEWHERE).has_stopped
    append(bench, 3, EntryKind.COMMAND, b"a")
    bench.pass_ms(50)
    assert bench.core.comparing.doubt == "differs"


def test_where_nobody_has_a_majority_all_go_on_and_doubt() -> None:
    bench = follower()
    reply = beat(bench, 3, ELSEWHERE, True)
    assert not reply.has_stopped
    assert bench.core.comparing.doubt == "disputed"
    sentence = "servers differ in their state, and none has that of a majority"
    assert bench.taken(StateDoubted) == [StateDoubted(sentence)]
    (line,) = errors(bench)
    assert "at index 3, and none has that of a majority: 0161 here, 0162 on the leader" in line
    append(bench, 4, EntryKind.COMMAND, b"b")
    assert bench.machine.words == [b"a", b"b"]
    beat(bench, 3, HERE)
    assert bench.core.comparing.doubt == ""
    assert bench.taken(StateDoubted) == [StateDoubted("")]


@pytest.mark.parametrize("other", [b"\x02b", b""])
def test_a_hash_that_was_made_otherwise_says_nothing(other: bytes) -> None:
    bench = follower()
    assert not beat(bench, 3, other).has_stopped
    assert bench.core.comparing.doubt == ""


# A leader.


def test_a_majority_is_right_and_all_are_told() -> None:
    bench = leader()
    assert judged(bench) == (0, b"", False)
    tell(bench, B, HERE)
    assert judged(bench) == (3, HERE, False)
    assert errors(bench) == []


def test_one_against_one_is_disputed_until_a_third_has_told() -> None:
    bench = leader()
    tell(bench, B, ELSEWHERE)
    assert judged(bench) == (3, HERE, True)
    assert bench.core.comparing.doubt == "disputed"
    errors(bench)
    tell(bench, C, HERE)
    assert judged(bench) == (3, HERE, False)
    assert bench.core.comparing.doubt == ""
    (line,) = errors(bench)
    assert line.startswith("the state of b differs at index 3: 0162 there, 0161 on a majority of the voters.")


def test_two_servers_that_differ_stay_in_doubt() -> None:
    bench = leader((A, B))
    tell(bench, B, ELSEWHERE)
    bench.pass_ms(400)
    assert bench.core.comparing.doubt == "disputed"
    assert bench.core.is_leader


def test_a_leader_that_differs_from_a_majority_gives_way_and_others_know_what_became_of_its_writes() -> None:
    bench = leader()
    bench.core.command(bench.now, commands.Propose(b"b", "b"))
    bench.settle()
    tell(bench, B, ELSEWHERE)
    tell(bench, C, ELSEWHERE)
    assert not bench.core.is_leader
    assert bench.core.raft.turn.cause is TurnCause.STATE_DIFFERS
    answers = [answer for effect in bench.taken(AnswerRequests) for answer in effect.answers]
    assert [(token, type(outcome)) for token, outcome in answers] == [("b", OutcomeUnknown)]


def test_who_is_no_member_any_more_has_no_say() -> None:
    bench = leader((A, B))
    tell(bench, C, ELSEWHERE)
    assert judged(bench) == (0, b"", False)


@pytest.mark.parametrize(("has_stopped", "offers"), [(False, 1), (True, 0)])
def test_no_snapshot_is_brought_to_one_that_would_not_install_it(has_stopped: bool, offers: int) -> None:
    bench = leader()
    raft = bench.core.raft
    point = raft.snapshot_point()
    assert point is not None
    raft.compacted(point, 4)  # C has heard nothing of entries 2 and 3
    reply = HeartbeatReply(STAMP, C, A, Term(2), 0, 2, has_stopped=has_stopped)
    bench.effects += bench.core.receive(bench.now, reply)
    rejected = AppendRejected(STAMP, C, A, Term(2), 1, 1, Term(1))
    bench.effects += bench.core.receive(bench.now, rejected)
    bench.pass_ms(50)
    assert raft.counts.snapshots_offered == offers
