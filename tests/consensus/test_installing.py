"""A follower that is brought a snapshot goes on with the log while the state is read."""

from __future__ import annotations

from adsum.consensus import reports
from adsum.consensus.effects import (
    AppliedTo,
    ReadSnapshot,
    SendMessage,
    ServerBroken,
    StoreGroup,
    Turned,
    WriteSnapshot,
)
from adsum.consensus.settings import ServerSettings
from adsum.raft.messages import (
    Append,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    SnapshotOffer,
    VoteReply,
    VoteRequest,
)
from adsum.raft.types import Configuration, Entry, EntryKind, Role, SnapshotMeta, SnapshotRef, Term
from tests.consensus.support import STAMP, A, B, Bench, C

VOTERS = Configuration((A, B, C))
FORTIETH = SnapshotRef(40, Term(1), 10, b"fortieth")
FIFTIETH = SnapshotRef(50, Term(1), 10, b"fiftieth")
EAGER = ServerSettings(snapshot_entries=1, snapshot_interval_s=0.1, entries_kept=0)


def arrive(bench: Bench, ref: SnapshotRef) -> None:
    offer = SnapshotOffer(STAMP, B, A, Term(1), ref.index, SnapshotMeta(ref.index, Term(1), VOTERS))
    bench.effects += bench.core.report(bench.now, reports.SnapshotArrived(offer, ref))


def brought(ref: SnapshotRef = FORTIETH, settings: ServerSettings | None = None) -> Bench:
    """The log stands on the snapshot, and its state is being read."""
    bench = Bench((A, B, C), settings)
    arrive(bench, ref)
    bench.settle()
    assert bench.taken(ReadSnapshot) == [ReadSnapshot(ref)]
    bench.effects.clear()
    return bench


def send(bench: Bench, index: int, data: bytes) -> None:
    """The entry at this index, which is committed, follows on what is there."""
    entry = Entry(index, Term(1), EntryKind.COMMAND, 0, 1, None, data)
    bench.effects += bench.core.receive(
        bench.now, Append(STAMP, B, A, Term(1), index, index - 1, Term(1), (entry,))
    )
    bench.settle()


def read(bench: Bench, ref: SnapshotRef, *words: bytes) -> None:
    bench.effects += bench.core.report(bench.now, reports.SnapshotRead(ref, list(words)))
    bench.settle()


def sent(bench: Bench) -> list[object]:
    return [each.message for each in bench.taken(SendMessage)]


def test_while_the_state_is_read_entries_are_acknowledged_votes_given_and_heartbeats_answered() -> None:
    bench = brought()
    send(bench, 41, b"a")
    assert sent(bench) == [AppendReply(STAMP, A, B, Term(1), 41)]
    bench.core.receive(bench.now, Heartbeat(STAMP, B, A, Term(1), 41, 7))
    bench.settle()
    assert sent(bench) == [HeartbeatReply(STAMP, A, B, Term(1), 7, 2, can_lead=False)]
    bench.pass_ms(3_000)
    bench.effects.clear()
    bench.core.receive(bench.now, VoteRequest(STAMP, C, A, Term(2), 41, Term(1), False, False))
    bench.settle()
    assert sent(bench) == [VoteReply(STAMP, A, C, Term(2), False, True, 41, Term(1))]
    assert bench.machine.words == []


def test_applying_waits_for_the_state_and_goes_on_behind_it() -> None:
    bench = brought()
    send(bench, 41, b"a")
    send(bench, 42, b"b")
    assert (bench.machine.words, bench.core.applied) == ([], 1)
    read(bench, FORTIETH, b"state")
    assert (bench.machine.words, bench.core.applied) == ([b"state", b"a", b"b"], 42)
    assert bench.taken(AppliedTo) == [AppliedTo(40), AppliedTo(42)]
    assert bench.core.counters.snapshots_installed == 1


def test_who_has_not_read_the_state_yet_stands_for_no_election_and_makes_no_snapshot() -> None:
    bench = brought(settings=EAGER)
    send(bench, 41, b"a")
    bench.pass_ms(5_000)
    assert bench.taken(Turned) == []
    assert bench.taken(WriteSnapshot) == []
    read(bench, FORTIETH, b"state")
    bench.pass_ms(5_000)
    assert [turned.role for turned in bench.taken(Turned)] == [Role.PRE_CANDIDATE]
    assert len(bench.taken(WriteSnapshot)) == 1


def test_of_two_snapshots_one_is_read_at_a_time_and_only_the_later_one_counts() -> None:
    bench = brought()
    arrive(bench, FIFTIETH)
    bench.settle()
    assert bench.taken(ReadSnapshot) == []  # a third state in memory would be one too many
    send(bench, 51, b"a")
    read(bench, FORTIETH, b"of", b"forty")
    assert (bench.machine.words, bench.core.applied) == ([], 1)
    assert bench.taken(ReadSnapshot) == [ReadSnapshot(FIFTIETH)]
    read(bench, FIFTIETH, b"of", b"fifty")
    assert (bench.machine.words, bench.core.applied) == ([b"of", b"fifty", b"a"], 51)
    assert bench.core.counters.snapshots_installed == 1


def test_what_was_read_is_dropped_for_a_snapshot_that_is_on_its_way_to_the_disk() -> None:
    bench = brought()
    arrive(bench, FIFTIETH)
    bench.tick()
    (group,) = bench.taken(StoreGroup)
    read(bench, FORTIETH, b"of", b"forty")
    assert (bench.machine.words, bench.taken(ReadSnapshot)) == ([], [])
    bench.effects += bench.core.report(bench.now, reports.GroupStored(group.ticket, needs_segment=False))
    assert bench.taken(ReadSnapshot) == [ReadSnapshot(FIFTIETH)]


def test_a_state_that_cannot_be_read_ends_the_process_with_a_sentence() -> None:
    bench = brought()
    bench.core.report(bench.now, reports.SnapshotUnreadable(FORTIETH, "it holds no state"))
    bench.tick()
    assert bench.taken(ServerBroken) == [
        ServerBroken(
            "it holds no state, while the leader's snapshot at index 40 was installed; this process ends"
        )
    ]


def test_one_that_was_overtaken_may_be_unreadable() -> None:
    """Its file is removed when the log stands on later ones."""
    bench = brought()
    arrive(bench, FIFTIETH)
    bench.settle()
    bench.core.report(bench.now, reports.SnapshotUnreadable(FORTIETH, "it is gone"))
    bench.settle()
    assert bench.taken(ServerBroken) == []
    read(bench, FIFTIETH, b"state")
    assert bench.machine.words == [b"state"]
