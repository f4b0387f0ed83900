"""The four verbs of a server of consensus, with literal effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from adsum.consensus import commands, compaction, core, reports
from adsum.consensus.effects import (
    AnswerRequests,
    AppliedTo,
    AskLeader,
    BringSnapshot,
    ConsensusEffect,
    HandedOver,
    PrepareSegment,
    RecordSnapshot,
    SendMessage,
    ServerBroken,
    SpendBallast,
    StoreGroup,
    Turned,
    WriteSnapshot,
)
from adsum.consensus.errors import DiskIsFull, OutcomeUnknown, Stopping
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine, Severity
from adsum.now import MILLISECOND, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.errors import NotLeader
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.settings import RaftSettings
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    MemberId,
    Role,
    SnapshotMeta,
    SnapshotRef,
    Term,
    Turn,
    TurnCause,
)
from tests.consensus.support import FIRST, STAMP, A, B, Bench, C, leading

EAGER = ServerSettings(snapshot_entries=1, snapshot_interval_s=0.1, entries_kept=0)


def propose(bench: Bench, data: bytes) -> None:
    assert not bench.core.command(bench.now, commands.Propose(data, data.decode()))


def answers(bench: Bench) -> list[tuple[object, object]]:
    return [answer for effect in bench.taken(AnswerRequests) for answer in effect.answers]


def test_proposals_that_come_together_are_one_group_and_are_answered_when_it_is_stored_and_applied() -> None:
    bench = leading()
    for word in (b"a", b"b", b"c"):
        propose(bench, word)
    assert bench.core.deadline() == bench.now.monotonic_ns
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    assert [entry.data for change in group.changes for entry in change.entries] == [b"a", b"b", b"c"]
    assert answers(bench) == []
    bench.effects += bench.core.report(bench.now, reports.GroupStored(group.ticket, needs_segment=False))
    assert answers(bench) == []
    bench.settle()
    assert answers(bench) == [("a", b"heard a"), ("b", b"heard b"), ("c", b"heard c")]
    assert bench.taken(AppliedTo) == [AppliedTo(5)]


def test_while_one_group_is_on_its_way_no_other_is_given_out() -> None:
    bench = leading()
    propose(bench, b"a")
    bench.tick()
    propose(bench, b"b")
    bench.tick()
    assert len(bench.taken(StoreGroup)) == 1


def test_no_more_is_applied_in_one_tick_than_the_maximum_and_the_rest_is_due_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "APPLY_ENTRIES_MAX", 2)
    bench = leading()
    for word in (b"a", b"b", b"c"):
        propose(bench, word)
    bench.tick()
    bench.store()
    bench.tick()
    assert bench.machine.words == [b"a", b"b"]
    assert bench.core.deadline() == bench.now.monotonic_ns
    bench.tick()
    assert bench.machine.words == [b"a", b"b", b"c"]


def test_a_read_is_confirmed_by_a_quorum_and_waits_for_the_state_machine() -> None:
    bench = leading()
    propose(bench, b"a")
    assert not bench.core.command(bench.now, commands.ConfirmRead("read"))
    bench.tick()
    assert answers(bench) == [("read", 2)]  # what was committed when it was asked
    bench.settle()
    assert answers(bench) == [("a", b"heard a")]


def test_who_stores_no_more_of_a_log_that_it_cannot_apply_says_so_once() -> None:
    bench = Bench((A, B, C), ServerSettings(raft=RaftSettings(unapplied_bytes_max=1_000)))
    for index in (2, 3, 4, 4, 4):
        entry = Entry(index, Term(1), EntryKind.COMMAND, 0, 3, None, b"x" * 600)
        message = Append(STAMP, B, A, Term(1), index, index - 1, Term(1), (entry,))
        bench.effects += bench.core.receive(bench.now, message)
        bench.settle()
    assert bench.core.raft.counts.appends_refused == 3
    lines = [each.sentence for each in bench.taken(LogLine) if each.severity is Severity.ERROR]
    assert len(lines) == 2
    assert lines[1] == (
        "as much is stored here as may be of a log that this version cannot apply: nothing more is taken "
        "until it is upgraded to one that knows apply level 3"
    )


def test_who_does_not_lead_takes_neither_proposals_nor_reads() -> None:
    bench = Bench((A, B, C))
    for request in (commands.Propose(b"a", "a"), commands.ConfirmRead("read")):
        with pytest.raises(NotLeader):
            bench.core.command(bench.now, request)


def test_what_waits_when_the_process_ends_is_told_what_it_may_do() -> None:
    bench = leading()
    propose(bench, b"a")
    bench.core.command(bench.now, commands.ConfirmRead("read"))
    (effect,) = bench.core.end()
    assert isinstance(effect, AnswerRequests)
    assert [(token, type(outcome)) for token, outcome in effect.answers] == [
        ("a", OutcomeUnknown),
        ("read", Stopping),
    ]


# With others.


def test_an_only_voter_answers_each_read_in_the_turn_in_which_it_came() -> None:
    bench = leading()
    for read in ("first", "second"):
        bench.effects += bench.core.command(bench.now, commands.ConfirmRead(read))
        bench.tick()
        assert [token for token, _index in answers(bench)] == [read]


def test_who_comes_to_a_leader_that_has_just_lost_its_place_joins_no_question_that_has_left() -> None:
    bench = elected()
    bench.core.command(bench.now, commands.ConfirmRead("another server's"))
    bench.settle()
    bench.core.command(bench.now, commands.ConfirmRead("another of its"))  # for the next question
    later = Term(bench.core.raft.replica.term + 1)
    bench.core.receive(bench.now, Heartbeat(STAMP, B, A, later, 0, 1))
    bench.tick()
    assert not bench.core.is_leader
    turn = bench.core.reads.turn
    bench.effects += bench.core.command(bench.now, commands.SubmitRead("mine"))
    assert bench.taken(AskLeader) == []
    bench.tick()
    assert len(bench.taken(AskLeader)) == 1
    assert bench.core.reads.turn != turn


def elected(settings: ServerSettings | None = None) -> Bench:
    """Of three, by the word of one of the others; and it has heard that the first entry is there."""
    bench = Bench((A, B, C), settings)
    bench.core.raft.campaign()
    for _ in range(2):
        bench.settle()
        for sent in bench.taken(SendMessage):
            if sent.message.target == B:
                answer_of(bench, sent)
    bench.settle()
    assert bench.core.is_leader
    acknowledge(bench, 2)
    bench.effects.clear()
    return bench


def answer_of(bench: Bench, sent: SendMessage) -> None:
    message = sent.message
    assert isinstance(message, VoteRequest)
    reply = VoteReply(STAMP, B, A, message.term, message.is_prevote, True, 1, Term(1))
    bench.effects += bench.core.receive(bench.now, reply)


def acknowledge(bench: Bench, index: int) -> None:
    bench.effects += bench.core.receive(
        bench.now, AppendReply(STAMP, B, A, bench.core.raft.replica.term, index)
    )
    bench.settle()


def test_entries_leave_for_the_others_before_they_are_stored_here() -> None:
    bench = elected()
    propose(bench, b"a")
    bench.tick()
    kinds: list[type[ConsensusEffect]] = [type(effect) for effect in bench.effects]
    assert kinds == [SendMessage, StoreGroup]  # the third has not been heard of yet


def test_followers_learn_of_a_commit_with_the_next_entries_or_after_three_milliseconds() -> None:
    bench = elected()
    bench.pass_ms(10)
    bench.effects.clear()
    propose(bench, b"a")
    bench.settle()
    bench.taken(SendMessage)
    acknowledge(bench, 3)
    assert bench.machine.words == [b"a"]
    assert bench.taken(SendMessage) == []
    assert bench.core.deadline() == bench.now.monotonic_ns + 3 * MILLISECOND
    bench.pass_ms(3)
    commits = [getattr(sent.message, "commit", None) for sent in bench.taken(SendMessage)]
    assert commits == [3]


def test_the_three_milliseconds_begin_anew_when_entries_brought_the_news_before() -> None:
    bench = elected()
    bench.pass_ms(10)
    propose(bench, b"a")
    bench.settle()
    acknowledge(bench, 3)
    bench.pass_ms(2)
    propose(bench, b"b")
    bench.settle()
    acknowledge(bench, 4)
    bench.effects.clear()
    bench.pass_ms(2)
    assert bench.taken(SendMessage) == []
    bench.pass_ms(1)
    commits = [getattr(sent.message, "commit", None) for sent in bench.taken(SendMessage)]
    assert commits == [4]


def beats(bench: Bench) -> list[tuple[MemberId, int]]:
    """Whom it asked, in which round."""
    sent = [each.message for each in bench.taken(SendMessage)]
    return [(message.target, message.round) for message in sent if isinstance(message, Heartbeat)]


def beat_answered(bench: Bench, member: MemberId, number: int) -> None:
    reply = HeartbeatReply(STAMP, member, A, bench.core.raft.replica.term, number, 2)
    bench.effects += bench.core.receive(bench.now, reply)
    bench.settle()


def test_reads_that_come_while_one_is_asked_about_share_the_next_question() -> None:
    bench = elected()
    for token in ("first", "second", "third"):
        bench.core.command(bench.now, commands.SubmitRead(token))
        bench.settle()
    ((member, number),) = beats(bench)
    assert member == B
    beat_answered(bench, B, number)
    assert answers(bench) == [("first", 2)]
    ((member, later),) = beats(bench)
    beat_answered(bench, B, number)
    assert answers(bench) == []
    beat_answered(bench, B, later)
    assert answers(bench) == [("second", 2), ("third", 2)]


def test_the_next_question_leaves_one_turn_after_the_answer_and_takes_along_who_asks_again() -> None:
    bench = elected()
    for token in ("first", "second"):
        bench.core.command(bench.now, commands.SubmitRead(token))
        bench.settle()
    ((member, number),) = beats(bench)
    reply = HeartbeatReply(STAMP, member, A, bench.core.raft.replica.term, number, 2)
    bench.effects += bench.core.receive(bench.now, reply)
    bench.tick()
    assert (answers(bench), beats(bench)) == ([("first", 2)], [])
    assert bench.core.holds_reads
    assert bench.core.deadline() == bench.now.monotonic_ns
    bench.core.command(bench.now, commands.SubmitRead("first again"))
    bench.tick()
    ((member, number),) = beats(bench)
    beat_answered(bench, member, number)
    assert answers(bench) == [("second", 2), ("first again", 2)]


def test_when_who_was_asked_about_a_read_is_late_the_others_are_asked() -> None:
    bench = elected()
    bench.core.command(bench.now, commands.SubmitRead("read"))
    bench.settle()
    beats(bench)
    bench.pass_ms(2)
    assert beats(bench) == []
    bench.pass_ms(1)
    asked = beats(bench)
    assert [member for member, _number in asked] == [B, C]
    beat_answered(bench, C, asked[0][1])
    assert answers(bench) == [("read", 2)]


def test_reads_that_wait_for_the_end_of_a_question_are_asked_elsewhere_when_leadership_is_lost() -> None:
    bench = elected()
    for token in ("first", "second"):
        bench.core.command(bench.now, commands.SubmitRead(token))
        bench.settle()
    bench.core.receive(bench.now, Heartbeat(STAMP, B, A, Term(9), 1, 1))
    bench.settle()
    bench.pass_ms(100)
    assert [asked.node for asked in bench.taken(AskLeader)] == ["b", "b"]


def test_b14_after_a_pause_a_leader_asks_its_quorum_before_it_trusts_the_time() -> None:
    bench = elected()
    bench.now = Now(bench.now.monotonic_ns + 5_000 * MILLISECOND, 5_000)
    bench.tick()
    assert LogLine(Severity.WARN, "this process stood still for 5.0 s") in bench.effects
    assert not bench.core.pace.is_time_trusted
    beats = [each.message for each in bench.taken(SendMessage) if isinstance(each.message, Heartbeat)]
    reply = HeartbeatReply(STAMP, B, A, beats[-1].term, beats[-1].round, 1)
    bench.effects += bench.core.receive(bench.now, reply)
    bench.settle()
    assert bench.core.pace.is_time_trusted
    assert answers(bench) == []  # its own question is nobody's request


def test_who_would_expire_something_right_after_a_pause_is_told_not_to() -> None:
    """Tasks that slept wake in any order, so it may ask before anything else came in."""
    bench = elected()
    assert bench.core.is_time_trusted(bench.now)
    bench.now = Now(bench.now.monotonic_ns + 5_000 * MILLISECOND, 5_000)
    assert not bench.core.is_time_trusted(bench.now)
    bench.settle()
    assert [line.sentence for line in bench.taken(LogLine)] == ["this process stood still for 5.0 s"]


def first_after_a_pause(bench: Bench, who: str) -> Sequence[ConsensusEffect]:
    now, term = bench.now, bench.core.raft.replica.term
    match who:
        case "a request":
            return bench.core.command(now, commands.Propose(b"late", "late"))
        case "a message":
            return bench.core.receive(now, AppendReply(STAMP, B, A, term, 2))
        case "a report":
            return bench.core.report(now, reports.NodeUnreachable("c"))
    return bench.core.tick(now)


@pytest.mark.parametrize("who", ["a request", "a message", "a report", "the tick"])
def test_whatever_wakes_first_after_a_pause_finds_that_time_is_not_trusted(who: str) -> None:
    bench = elected()
    bench.now = Now(bench.now.monotonic_ns + 5_000 * MILLISECOND, 5_000)
    bench.effects += first_after_a_pause(bench, who)
    assert not bench.core.pace.is_time_trusted
    bench.settle()
    [said] = [line.sentence for line in bench.taken(LogLine) if "stood still" in line.sentence]
    assert said.startswith("this process stood still for ")
    assert bench.core.pace.pauses == 1


def test_cluster_time_stands_still_over_a_pause() -> None:
    """All servers that stood still together would else end everything that waits, at once."""
    bench = leading()
    bench.pass_ms(1_000)
    propose(bench, b"before")
    bench.settle()
    bench.now = Now(bench.now.monotonic_ns + 12_000 * MILLISECOND, 12_000)
    bench.effects += bench.core.command(bench.now, commands.Propose(b"after", "after"))
    bench.settle()
    bench.pass_ms(1_000)
    propose(bench, b"later")
    bench.settle()
    log = bench.core.raft.replica.log
    before, after, later = (log.entries(index, index)[0].time_ms for index in range(3, 6))
    assert 0 <= after - before <= 50
    assert 1_000 <= later - before <= 1_100


def test_who_stops_takes_nothing_new_and_hands_over_first() -> None:
    bench = elected()
    bench.effects += bench.core.command(bench.now, commands.StopServing())
    with pytest.raises(Stopping):
        bench.core.command(bench.now, commands.Propose(b"a", "a"))
    bench.tick()
    assert type(bench.taken(SendMessage)[0].message) is TimeoutNow
    assert bench.taken(HandedOver) == []
    bench.pass_ms(1_000)
    assert bench.taken(HandedOver) == [HandedOver()]


def test_leadership_is_handed_over_to_who_has_read_its_state() -> None:
    bench = elected()
    term = bench.core.raft.replica.term
    bench.core.receive(bench.now, AppendReply(STAMP, C, A, term, 2))
    bench.core.receive(bench.now, HeartbeatReply(STAMP, C, A, term, 1, 1, can_lead=False))
    bench.effects += bench.core.command(bench.now, commands.StopServing())
    bench.tick()
    told = [each.message for each in bench.taken(SendMessage)]
    assert [message.target for message in told if type(message) is TimeoutNow] == [B]


def test_a_server_alone_has_nobody_to_hand_over_to() -> None:
    bench = leading()
    bench.effects += bench.core.command(bench.now, commands.StopServing())
    bench.tick()
    assert bench.taken(HandedOver) == [HandedOver()]


def test_who_is_removed_is_told_so_before_nothing_is_sent_to_it_any_more() -> None:
    bench = elected()
    removal = ConfigurationChange((Step(ChangeVerb.REMOVE, C),))
    bench.core.receive(bench.now, AppendReply(STAMP, C, A, bench.core.raft.replica.term, 2))
    bench.effects += bench.core.command(bench.now, commands.ProposeChange(removal, "removal"))
    bench.settle()
    bench.taken(SendMessage)
    bench.core.receive(bench.now, AppendReply(STAMP, C, A, bench.core.raft.replica.term, 3))
    acknowledge(bench, 3)
    assert bench.core.raft.replica.configuration == Configuration(voters=(A, B), removed=(C,))
    sent = [each.message for each in bench.taken(SendMessage)]
    assert [message.commit for message in sent if isinstance(message, Append) and message.target == C] == [3]


# The disk.


def test_a_leader_whose_disk_fails_says_so_and_is_followed_no_longer() -> None:
    bench = elected()
    bench.effects += bench.core.report(bench.now, reports.StoringFailed("could not sync"))
    bench.tick()
    (broken,) = bench.taken(ServerBroken)
    assert broken.sentence == (
        "could not sync. Nobody knows what the disk holds now, so this process ends; the next start reads "
        "what is truly there"
    )
    assert bench.core.raft.replica.role is Role.FOLLOWER
    bench.tick()
    assert bench.taken(ServerBroken) == []


@pytest.mark.parametrize("gets_on", [True, False])
def test_a_disk_that_has_much_to_do_is_not_silent_as_long_as_it_gets_on(*, gets_on: bool) -> None:
    bench = elected()
    propose(bench, b"a")
    bench.tick()
    for _ in range(30):
        bench.pass_ms(50)
        for beat in [each.message for each in bench.taken(SendMessage)]:
            if isinstance(beat, Heartbeat) and beat.target == B:
                bench.core.receive(bench.now, HeartbeatReply(STAMP, B, A, beat.term, beat.round, 1))
        if gets_on:
            bench.core.report(bench.now, reports.DiskProgressed())
    assert bench.core.is_leader is gets_on


def test_a_group_that_fails_is_never_promised() -> None:
    bench = leading()
    propose(bench, b"a")
    bench.tick()
    bench.effects += bench.core.report(bench.now, reports.StoringFailed("could not sync"))
    bench.pass_ms(1_000)
    assert answers(bench) == []


def test_the_next_segment_is_made_ready_once() -> None:
    bench = leading()
    for word in (b"a", b"b"):
        propose(bench, word)
        bench.tick()
        bench.store(needs_segment=True)
    assert bench.taken(PrepareSegment) == [PrepareSegment()]


def test_on_a_full_disk_proposals_are_refused_and_room_is_looked_for_in_order() -> None:
    bench = leading(ServerSettings(entries_kept=0))
    propose(bench, b"a")
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    bench.effects += bench.core.report(bench.now, reports.GroupFoundNoRoom(group.ticket, "no space left"))
    with pytest.raises(DiskIsFull):
        bench.core.command(bench.now, commands.Propose(b"b", "b"))
    assert bench.core.counters.refused_full == 1
    bench.pass_ms(1_000)
    assert bench.taken(PrepareSegment) == [PrepareSegment()]
    bench.effects += bench.core.report(bench.now, reports.SegmentPrepared(is_full=True))
    assert bench.taken(SpendBallast) == [SpendBallast()]
    bench.effects += bench.core.report(bench.now, reports.BallastSpent(is_spent=True))
    (writing,) = bench.taken(WriteSnapshot)
    ref = SnapshotRef(writing.meta.index, writing.meta.term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == [RecordSnapshot(writing.meta, ref, 3)]
    recorded = reports.SnapshotRecorded(writing.meta, ref, 3, is_new=True)
    bench.effects += bench.core.report(bench.now, recorded)
    assert bench.taken(PrepareSegment) == [PrepareSegment()]
    bench.effects += bench.core.report(bench.now, reports.SegmentPrepared(is_full=False))
    for _ in range(40):  # its disk was silent for so long that it has to be elected again
        bench.settle()
        bench.pass_ms(50)
    assert answers(bench) == [("a", b"heard a")]


def test_on_a_full_disk_room_is_looked_for_also_when_the_snapshot_for_it_was_given_up() -> None:
    bench = Bench((A, B, C), ServerSettings(entries_kept=0))
    entry = Entry(2, Term(1), EntryKind.COMMAND, 0, 1, None, b"a")
    bench.core.receive(bench.now, Append(STAMP, B, A, Term(1), 2, 1, Term(1), (entry,)))
    bench.settle()
    bench.core.receive(
        bench.now, Append(STAMP, B, A, Term(1), 2, 2, Term(1), (structs.replace(entry, index=3),))
    )
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    bench.effects += bench.core.report(bench.now, reports.GroupFoundNoRoom(group.ticket, "no space left"))
    bench.pass_ms(1_000)
    bench.effects += bench.core.report(bench.now, reports.SegmentPrepared(is_full=True))
    bench.effects += bench.core.report(bench.now, reports.BallastSpent(is_spent=True))
    (writing,) = bench.taken(WriteSnapshot)
    meta = SnapshotMeta(40, Term(1), Configuration((A, B, C)))
    offer = SnapshotOffer(STAMP, B, A, Term(1), 40, meta)
    bench.core.report(
        bench.now, reports.SnapshotArrived(offer, SnapshotRef(40, Term(1), 10, b"the leader's"))
    )
    ref = SnapshotRef(writing.meta.index, writing.meta.term, 10, b"our own")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == []
    bench.taken(PrepareSegment)
    bench.effects += bench.core.report(bench.now, reports.SegmentPrepared(is_full=False))
    bench.pass_ms(2_000)
    assert len(bench.taken(StoreGroup)) == 1


# Snapshots.


def with_snapshot_written(settings: ServerSettings = EAGER) -> tuple[Bench, WriteSnapshot, SnapshotRef]:
    bench = leading(settings)
    propose(bench, b"a")
    bench.settle()
    bench.pass_ms(100)
    (writing,) = bench.taken(WriteSnapshot)
    return bench, writing, SnapshotRef(writing.meta.index, writing.meta.term, 10, b"new")


def test_a_snapshot_counts_when_its_file_is_written_and_the_log_says_so() -> None:
    bench, writing, ref = with_snapshot_written()
    assert (writing.meta.index, list(writing.pieces)) == (3, [b"a"])
    bench.pass_ms(500)
    assert bench.taken(WriteSnapshot) == []  # one at a time
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.core.raft.replica.log.snapshot.index == 1
    (record,) = bench.taken(RecordSnapshot)
    assert record == RecordSnapshot(writing.meta, ref, 4)
    bench.core.report(bench.now, reports.SnapshotRecorded(writing.meta, ref, 4, is_new=True))
    assert bench.core.raft.replica.log.snapshot == writing.meta
    assert (bench.core.storing.newest, bench.core.counters.snapshots_made) == (ref, 1)


def test_a_few_large_values_are_reason_enough_and_are_not_kept_behind_it() -> None:
    bench = leading(ServerSettings(snapshot_log_bytes=10_000, entries_kept_bytes=2_500))
    for letter in b"abcdefgh":
        propose(bench, bytes([letter]) * 1_000)
    bench.settle()
    bench.pass_ms(1_000)
    assert bench.taken(WriteSnapshot) == []
    for letter in b"ijk":
        propose(bench, bytes([letter]) * 1_000)
    bench.settle()
    bench.pass_ms(1_000)
    (writing,) = bench.taken(WriteSnapshot)
    ref = SnapshotRef(writing.meta.index, writing.meta.term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == [RecordSnapshot(writing.meta, ref, writing.meta.index - 1)]
    bench.core.report(bench.now, reports.SnapshotRecorded(writing.meta, ref, 12, is_new=True))
    bench.pass_ms(60_000)
    assert bench.taken(WriteSnapshot) == []  # what was kept is no reason for another


@pytest.mark.parametrize(("awaited_bytes", "first_kept"), [(100_000, 2), (3_500, 9)])
def test_what_follows_on_a_snapshot_under_way_is_kept_as_far_as_it_has_room(
    awaited_bytes: int, first_kept: int
) -> None:
    """Else it would be gone when that one is installed, another would have to be brought, and so for ever."""
    bench = elected(replace(EAGER, entries_awaited_bytes=awaited_bytes))
    term = bench.core.raft.replica.term
    bench.effects += bench.core.receive(bench.now, AppendRejected(STAMP, C, A, term, 1, 0, Term(0)))
    bench.tick()
    assert bench.core.raft.awaited_index == 1
    for letter in b"abcdefghi":
        propose(bench, bytes([letter]) * 1_000)
    bench.settle()
    acknowledge(bench, 11)
    bench.effects += bench.core.receive(bench.now, HeartbeatReply(STAMP, C, A, term, 1, 1))
    bench.pass_ms(100)
    (writing,) = bench.taken(WriteSnapshot)
    assert writing.meta.index == 11
    ref = SnapshotRef(11, term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == [RecordSnapshot(writing.meta, ref, first_kept)]


def test_what_a_snapshot_stands_for_stays_for_who_was_sent_the_one_before_meanwhile() -> None:
    bench = elected(EAGER)
    term = bench.core.raft.replica.term
    for letter in b"abcdefghi":
        propose(bench, bytes([letter]))
    bench.settle()
    acknowledge(bench, 11)
    bench.pass_ms(100)
    (writing,) = bench.taken(WriteSnapshot)
    ref = SnapshotRef(writing.meta.index, term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    (recording,) = bench.taken(RecordSnapshot)
    assert recording.first_kept > 3
    bench.effects += bench.core.receive(bench.now, AppendRejected(STAMP, C, A, term, 1, 0, Term(0)))
    bench.tick()
    assert bench.core.raft.awaited_index == 1
    recorded = reports.SnapshotRecorded(recording.meta, ref, recording.first_kept, is_new=True)
    bench.effects += bench.core.report(bench.now, recorded)
    bench.tick()
    assert bench.core.raft.replica.log.first_index == 2


def test_a_log_that_has_grown_large_waits_for_no_second_to_pass() -> None:
    bench = leading(ServerSettings(snapshot_log_bytes=2_000))
    for letter in b"abc":
        propose(bench, bytes([letter]) * 1_000)
    bench.settle()
    (writing,) = bench.taken(WriteSnapshot)
    assert writing.meta.index == 5
    bench.core.report(bench.now, reports.SnapshotFoundNoRoom("no space left"))
    bench.settle()
    assert bench.taken(WriteSnapshot) == []  # a full disk is asked again a second later
    bench.pass_ms(1_000)
    assert len(bench.taken(WriteSnapshot)) == 1


def test_a_log_of_many_entries_waits_until_the_maker_of_snapshots_has_rested() -> None:
    """A tenth of the time is for making them: this one took 200 ms."""
    bench = leading(ServerSettings(snapshot_entries=2, snapshot_entries_at_once=4))
    for letter in b"abc":
        propose(bench, bytes([letter]))
    bench.settle()
    (writing,) = bench.taken(WriteSnapshot)
    assert writing.meta.index == 5
    bench.pass_ms(200)
    ref = SnapshotRef(5, writing.meta.term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    bench.core.report(bench.now, reports.SnapshotRecorded(writing.meta, ref, 6, is_new=True))
    bench.pass_ms(1_799)
    for letter in b"defg":
        propose(bench, bytes([letter]))
    bench.settle()
    assert bench.taken(WriteSnapshot) == []
    bench.pass_ms(1)
    (another,) = bench.taken(WriteSnapshot)
    assert another.meta.index == 9


def test_where_there_is_no_room_for_a_snapshot_a_long_log_is_a_reason_again_after_the_interval() -> None:
    bench = leading(ServerSettings(snapshot_entries=2, snapshot_entries_at_once=4, snapshot_interval_s=30))
    for letter in b"abc":
        propose(bench, bytes([letter]))
    bench.settle()
    tries = 0
    for _second in range(95):
        for _writing in bench.taken(WriteSnapshot):
            tries += 1
            bench.effects += bench.core.report(bench.now, reports.SnapshotFoundNoRoom("no space left"))
        bench.pass_ms(1_000)
    assert tries == 4


def test_what_a_snapshot_stands_for_goes_a_part_every_five_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred thousand entries at once would hold the loop."""
    monkeypatch.setattr(compaction, "LET_GO_ENTRIES", 2)
    bench = leading(EAGER)
    for word in (b"a", b"b", b"c", b"d"):
        propose(bench, word)
    bench.settle()
    log = bench.core.raft.replica.log
    bench.pass_ms(100)
    (writing,) = bench.taken(WriteSnapshot)
    ref = SnapshotRef(6, writing.meta.term, 10, b"new")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == [RecordSnapshot(writing.meta, ref, 7)]
    bench.core.report(bench.now, reports.SnapshotRecorded(writing.meta, ref, 7, is_new=True))
    assert (log.snapshot.index, log.first_index) == (6, 2)
    firsts = []
    bench.tick()
    while bench.core.compaction.let_go_ns is not None:
        firsts.append(log.first_index)
        bench.tick()
        assert log.first_index == firsts[-1]
        bench.pass_ms(5)
    assert [*firsts, log.first_index] == [4, 6, 7]


def test_one_that_is_written_while_the_leaders_is_installed_is_given_up() -> None:
    """The log on disk has not come to the leader's yet, and keeps what this one would let go."""
    bench = Bench((A, B, C), EAGER)
    entry = Entry(2, Term(1), EntryKind.COMMAND, 0, 1, None, b"a")
    bench.core.receive(bench.now, Append(STAMP, B, A, Term(1), 2, 1, Term(1), (entry,)))
    bench.settle()
    bench.pass_ms(200)
    bench.settle()
    (writing,) = bench.taken(WriteSnapshot)
    meta = SnapshotMeta(40, Term(1), Configuration((A, B, C)))
    arrived = SnapshotRef(40, Term(1), 10, b"the leader's")
    bench.core.report(
        bench.now, reports.SnapshotArrived(SnapshotOffer(STAMP, B, A, Term(1), 40, meta), arrived)
    )
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    assert group.changes[-1].install == arrived
    ref = SnapshotRef(writing.meta.index, writing.meta.term, 10, b"our own")
    bench.effects += bench.core.report(bench.now, reports.SnapshotWritten(writing.meta, ref))
    assert bench.taken(RecordSnapshot) == []
    bench.effects += bench.core.report(bench.now, reports.GroupStored(group.ticket, needs_segment=False))
    bench.settle()
    assert bench.core.raft.replica.log.snapshot.index == 40
    assert not bench.core.compaction.is_making


def test_one_that_finds_no_room_is_said_and_made_again_later() -> None:
    bench, _writing, _ref = with_snapshot_written()
    sentence = "no snapshot could be made: no space left"
    bench.effects += bench.core.report(bench.now, reports.SnapshotFoundNoRoom(sentence))
    assert LogLine(Severity.ERROR, sentence) in bench.effects
    bench.pass_ms(200)
    assert len(bench.taken(WriteSnapshot)) == 1


def test_a_damaged_snapshot_is_offered_no_more_and_another_is_made() -> None:
    bench = leading()
    assert bench.core.compaction.doubts(FIRST)
    bench.effects += bench.core.report(bench.now, reports.SnapshotVerified(FIRST, "a bit was turned"))
    (said,) = bench.taken(LogLine)
    assert said.severity is Severity.ERROR
    assert said.sentence.startswith("the snapshot at index 1 is damaged on this disk and is sent to nobody")
    assert not bench.core.compaction.doubts(FIRST)
    bench.pass_ms(1_000)
    assert len(bench.taken(WriteSnapshot)) == 1


def test_with_nothing_to_make_another_of_it_ends() -> None:
    bench = Bench((A, B, C))
    bench.core.report(bench.now, reports.SnapshotVerified(FIRST, "a bit was turned"))
    bench.tick()
    (broken,) = bench.taken(ServerBroken)
    assert "nothing was applied since that another could be made of" in broken.sentence


def test_a_sound_file_and_one_that_is_not_the_newest_are_left_alone() -> None:
    bench = leading()
    bench.core.report(bench.now, reports.SnapshotVerified(FIRST, ""))
    another = SnapshotRef(7, Term(1), 1, b"another")
    assert not bench.core.compaction.doubts(another)
    bench.core.report(bench.now, reports.SnapshotVerified(another, "gone"))
    assert bench.core.counters.snapshots_damaged == 0


def test_who_turns_says_so_and_who_is_alone_leads_at_once() -> None:
    bench = Bench((A,))
    bench.settle()
    assert bench.taken(Turned)[-1] == Turned(Role.LEADER, A, Term(2), Turn(TurnCause.ELECTED, (A,)))
    assert bench.taken(BringSnapshot) == []
