"""One core, fed by hand: what it stores, sends and refuses, and in which order. Rows of the list of known
bugs (B1, B2 …) carry their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest

from adsum.dedup import DedupKey
from adsum.now import MILLISECOND, Now
from adsum.raft.batch import Batch, Soft
from adsum.raft.changer import (
    LEAVE_JOINT,
    ChangeVerb,
    ConfigurationChange,
    Step,
    Transition,
    encode_configuration,
)
from adsum.raft.core import RaftCore
from adsum.raft.errors import (
    ChangeRefused,
    LevelUnsupported,
    NotLeader,
    RaftRefused,
    TermMoved,
    TooLarge,
    TooManyReads,
    TooMuchUncommitted,
    Transferring,
)
from adsum.raft.messages import (
    PROTOCOL_VERSION,
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    MessageStamp,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.reads import ConfirmedRead
from adsum.raft.settings import RaftSettings
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    Restored,
    Role,
    SnapshotMeta,
    Term,
    Ticket,
    bootstrap,
)
from tests.raft.support import STAMP, A, B, C, D, E, core, entries, entry, restored

Kind = TypeVar("Kind", bound=Message)
ALONE = restored(voters=(A,))


def drained(server: RaftCore, *, is_stored: bool = True) -> list[Batch]:
    """Every batch until there is none, each stored at once and applied."""
    batches = []
    while (batch := server.ready()) is not None:
        batches.append(batch)
        if is_stored:
            server.stored(batch.ticket)
        if batch.committed:
            server.applied(batch.committed[-1].index)
    return batches


def sent(batches: Iterable[Batch], kind: type[Kind], target: MemberId | None = None) -> list[Kind]:
    messages = [message for batch in batches for message in (*batch.send_now, *batch.send_after_store)]
    return [m for m in messages if isinstance(m, kind) and target in (None, m.target)]


def append(term: int, prev: tuple[int, int], new: Iterable[Entry] = (), *, commit: int = 0) -> Append:
    return Append(STAMP, B, A, Term(term), commit, prev[0], Term(prev[1]), tuple(new))


def heartbeat(term: int, *, commit: int = 0, number: int = 1) -> Heartbeat:
    return Heartbeat(STAMP, B, A, Term(term), commit, number)


def vote_request(
    term: int, last: tuple[int, int], *, is_prevote: bool = False, is_transfer: bool = False
) -> VoteRequest:
    return VoteRequest(STAMP, C, A, Term(term), last[0], Term(last[1]), is_prevote, is_transfer)


def vote(
    source: MemberId, term: int, *, is_granted: bool = True, is_prevote: bool = False, commit: int = 0
) -> VoteReply:
    return VoteReply(STAMP, source, A, Term(term), is_prevote, is_granted, commit, Term(1 if commit else 0))


def have(source: MemberId, term: int, index: int) -> AppendReply:
    return AppendReply(STAMP, source, A, Term(term), index)


def heard(source: MemberId, term: int, number: int, *, level: int = 2) -> HeartbeatReply:
    return HeartbeatReply(STAMP, source, A, Term(term), number, level)


def elected(disk: Restored | None = None, *, settings: RaftSettings | None = None) -> RaftCore:
    """A leads the next term; its first entry is stored here and nowhere else, so nothing is committed."""
    server = core(disk, settings=settings)
    server.campaign()
    drained(server)
    term = server.replica.term + 1
    server.step(vote(B, term, is_prevote=True))
    drained(server)
    server.step(vote(B, term))
    assert role(server) is Role.LEADER
    drained(server)
    return server


def leading(disk: Restored | None = None, *, settings: RaftSettings | None = None) -> RaftCore:
    """As above, and B has the term's first entry."""
    server = elected(disk, settings=settings)
    server.step(have(B, server.replica.term, server.replica.log.last_index))
    drained(server)
    return server


def role(server: RaftCore) -> Role:
    """Looked at anew each time; mypy would remember what the last look showed."""
    return server.replica.role


def voters(server: RaftCore) -> tuple[MemberId, ...]:
    return server.replica.configuration.voters


def ticks(server: RaftCore, count: int) -> None:
    for _ in range(count):
        now = server.replica.now
        server.tick(Now(now.monotonic_ns + 50 * MILLISECOND, now.wall_ms + 50))


# Elections.


def test_a_follower_that_hears_nobody_asks_before_it_stands() -> None:
    server = core()
    ticks(server, 20)
    (batch,) = drained(server)
    assert [(m.target, m.term, m.is_prevote) for m in sent([batch], VoteRequest)] == [
        (B, 2, True),
        (C, 2, True),
    ]
    assert server.replica.term == 1


def test_patience_lies_between_one_and_two_election_timeouts() -> None:
    server = core()
    ticks(server, 9)
    assert role(server) is Role.FOLLOWER
    ticks(server, 11)
    assert role(server) is Role.PRE_CANDIDATE


def test_b6_a_vote_leaves_after_it_is_on_disk() -> None:
    server = core()
    server.step(vote_request(2, (1, 1)))
    batch = server.ready()
    assert batch is not None
    assert batch.hard_state == HardState(Term(2), C, 1)
    assert batch.must_sync
    assert batch.send_now == []
    assert [m.is_granted for m in sent([batch], VoteReply)] == [True]


def test_b6_a_candidates_own_vote_counts_when_it_is_on_disk() -> None:
    server = core(ALONE)
    server.campaign()
    batch = server.ready()
    assert batch is not None
    assert batch.hard_state == HardState(Term(2), A, 1)
    assert role(server) is Role.CANDIDATE
    server.stored(batch.ticket)
    assert role(server) is Role.LEADER


def test_b6_nobody_leads_a_term_that_its_own_disk_does_not_know_however_many_votes_it_has() -> None:
    """It would forget, be given the same votes after its start, and write another log into the same term."""
    server = core()
    server.campaign()
    drained(server)
    server.step(vote(B, 2, is_prevote=True))
    batch = server.ready()
    assert batch is not None
    assert batch.hard_state == HardState(Term(2), A, 1)
    server.step(vote(B, 2))
    server.step(vote(C, 2))
    assert role(server) is Role.CANDIDATE
    server.stored(batch.ticket)
    assert role(server) is Role.LEADER


def test_one_vote_a_term() -> None:
    server = core(Restored(HardState(Term(2), B, 1), bootstrap(Configuration((A, B, C)))))
    server.step(vote_request(2, (9, 2)))
    assert [m.is_granted for m in sent(drained(server), VoteReply)] == [False]
    assert server.replica.vote == B


@pytest.mark.parametrize(
    ("last", "is_granted"), [((3, 2), False), ((4, 2), True), ((9, 1), False), ((2, 3), True)]
)
def test_a_vote_goes_to_logs_that_hold_at_least_ours(last: tuple[int, int], is_granted: bool) -> None:
    server = core(restored([1, 2, 2]))
    server.step(vote_request(4, last))
    assert [m.is_granted for m in sent(drained(server), VoteReply)] == [is_granted]


def test_b26_a_learner_that_does_not_know_better_votes_but_does_not_stand() -> None:
    disk = Restored(snapshot=bootstrap(Configuration(voters=(B, C), learners=(A,))))
    server = core(disk)
    ticks(server, 60)
    assert role(server) is Role.FOLLOWER
    server.step(vote_request(2, (1, 1)))
    assert [m.is_granted for m in sent(drained(server), VoteReply)] == [True]


def test_b8_a_pre_vote_refusal_carries_the_refusers_term_and_the_candidate_adopts_it() -> None:
    server = core(restored([1, 5], term=5))
    server.step(vote_request(3, (9, 2), is_prevote=True))
    (refusal,) = sent(drained(server), VoteReply)
    assert (refusal.term, refusal.is_granted) == (5, False)
    candidate = core()
    candidate.campaign()
    candidate.step(vote(B, 5, is_granted=False, is_prevote=True))
    assert (candidate.replica.term, candidate.replica.role) == (5, Role.FOLLOWER)


def test_b8_asking_for_a_pre_vote_changes_no_term_and_no_vote() -> None:
    server = core()
    server.step(vote_request(7, (1, 1), is_prevote=True))
    (batch,) = drained(server)
    assert (server.replica.term, server.replica.vote) == (1, None)
    assert [(m.term, m.is_granted) for m in sent([batch], VoteReply)] == [(7, True)]


def test_b9_a_leader_that_is_heard_is_defended() -> None:
    server = core()
    server.step(heartbeat(2))
    drained(server)
    server.step(vote_request(3, (9, 2)))
    assert drained(server) == []
    assert (server.replica.term, server.counts.defended) == (2, 1)
    ticks(server, 10)
    server.step(vote_request(3, (9, 2)))
    assert server.replica.term == 3


def test_a_transfer_overrides_the_defence() -> None:
    server = core()
    server.step(heartbeat(2))
    drained(server)
    server.step(vote_request(3, (9, 2), is_transfer=True))
    assert [m.is_granted for m in sent(drained(server), VoteReply)] == [True]


def test_b9_a_leader_whose_quorum_is_silent_steps_down() -> None:
    server = leading()
    ticks(server, 9)
    assert role(server) is Role.LEADER
    ticks(server, 11)
    assert (role(server), server.counts.quorum_losses) == (Role.FOLLOWER, 1)


def test_a_leader_of_the_past_is_told_the_term() -> None:
    server = core(restored(term=5))
    server.step(heartbeat(3))
    (answer,) = sent(drained(server), AppendRejected)
    assert answer.term == 5


def test_no_campaign_while_a_change_of_the_voters_is_committed_and_not_applied() -> None:
    change = Entry(
        2, Term(1), EntryKind.CONFIGURATION, 0, 1, None, encode_configuration(Configuration((A, B, C, D)))
    )
    disk = Restored(HardState(Term(1), None, 2), bootstrap(Configuration((A, B, C))), (change,))
    server = core(disk)
    server.campaign()
    assert role(server) is Role.FOLLOWER
    drained(server)
    server.campaign()
    assert role(server) is Role.PRE_CANDIDATE
    assert voters(server) == (A, B, C, D)


def test_an_answer_tells_what_is_committed_and_a_log_that_shares_it_believes_it() -> None:
    server = core(restored([1, 1]))
    server.campaign()
    server.step(vote(B, 1, is_granted=False, is_prevote=True, commit=3))
    assert server.replica.log.commit == 3
    stranger = core(restored([2, 2]))
    stranger.campaign()
    stranger.step(vote(B, 2, is_granted=False, is_prevote=True, commit=3))
    assert stranger.replica.log.commit == 1


def test_what_is_committed_is_believed_from_an_older_term_too() -> None:
    server = core(restored([1, 1], term=3))
    server.campaign()
    server.step(vote(B, 2, is_granted=False, is_prevote=True, commit=3))
    assert (server.replica.log.commit, role(server), server.counts.stale) == (3, Role.PRE_CANDIDATE, 1)


def test_who_hears_of_a_committed_change_late_does_not_forget_its_leader() -> None:
    change = Entry(
        2, Term(1), EntryKind.CONFIGURATION, 0, 1, None, encode_configuration(Configuration((A, B, C, D)))
    )
    disk = Restored(HardState(Term(1), None, 1), bootstrap(Configuration((A, B, C))), (change,))
    server = core(disk)
    server.step(heartbeat(2))
    server.step(vote(C, 1, is_granted=False, commit=2))
    assert (server.replica.log.commit, server.replica.leader) == (2, B)


# Following.


def test_an_answer_to_an_append_leaves_after_the_entries_are_on_disk() -> None:
    server = core()
    server.step(append(1, (1, 1), entries(2, [1, 1])))
    batch = server.ready()
    assert batch is not None
    assert batch.entries == list(entries(2, [1, 1]))
    assert batch.send_now == []
    assert [m.index for m in sent([batch], AppendReply)] == [3]


def test_b3_commit_does_not_pass_the_last_entry_that_was_verified() -> None:
    server = core(restored([1, 1, 1, 1]))
    server.step(append(2, (2, 1), commit=5))
    assert server.replica.log.commit == 2
    server.step(append(2, (2, 1), entries(3, [1]), commit=5))
    assert server.replica.log.commit == 3


def test_b4_a_delayed_duplicate_does_not_shorten_an_acknowledged_log() -> None:
    server = core()
    first = append(2, (1, 1), entries(2, [2]))
    server.step(first)
    server.step(append(2, (2, 2), entries(3, [2, 2])))
    drained(server)
    server.step(first)
    assert server.replica.log.last_index == 4
    assert [m.index for m in sent(drained(server), AppendReply)] == [2]


def test_an_append_before_what_is_committed_is_answered_with_the_commit() -> None:
    server = core(restored([1, 1, 1], commit=3))
    server.step(append(2, (1, 1), entries(2, [1])))
    assert [m.index for m in sent(drained(server), AppendReply)] == [3]


def test_a_rejection_hints_where_the_logs_could_agree() -> None:
    server = core(restored([1, 1, 4, 4]))
    server.step(append(6, (7, 5)))
    (rejection,) = sent(drained(server), AppendRejected)
    assert (rejection.rejected_index, rejection.hint_index, rejection.hint_term) == (7, 5, 4)
    server.step(append(6, (5, 3)))
    (rejection,) = sent(drained(server), AppendRejected)
    assert (rejection.hint_index, rejection.hint_term) == (3, 1)


@pytest.mark.parametrize(
    "message",
    [
        append(2, (1, 1), [entry(3, 1)]),
        append(2, (1, 1), [entry(2, 2), entry(2, 2)]),
        append(2, (1, 1), [entry(2, 2), entry(3, 1)]),
        append(2, (1, 1), [entry(2, 3)]),
        append(2, (1, 3)),
        append(2, (-1, 0)),
        append(2, (1, 1), [entry(2, 1, time_ms=9), entry(3, 1, time_ms=8)]),
    ],
)
def test_an_append_out_of_order_is_counted_and_dropped(message: Append) -> None:
    server = core()
    server.step(message)
    assert (server.counts.malformed, server.replica.log.last_index) == (1, 1)
    assert sent(drained(server), AppendReply) == []


def test_a_heartbeat_that_commits_what_is_not_here_moves_nothing() -> None:
    server = core()
    server.step(heartbeat(2, commit=9))
    assert (server.counts.malformed, server.replica.log.commit) == (1, 1)


@pytest.mark.parametrize(
    ("stamp", "target", "counted"),
    [
        (MessageStamp("another", 0), A, "foreign"),
        (MessageStamp("test", 1), A, "foreign"),
        (MessageStamp("test", 0, PROTOCOL_VERSION + 1), A, "foreign"),
        (STAMP, MemberId(A.node, "before the disk was wiped"), "misaddressed"),
    ],
)
def test_b25_a_message_from_elsewhere_is_counted_and_dropped(
    stamp: MessageStamp, target: MemberId, counted: str
) -> None:
    server = core()
    server.step(Heartbeat(stamp, B, target, Term(9), 0, 1))
    assert getattr(server.counts, counted) == 1
    assert server.replica.term == 1


def test_a_second_leader_of_one_term_is_counted_and_not_followed() -> None:
    server = core()
    server.step(heartbeat(2))
    server.step(Heartbeat(STAMP, C, A, Term(2), 0, 1))
    assert (server.counts.contradictions, server.replica.leader) == (1, B)


# Snapshots.

THREE = Configuration((A, B, C))


def offer(index: int, term: int, *, level: int = 1, epoch: int = 0) -> SnapshotOffer:
    snapshot = SnapshotMeta(index, Term(term), THREE, apply_level=level, epoch=epoch)
    return SnapshotOffer(STAMP, B, A, Term(9), 0, snapshot)


def test_b5_a_divergent_follower_takes_the_snapshot_and_forgets_its_own_entries() -> None:
    server = core(restored([1, 1, 2, 2]))
    server.step(offer(4, 3))
    (batch,) = drained(server)
    assert batch.install_snapshot == offer(4, 3).snapshot
    assert (server.replica.log.last_index, server.replica.log.last_term) == (4, 3)
    assert [m.index for m in sent([batch], AppendReply)] == [4]


def test_b5_an_old_snapshot_that_comes_again_is_answered_and_ignored() -> None:
    server = core(restored([1, 1, 1], commit=4))
    server.step(offer(3, 1))
    (batch,) = drained(server)
    assert batch.install_snapshot is None
    assert [m.index for m in sent([batch], AppendReply)] == [4]
    assert server.counts.snapshots_refused == 1


def test_b5_a_snapshot_of_what_is_here_only_moves_the_commit() -> None:
    server = core(restored([1, 1, 1]))
    server.step(offer(3, 1))
    (batch, *_) = drained(server)
    assert batch.install_snapshot is None
    assert (server.replica.log.commit, server.replica.log.last_index) == (3, 4)


def test_b5_a_snapshot_during_a_snapshot() -> None:
    server = core()
    server.step(offer(5, 2))
    first = server.ready()
    server.step(offer(8, 2))
    second = server.ready()
    assert first is not None
    assert second is not None
    server.stored(first.ticket)
    assert server.ready() is None
    assert not server.restored(5)
    server.stored(second.ticket)
    server.applied(5)  # late word from the state machine that is to be replaced
    assert server.replica.log.applied == 1
    assert server.restored(8)
    assert server.replica.log.applied == 8
    server.applied(5)
    assert server.replica.log.applied == 8


def test_what_follows_on_an_installed_snapshot_is_acknowledged_before_its_state_is_read() -> None:
    server = core()
    server.step(offer(5, 2))
    (batch, *_) = drained(server)
    assert batch.install_snapshot is not None
    server.step(append(9, (5, 2), entries(6, [2, 3]), commit=7))
    assert [message.index for message in sent(drained(server), AppendReply)] == [7]
    assert (server.has_more_to_apply, server.replica.log.applied, server.replica.log.stable) == (False, 1, 7)
    assert server.restored(5)
    (applying, *_) = drained(server)
    assert [entry.index for entry in applying.committed] == [6, 7]


def test_b25_a_snapshot_of_another_epoch_is_refused() -> None:
    server = core()
    server.step(offer(5, 2, epoch=1))
    assert (server.counts.foreign, server.replica.log.last_index) == (1, 1)


# Leading.


def test_b1_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    server = elected(restored([1, 2]))
    assert server.replica.term == 3
    server.step(have(B, 3, 3))
    assert server.replica.log.commit == 1
    server.step(have(B, 3, 4))
    assert server.replica.log.commit == 4


def test_b2_no_change_before_the_terms_first_commit() -> None:
    server = elected()
    with pytest.raises(ChangeRefused, match="nothing of this term"):
        server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, C),)))
    server.step(have(B, server.replica.term, server.replica.log.last_index))
    drained(server)
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, C),)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Step(ChangeVerb.LEARN, D), Step(ChangeVerb.LEAVE, B)),
        (Step(ChangeVerb.LEARN, D), Step(ChangeVerb.LEARN, MemberId("e", "log"))),
        (Step(ChangeVerb.LEAVE, B), Step(ChangeVerb.LEAVE, C)),
    ],
    ids=["add and remove", "add and add", "remove and remove"],
)
def test_b2_one_change_at_a_time(first: Step, second: Step) -> None:
    server = leading()
    server.propose_conf(ConfigurationChange((first,)))
    with pytest.raises(ChangeRefused, match="not applied yet"):
        server.propose_conf(ConfigurationChange((second,)))


def test_entries_travel_while_they_are_being_stored() -> None:
    server = leading()
    server.propose(b"x")
    batch = server.ready()
    assert batch is not None
    assert [e.data for e in batch.entries] == [b"x"]
    (message,) = [m for m in batch.send_now if isinstance(m, Append) and m.target == B]
    assert [e.data for e in message.entries] == [b"x"]


def test_what_is_proposed_between_two_batches_travels_in_one_message() -> None:
    server = leading()
    for data in (b"a", b"b", b"c"):
        server.propose(data)
    (message,) = sent(drained(server), Append, B)
    assert [e.data for e in message.entries] == [b"a", b"b", b"c"]


def test_news_of_a_commit_alone_can_be_put_off_and_travels_with_the_next_entries() -> None:
    server = leading()
    first = server.propose(b"x")
    drained(server)
    server.step(have(B, 2, first.index))
    batch = server.ready(with_commit_news=False)
    assert batch is not None
    assert (sent([batch], Append), batch.committed[-1].index) == ([], first.index)
    assert server.ready(with_commit_news=False) is None
    assert server.owes_commit_news
    server.propose(b"y")
    batch = server.ready(with_commit_news=False)
    assert batch is not None
    (message,) = sent([batch], Append, B)
    assert (message.commit, [each.data for each in message.entries]) == (first.index, [b"y"])


def test_news_of_a_commit_that_was_put_off_can_be_sent_without_entries() -> None:
    server = leading()
    first = server.propose(b"x")
    drained(server)
    server.step(have(B, 2, first.index))
    assert server.ready(with_commit_news=False) is not None
    batches = drained(server)
    assert [(each.commit, each.entries) for each in sent(batches, Append, B)] == [(first.index, ())]
    assert not server.owes_commit_news


def test_b18_one_server_alone_commits_when_its_own_disk_is_done() -> None:
    server = core(ALONE)
    server.campaign()
    drained(server)
    position = server.propose(b"x")
    batch = server.ready()
    assert batch is not None
    assert batch.committed == []
    assert server.replica.log.commit < position.index
    server.stored(batch.ticket)
    assert [e.data for b in drained(server) for e in b.committed] == [b"x"]


def test_b22_what_others_committed_is_applied_here_only_when_it_is_durable_here() -> None:
    server = core()
    server.step(append(2, (1, 1), entries(2, [2]), commit=2))
    batch = server.ready()
    assert batch is not None
    assert (server.replica.log.commit, batch.committed) == (2, [])
    server.stored(batch.ticket)
    assert [[e.index for e in b.committed] for b in drained(server)] == [[2]]


def test_b14_a_proposal_bound_to_a_term_is_refused_in_another() -> None:
    server = leading()
    server.propose(b"expire", term=Term(2))
    with pytest.raises(TermMoved, match="term 2 is led here, not 1"):
        server.propose(b"expire", term=Term(1))
    server.step(heartbeat(3))
    with pytest.raises(NotLeader):
        server.propose(b"expire", term=Term(2))


def test_an_entry_carries_its_request_and_cluster_time() -> None:
    server = leading()
    key = DedupKey("agent", 7, 1, 1)
    ticks(server, 3)
    server.propose(b"x", dedup=key)
    ticks(server, 2)
    server.propose(b"y")
    *_, first, second = [e for b in drained(server) for e in b.entries]
    assert first == Entry(3, Term(2), EntryKind.COMMAND, 150, 2, key, b"x")
    assert (second.time_ms, second.dedup) == (250, None)


def test_cluster_time_goes_on_where_the_last_leader_left_it() -> None:
    disk = restored()
    disk = Restored(HardState(Term(1), None, 1), disk.snapshot, (entry(2, 1, time_ms=5_000),))
    server = leading(disk)
    assert server.replica.log.last.time_ms == 5_000
    ticks(server, 2)
    server.propose(b"x")
    assert server.replica.log.last.time_ms == 5_100


def test_too_much_uncommitted_is_refused_but_one_entry_always_fits() -> None:
    server = leading(settings=RaftSettings(uncommitted_bytes_max=100, entry_bytes_max=500))
    server.propose(b"x" * 400)
    with pytest.raises(TooMuchUncommitted):
        server.propose(b"y")
    server.step(have(B, 2, 3))
    drained(server)
    server.propose(b"y")
    with pytest.raises(TooLarge):
        server.propose(b"z" * 501)


def test_a_slow_follower_is_sent_a_window_and_no_more() -> None:
    server = leading(settings=RaftSettings(append_bytes_max=100, inflight_messages_max=3))
    for _ in range(10):
        server.propose(b"x" * 90)
    messages = [m for m in sent(drained(server), Append, B) if m.entries]
    assert [[e.index for e in m.entries] for m in messages] == [[3], [4], [5]]


def test_committed_entries_come_in_slices_within_a_window() -> None:
    settings = RaftSettings(apply_bytes_max=200, applying_bytes_max=400)
    server = core(restored([1] * 10, commit=11), settings=settings)
    batches = [server.ready(), server.ready(), server.ready()]
    slices = [[e.index for e in b.committed] for b in batches if b is not None]
    assert slices == [[2, 3, 4], [5, 6, 7]]
    server.applied(4)
    batch = server.ready()
    assert batch is not None
    assert [e.index for e in batch.committed] == [8, 9, 10]


def test_an_answer_from_who_is_no_member_is_counted() -> None:
    server = leading()
    server.step(have(D, 2, 2))
    assert server.counts.strangers == 1


def test_an_acknowledgement_of_what_was_never_sent_is_counted() -> None:
    server = leading()
    server.step(have(C, 2, 99))
    server.step(heard(C, 2, 99))
    assert (server.counts.malformed, server.replica.log.commit) == (2, 2)


def test_a_follower_whose_disk_lost_what_it_acknowledged_is_counted_and_not_flooded() -> None:
    server = leading()
    server.report_unreachable(B)
    drained(server)
    server.step(AppendRejected(STAMP, B, A, Term(2), 2, 1, Term(1)))
    assert server.counts.forgotten == 1
    assert sent(drained(server), Append, B) == []


# Reads.


def test_b10_a_read_before_the_terms_first_commit_waits_for_it() -> None:
    server = elected()
    server.read_index(7)
    assert [b.reads for b in drained(server) if b.reads] == []
    server.step(have(B, 2, 2))
    (message,) = sent(drained(server), Heartbeat, B)
    server.step(heard(B, 2, message.round))
    assert [b.reads for b in drained(server) if b.reads] == [[ConfirmedRead(7, 2)]]


def test_b10_an_answer_to_an_earlier_heartbeat_confirms_nothing() -> None:
    server = leading()
    ticks(server, 2)
    (earlier,) = sent(drained(server), Heartbeat, B)
    server.read_index(7)
    (later,) = sent(drained(server), Heartbeat, B)
    server.step(heard(B, 2, earlier.round))
    assert [b.reads for b in drained(server) if b.reads] == []
    server.step(heard(B, 2, later.round))
    assert [b.reads for b in drained(server) if b.reads] == [[ConfirmedRead(7, 2)]]


def test_b10_reads_are_lost_with_leadership() -> None:
    server = leading()
    server.read_index(7)
    drained(server)
    server.step(heartbeat(3))
    server.step(heard(B, 2, 2))
    assert [b.reads for b in drained(server) if b.reads] == []
    with pytest.raises(NotLeader):
        server.read_index(8)


def test_b10_a_read_that_is_asked_again_needs_a_round_of_its_own() -> None:
    """The same word for it proves nothing: neither the answer that came for the first, nor one from before
    leadership was lost and won again."""
    server = leading()
    server.read_index(7)
    (first,) = sent(drained(server), Heartbeat, B)
    server.read_index(7)
    (second,) = sent(drained(server), Heartbeat, B)
    server.step(heard(B, 2, first.round))
    assert [b.reads for b in drained(server) if b.reads] == [[ConfirmedRead(7, 2)]]
    server.step(heartbeat(3))
    server.campaign()
    drained(server)
    server.step(vote(B, 4, is_prevote=True))
    drained(server)
    server.step(vote(B, 4))
    drained(server)
    server.step(have(B, 4, server.replica.log.last_index))
    drained(server)
    server.read_index(7)
    drained(server)
    server.step(heard(B, 2, second.round))
    assert [b.reads for b in drained(server) if b.reads] == []


def asked(batches: Iterable[Batch]) -> list[MemberId]:
    return [message.target for message in sent(batches, Heartbeat)]


def test_about_reads_no_more_are_asked_than_a_majority_takes_those_that_answered_last() -> None:
    server = core(restored(voters=(A, B, C, D, E)))
    server.campaign()
    drained(server)
    for is_prevote in (True, False):
        for member in (B, C):
            server.step(vote(member, 2, is_prevote=is_prevote))
        drained(server)
    for member in (B, C):
        server.step(have(member, 2, 2))
    drained(server)
    ticks(server, 2)
    (message, *_) = sent(drained(server), Heartbeat, B)
    for member in (C, E):
        server.step(heard(member, 2, message.round))
    server.read_index(7)
    batches = drained(server)
    assert asked(batches) == [C, E]
    round_ = sent(batches, Heartbeat)[0].round
    server.step(heard(E, 2, round_))
    assert [b.reads for b in drained(server) if b.reads] == []
    server.step(heard(C, 2, round_))
    assert [b.reads for b in drained(server) if b.reads] == [[ConfirmedRead(7, 2)]]


def test_everybody_is_asked_about_reads_when_those_keep_silent_and_anybodys_word_will_do() -> None:
    server = leading()
    server.read_index(7)
    assert asked(drained(server)) == [B]
    server.ask_everybody()
    batches = drained(server)
    assert asked(batches) == [B, C]
    server.step(heard(C, 2, sent(batches, Heartbeat)[0].round))
    assert [b.reads for b in drained(server) if b.reads] == [[ConfirmedRead(7, 2)]]
    server.read_index(8)
    assert asked(drained(server)) == [C]


def test_nobody_is_asked_about_reads_that_are_confirmed() -> None:
    server = leading()
    server.ask_everybody()
    assert asked(drained(server)) == []
    assert not server.is_asking


def test_heartbeats_go_to_everybody_however_often_a_few_are_asked_about_reads() -> None:
    server = leading()
    ticks(server, 1)
    server.read_index(7)
    assert asked(drained(server)) == [B]
    ticks(server, 1)
    assert asked(drained(server)) == [B, C]


def test_while_voters_change_everybody_is_asked_about_reads() -> None:
    server = leading()
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, C),), Transition.JOINT_EXPLICIT))
    drained(server)
    server.step(have(B, 2, 3))
    drained(server)
    assert server.replica.configuration.is_joint
    server.read_index(7)
    assert asked(drained(server)) == [B, C]


def test_one_server_alone_confirms_its_reads_by_itself() -> None:
    server = core(ALONE)
    server.campaign()
    drained(server)
    server.read_index(7)
    assert [b.reads for b in drained(server)] == [[ConfirmedRead(7, 2)]]


def test_there_is_a_limit_to_waiting_reads() -> None:
    server = leading(settings=RaftSettings(reads_pending_max=1))
    server.read_index(1)
    with pytest.raises(TooManyReads):
        server.read_index(2)


# Leadership given away.


def test_b11_a_transfer_hands_over_when_the_target_has_everything() -> None:
    server = leading()
    server.propose(b"x")
    drained(server)
    server.transfer(B)
    with pytest.raises(Transferring):
        server.propose(b"y")
    assert sent(drained(server), TimeoutNow) == []
    server.step(have(B, 2, 3))
    assert [m.target for m in sent(drained(server), TimeoutNow)] == [B]


def test_b11_a_read_after_a_transfer_still_needs_its_round() -> None:
    """There is no lease that a transfer could leave behind."""
    server = leading()
    server.transfer(B)
    drained(server)
    server.read_index(7)
    assert [b.reads for b in drained(server) if b.reads] == []


def test_a_transfer_that_does_not_happen_is_given_up() -> None:
    server = leading()
    server.transfer(C)
    for _ in range(10):
        ticks(server, 1)
        server.step(heard(B, 2, 1))
    assert server.status().transferee is None
    server.propose(b"y")


@pytest.mark.parametrize("target", [A, D])
def test_leadership_goes_to_another_voter_only(target: MemberId) -> None:
    with pytest.raises(RaftRefused, match="no other voter"):
        leading().transfer(target)


def test_leadership_does_not_go_to_who_still_reads_its_state() -> None:
    server = leading()
    reading = HeartbeatReply(STAMP, C, A, Term(2), 1, 1, can_lead=False)
    server.step(reading)
    with pytest.raises(RaftRefused, match="still reads its state"):
        server.transfer(C)
    server.propose(b"x")
    drained(server)
    server.step(have(B, 2, 2))
    server.step(have(C, 2, 3))
    server.step(heard(B, 2, 1))
    server.store_failed()
    assert [m.target for m in sent(drained(server, is_stored=False), TimeoutNow)] == [B]


def test_who_still_reads_its_state_says_that_it_cannot_lead() -> None:
    server = core()
    server.step(heartbeat(9))
    assert [each.can_lead for each in sent(drained(server), HeartbeatReply)] == [True]
    server.step(offer(5, 2))
    drained(server)
    server.step(heartbeat(9, number=2))
    assert [each.can_lead for each in sent(drained(server), HeartbeatReply)] == [False]
    assert server.restored(5)
    server.step(heartbeat(9, number=3))
    assert [each.can_lead for each in sent(drained(server), HeartbeatReply)] == [True]


def test_who_is_told_to_lead_stands_at_once_and_says_why() -> None:
    server = core()
    server.step(heartbeat(2))
    drained(server)
    server.step(TimeoutNow(STAMP, B, A, Term(2)))
    requests = sent(drained(server), VoteRequest)
    assert [(m.term, m.is_prevote, m.is_transfer) for m in requests] == [(3, False, True)] * 2


def test_only_the_leader_can_tell_somebody_to_lead() -> None:
    server = core()
    server.step(heartbeat(2))
    server.step(TimeoutNow(STAMP, C, A, Term(2)))
    assert (role(server), server.counts.stale) == (Role.FOLLOWER, 1)


def test_b24_a_leader_whose_disk_is_silent_steps_down_and_names_the_best_follower() -> None:
    server = leading()
    server.propose(b"x")
    drained(server, is_stored=False)
    for _ in range(10):
        server.step(heard(B, 2, 1))
        ticks(server, 1)
    batches = drained(server, is_stored=False)
    assert [m.target for m in sent(batches, TimeoutNow)] == [B]
    assert (role(server), server.counts.store_losses) == (Role.FOLLOWER, 1)
    ticks(server, 60)
    assert role(server) is Role.FOLLOWER


def test_b21_b24_a_server_whose_store_failed_leads_nobody_any_more() -> None:
    server = leading()
    server.step(heard(B, 2, 1))
    server.store_failed()
    assert [m.target for m in sent(drained(server, is_stored=False), TimeoutNow)] == [B]
    ticks(server, 60)
    assert role(server) is Role.FOLLOWER


# Memberships.


def grown() -> RaftCore:
    """A leads B and C, and D learns."""
    server = leading()
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEARN, D),)))
    drained(server)
    server.step(have(B, 2, 3))
    drained(server)
    assert server.replica.configuration.learners == (D,)
    return server


def test_a_change_counts_from_when_it_is_applied() -> None:
    server = leading()
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, C),)))
    drained(server)
    assert voters(server) == (A, B, C)
    server.step(have(B, 2, 3))
    drained(server)
    assert voters(server) == (A, B)


def test_b26_a_learner_is_promoted_only_when_it_is_caught_up() -> None:
    server = grown()
    promotion = ConfigurationChange((Step(ChangeVerb.VOTE, D),))
    for _ in range(300):
        server.propose(b"x")
    server.step(have(B, 2, 303))
    drained(server)
    with pytest.raises(ChangeRefused, match="lacks 303 entries"):
        server.propose_conf(promotion)
    server.step(have(D, 2, 303))
    server.propose_conf(promotion)


def test_b26_a_learner_that_is_silent_is_not_promoted() -> None:
    server = grown()
    server.step(have(D, 2, 3))
    for _ in range(20):
        ticks(server, 1)
        server.step(heard(B, 2, 1))
    with pytest.raises(ChangeRefused, match="not been heard"):
        server.propose_conf(ConfigurationChange((Step(ChangeVerb.VOTE, D),)))


def test_who_becomes_a_learner_gets_the_vote_with_a_later_change() -> None:
    server = leading()
    with pytest.raises(ChangeRefused, match="becomes a learner with this change"):
        server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEARN, D), Step(ChangeVerb.VOTE, D))))


@pytest.mark.parametrize("client", ["", "x" * 256, "é" * 128])
def test_a_key_that_no_log_could_give_back_is_the_caller_s_mistake(client: str) -> None:
    server = leading()
    last_index = server.replica.log.last_index
    with pytest.raises(AssertionError, match="cannot be read back"):
        server.propose(b"x", dedup=DedupKey(client, 1, 2, 0))
    assert server.replica.log.last_index == last_index


def test_a_newcomer_is_brought_a_snapshot() -> None:
    server = grown()
    drained(server)
    server.step(AppendRejected(STAMP, D, A, Term(2), 3, 0, Term(0)))
    (brought,) = sent(drained(server), SnapshotOffer)
    assert (brought.target, brought.snapshot) == (D, bootstrap(THREE))
    server.report_snapshot(D, is_ok=True)
    assert server.awaited_index == 1  # it has arrived there, and is not installed yet
    server.step(have(D, 2, 1))
    (message, *_) = sent(drained(server), Append, D)
    assert [e.index for e in message.entries] == [2, 3]
    assert server.awaited_index == 1  # and it has not caught up with what came meanwhile
    server.step(have(D, 2, 2))
    assert server.awaited_index == 2
    server.propose(b"after it was installed")
    server.step(have(D, 2, 3))
    assert server.awaited_index is None


def test_nothing_is_kept_for_a_newcomer_that_fell_silent_while_it_was_brought_a_snapshot() -> None:
    server = grown()
    drained(server)
    server.step(AppendRejected(STAMP, D, A, Term(2), 3, 0, Term(0)))
    drained(server)
    assert server.awaited_index == 1
    for _ in range(20):
        ticks(server, 1)
        server.step(heard(B, 2, 1))
    assert server.awaited_index is None


def test_a_snapshot_that_could_not_be_brought_is_offered_again() -> None:
    server = grown()
    drained(server)
    server.step(AppendRejected(STAMP, D, A, Term(2), 3, 0, Term(0)))
    drained(server)
    server.report_snapshot(D, is_ok=False)
    assert sent(drained(server), SnapshotOffer) == []
    server.step(heard(D, 2, 1))
    assert len(sent(drained(server), SnapshotOffer, D)) == 1


def bringing_c_a_snapshot() -> RaftCore:
    """C has acknowledged 2 and lacks 3, which is compacted: it is on the snapshot's way to it, of 5."""
    server = leading()
    for _ in range(3):
        server.propose(b"x")
    drained(server)
    server.step(have(B, 2, 5))
    server.step(have(C, 2, 2))
    drained(server)
    snapshot = server.snapshot_point()
    assert snapshot is not None
    assert snapshot.index == 5
    server.compacted(snapshot, 6)
    server.step(AppendRejected(STAMP, C, A, Term(2), 5, 2, Term(2)))
    assert [offer.snapshot.index for offer in sent(drained(server), SnapshotOffer, C)] == [5]
    return server


def test_what_was_acknowledged_before_a_snapshot_arrived_does_not_bring_another() -> None:
    server = bringing_c_a_snapshot()
    server.report_snapshot(C, is_ok=True)
    server.step(have(C, 2, 3))
    batches = drained(server)
    assert sent(batches, SnapshotOffer) == []
    assert {message.prev_index for message in sent(batches, Append, C)} == {5}
    server.step(have(C, 2, 5))
    assert [each.mode.value for each in server.status().members] == ["probe", "replicate", "replicate"]


def test_what_was_rejected_before_a_snapshot_arrived_does_not_bring_another() -> None:
    server = bringing_c_a_snapshot()
    server.report_snapshot(C, is_ok=True)
    server.step(heard(C, 2, 1))
    assert {message.prev_index for message in sent(drained(server), Append, C)} == {5}
    server.step(AppendRejected(STAMP, C, A, Term(2), 5, 2, Term(2)))
    assert sent(drained(server), Message, C) == []
    server.step(heard(C, 2, 1))
    assert {message.prev_index for message in sent(drained(server), Append, C)} == {5}


def test_a_follower_that_lost_the_snapshot_it_was_brought_is_brought_another_after_a_while() -> None:
    server = bringing_c_a_snapshot()
    server.report_snapshot(C, is_ok=True)
    for refusals in range(1, 21):
        server.step(heard(C, 2, 1))
        drained(server)
        server.step(AppendRejected(STAMP, C, A, Term(2), 5, 2, Term(2)))
        offered = sent(drained(server), SnapshotOffer, C)
        assert len(offered) == (1 if refusals == 20 else 0)


def test_a_joint_configuration_needs_both_halves_and_leaves_itself() -> None:
    server = grown()
    server.step(have(D, 2, 3))
    server.propose_conf(
        ConfigurationChange((Step(ChangeVerb.VOTE, D), Step(ChangeVerb.LEAVE, B), Step(ChangeVerb.LEAVE, C)))
    )
    drained(server)
    server.step(have(B, 2, 4))
    drained(server)
    assert server.replica.configuration.is_joint
    assert server.replica.log.last_index == 5  # it has proposed to leave
    server.step(have(D, 2, 5))
    assert server.replica.log.commit == 4
    server.step(have(B, 2, 5))
    drained(server)
    assert server.replica.configuration == Configuration(voters=(A, D))


def test_a_joint_configuration_that_was_asked_for_stays_until_it_is_left() -> None:
    server = leading()
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, C),), Transition.JOINT_EXPLICIT))
    drained(server)
    server.step(have(B, 2, 3))
    drained(server)
    ticks(server, 5)
    assert server.replica.configuration.is_joint
    server.propose_conf(LEAVE_JOINT)
    drained(server)
    server.step(have(B, 2, 4))
    drained(server)
    assert server.replica.configuration == Configuration(voters=(A, B))


def test_a_leader_that_is_removed_hands_over() -> None:
    server = leading()
    server.propose_conf(ConfigurationChange((Step(ChangeVerb.LEAVE, A),)))
    drained(server)
    server.step(have(B, 2, 3))
    batches = drained(server)
    assert role(server) is Role.FOLLOWER
    assert [m.target for m in sent(batches, TimeoutNow)] == [B]
    assert max(m.commit for m in sent(batches, Append, B)) == 3


# Levels.


def test_a_level_is_raised_when_every_member_can_apply_it() -> None:
    server = leading(settings=RaftSettings(apply_level_max=3))
    server.step(heard(B, 2, 1, level=3))
    with pytest.raises(LevelUnsupported, match="c/log applies up to level 0"):
        server.propose_level(3)
    server.step(heard(C, 2, 1, level=3))
    server.propose_level(3)
    server.propose(b"x")
    levels = [e.apply_level for b in drained(server) for e in b.entries]
    assert levels == [3, 3]
    with pytest.raises(LevelUnsupported, match="it only rises"):
        server.propose_level(3)


def test_a_server_that_meets_a_higher_level_stops_applying_and_says_so() -> None:
    server = core()
    new = [entry(2, 1), entry(3, 1, level=3), entry(4, 1, level=3)]
    server.step(append(1, (1, 1), new, commit=4))
    batches = drained(server)
    assert [e.index for b in batches for e in b.committed] == [2]
    assert batches[-1].soft is not None
    assert batches[-1].soft.level_missing == 3
    ticks(server, 60)
    assert role(server) is Role.FOLLOWER


def test_of_what_a_server_cannot_apply_it_stores_so_much_and_no_more() -> None:
    """It keeps all of it in memory, and can make no snapshot of it."""
    server = core(settings=RaftSettings(unapplied_bytes_max=1_000))
    for index in (2, 3, 4):
        server.step(append(1, (index - 1, 1), [entry(index, 1, b"x" * 600, level=3)], commit=2))
        assert server.replica.log.last_index == min(index, 3)
        last = drained(server)[-1]
    assert (server.counts.appends_refused, last.soft) == (1, Soft(Role.FOLLOWER, B, Term(1), 3, True))
    server.step(append(1, (2, 1), [entry(3, 1, b"x" * 600, level=3)], commit=2))
    assert [m.index for m in sent(drained(server), AppendReply)] == [3]  # what is here is still answered for


def test_who_can_apply_the_log_stores_all_of_it() -> None:
    server = core(settings=RaftSettings(unapplied_bytes_max=1_000))
    for index in range(2, 6):
        server.step(append(1, (index - 1, 1), [entry(index, 1, b"x" * 600)]))
    assert (server.replica.log.last_index, server.counts.appends_refused) == (5, 0)


def test_a_snapshot_is_not_offered_to_who_could_not_apply_it() -> None:
    server = leading(settings=RaftSettings(apply_level_max=3))
    for member in (B, C):
        server.step(heard(member, 2, 1, level=3))
    server.propose_level(3)
    drained(server)
    server.step(have(B, 2, 3))
    drained(server)
    snapshot = server.snapshot_point()
    assert snapshot is not None
    server.compacted(snapshot, 4)
    server.step(heard(C, 2, 1, level=1))  # its program was replaced by an older one
    server.step(AppendRejected(STAMP, C, A, Term(2), 1, 0, Term(0)))
    assert sent(drained(server), SnapshotOffer) == []
    server.step(heard(C, 2, 1, level=3))
    assert len(sent(drained(server), SnapshotOffer, C)) == 1


def test_a_snapshot_of_a_higher_level_is_refused() -> None:
    server = core()
    server.step(offer(5, 2, level=3))
    assert (server.replica.log.last_index, server.replica.level_missing) == (1, 3)


# The contract.


def test_only_a_commit_may_be_written_without_a_sync() -> None:
    server = core(restored([1, 1]))
    server.step(append(1, (3, 1), commit=3))
    batch = server.ready()
    assert batch is not None
    assert (batch.hard_state, batch.must_sync) == (HardState(Term(1), None, 3), False)


def test_a_ticket_that_was_never_given_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="never given"):
        core().stored(Ticket(1))


def test_nothing_to_do_is_no_batch() -> None:
    server = core()
    drained(server)
    assert server.ready() is None
