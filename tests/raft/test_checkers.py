"""The judges have teeth: each is shown something bad that it must not let pass."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from adsum.dedup import DedupKey
from adsum.now import Now
from adsum.raft.messages import VoteReply
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Configuration, Entry, EntryKind, MemberId, Role, Term, bootstrap
from adsum.testing.checkers import Invariants, Violation, check_witness, log_digest
from adsum.testing.linearizability import NEVER, Operation
from adsum.testing.raft_by_hand import ServerByHand, with_snapshot
from adsum.testing.raft_machine import ClientCall
from tests.raft.support import STAMP, A, B, C, entries, entry

SET_A, SET_B, GET = ClientCall("set", "k", "a"), ClientCall("set", "k", "b"), ClientCall("get", "k")
LOG = {
    2: Entry(2, Term(1), EntryKind.TERM_BEGIN, 0, 1, None, b""),
    3: Entry(3, Term(1), EntryKind.COMMAND, 0, 1, None, SET_A.encoded()),
    4: Entry(4, Term(1), EntryKind.COMMAND, 0, 1, None, SET_B.encoded()),
}
FIRST = Operation(1, SET_A, 10, 20, "yes", index=3, term=1)
SECOND = Operation(2, SET_B, 30, 40, "yes", index=4, term=1)
READ = Operation(1, GET, 50, 60, "b", index=4)


def server(me: MemberId) -> ServerByHand:
    store = with_snapshot(bootstrap(Configuration((A, B, C))))
    return ServerByHand(me, STAMP, RaftSettings(), store, Random(1), Now(0, 0))


def watched(*servers: ServerByHand) -> Invariants:
    invariants = Invariants()
    for each in servers:
        invariants.booted(each)
        invariants.looked_at(each)
    return invariants


# Clients.


def test_a_history_that_the_log_bears_out_passes() -> None:
    assert check_witness([FIRST, SECOND, READ], LOG) == [FIRST, SECOND, READ]


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ([replace(FIRST, index=5)], "is not in the log"),
        ([replace(FIRST, term=2)], "is not in the log"),
        ([replace(FIRST, answer="no")], "the log says 'yes'"),
        ([FIRST, SECOND, replace(READ, answer="a")], "the log says 'b'"),
        ([FIRST, SECOND, replace(READ, index=3, answer="a")], "came after index 4"),
        ([replace(FIRST, invoked_ns=50, returned_ns=60), SECOND], "came after index 4"),
    ],
    ids=["lost", "of another term", "wrong answer", "wrong value", "stale read", "against real time"],
)
def test_a_history_that_the_log_contradicts_is_refused(history: list[Operation], sentence: str) -> None:
    with pytest.raises(Violation, match=sentence):
        check_witness(history, LOG)


def test_an_open_write_counts_if_the_log_has_it_and_is_dropped_if_not() -> None:
    happened = replace(SECOND, answer=None, returned_ns=NEVER)
    lost = Operation(3, ClientCall("set", "k", "c"), 30, index=4, term=2)
    assert check_witness([FIRST, happened, lost], LOG) == [FIRST, happened]


def test_a_hole_in_the_log_is_refused() -> None:
    with pytest.raises(Violation, match="nobody applied 3"):
        check_witness([], {2: LOG[2], 4: LOG[4]})


# Servers.


def test_two_leaders_of_one_term_are_refused() -> None:
    first, second = server(A), server(B)
    invariants = watched(first, second)
    first.raft.replica.role = second.raft.replica.role = Role.LEADER
    invariants.looked_at(first)
    with pytest.raises(Violation, match="both lead term 1"):
        invariants.looked_at(second)


def test_a_leader_without_what_is_committed_is_refused() -> None:
    first, second = server(A), server(B)
    invariants = watched(first, second)
    first.raft.replica.log.merge(1, entries(2, [1]))
    first.raft.replica.log.commit_to(2)
    invariants.looked_at(first)
    second.raft.replica.role, second.raft.replica.term = Role.LEADER, Term(2)
    with pytest.raises(Violation, match="lacks 2@1"):
        invariants.looked_at(second)


def test_two_entries_committed_at_one_index_are_refused() -> None:
    first, second = server(A), server(B)
    invariants = watched(first, second)
    for each, term in ((first, 1), (second, 2)):
        each.raft.replica.log.merge(1, entries(2, [term]))
        each.raft.replica.log.commit_to(2)
    invariants.looked_at(first)
    with pytest.raises(Violation, match="committed 2@2, which was committed as @1"):
        invariants.looked_at(second)


def test_a_commit_that_moves_back_is_refused() -> None:
    one = server(A)
    invariants = watched(one)
    one.raft.replica.log.merge(1, entries(2, [1]))
    one.raft.replica.log.commit_to(2)
    invariants.looked_at(one)
    one.raft.replica.log.commit = 1
    with pytest.raises(Violation, match="took back its commit 2"):
        invariants.looked_at(one)


def test_a_leader_that_commits_by_counting_an_old_term_is_refused() -> None:
    one = server(A)
    invariants = watched(one)
    one.raft.replica.log.merge(1, entries(2, [1]))
    one.raft.replica.role, one.raft.replica.term = Role.LEADER, Term(2)
    invariants.looked_at(one)
    one.raft.replica.log.commit_to(2)
    with pytest.raises(Violation, match="counting an old term"):
        invariants.looked_at(one)


def test_two_votes_in_one_term_are_refused() -> None:
    invariants = Invariants()
    vote = VoteReply(STAMP, A, B, Term(2), False, True, 0, Term(0))
    invariants.sent(vote)
    invariants.sent(vote)
    with pytest.raises(Violation, match="voted twice in term 2"):
        invariants.sent(structs.replace(vote, target=C))


def test_another_entry_applied_at_one_index_is_refused() -> None:
    invariants = Invariants()
    invariants.applied(server(A), entry(2, 1, b"x"))
    with pytest.raises(Violation, match="another entry at 2"):
        invariants.applied(server(B), entry(2, 1, b"y"))


def test_states_that_differ_at_one_index_are_refused() -> None:
    first, second = server(A), server(B)
    invariants = watched(first, second)
    first.machine.apply(LOG[2])
    second.machine.apply(LOG[2])
    invariants.rests(first)
    invariants.rests(second)
    second.machine.apply(LOG[3])
    second.machine.index = 2
    with pytest.raises(Violation, match="differs at 2"):
        invariants.rests(second)


def test_a_log_digest_is_of_every_entry() -> None:
    assert log_digest(LOG) == log_digest(dict(reversed(LOG.items())))
    assert log_digest(LOG) != log_digest(LOG | {3: structs.replace(LOG[3], time_ms=1)})


def test_a_server_that_forgot_what_its_disk_had_said_is_refused() -> None:
    one = server(A)
    invariants = watched(one)
    invariants.durable[A] = (3, 1)
    with pytest.raises(Violation, match="forgot 3@1"):
        invariants.booted(one)


def test_a_server_that_forgot_its_term_or_its_vote_is_refused() -> None:
    one = server(A)
    invariants = watched(one)
    invariants.sent(VoteReply(STAMP, A, B, Term(1), False, True, 0, Term(0)))
    with pytest.raises(Violation, match="forgot its vote in term 1"):
        invariants.booted(one)
    invariants.sent(VoteReply(STAMP, A, B, Term(4), False, False, 0, Term(0)))
    with pytest.raises(Violation, match="forgot that it was in term 4"):
        invariants.booted(one)


def test_logs_that_share_an_entry_and_not_the_one_before_it_are_refused() -> None:
    one, other = server(A), server(B)
    invariants = watched(one, other)
    one.raft.replica.log.merge(1, entries(2, [1, 2]))
    other.raft.replica.log.merge(1, entries(2, [2, 2]))
    for each, is_same in ((one, True), (other, False)):
        batch = each.raft.ready()
        assert batch is not None
        if is_same:
            invariants.took(each, batch)
        else:
            with pytest.raises(Violation, match="has another log before 3@2"):
                invariants.took(each, batch)


def test_of_two_tries_of_a_request_the_first_in_the_log_counts() -> None:
    log = {
        2: LOG[2],
        **{
            index: structs.replace(LOG[3], index=index, dedup=DedupKey("1", 1, 7, 7), data=SET_A.encoded())
            for index in (3, 4)
        },
    }
    tried = Operation(1, SET_A, 10, 20, "yes", index=4, term=1, sequence=7)
    assert check_witness([tried], log) == [tried]
    assert tried.index == 3
    late = Operation(2, GET, 21, 30, "a", index=2)
    with pytest.raises(Violation):
        check_witness([tried, late], log)
