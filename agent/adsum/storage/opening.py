"""Opening a log: what is there, what the last accident did to it, and with whom the server may now vote.

A torn batch is taken away. The last batch that is whole, and the zeros behind it up to the end of the
segment, are written once more and synced, at every start: a process that was killed, or told of a failed
sync, may have left bytes that read well and were never on the disk. Zeros too: were those that took a torn
batch away believed as they read, what is left of it might come back behind a later batch.

After corruption the log goes on as another one. A new log id makes this server a stranger to its cluster,
who can only join as learner; so neither entries nor votes that it has forgotten ever count again, whatever
they were. What lies before the damage is kept as a head start, and so is a snapshot that is whole; the
damaged files, for whoever wants to look; and the file `doubt` holds the findings, and whose log it was, until
the server is a voter again. That file is written before anything else changes: a start interrupted in the
middle finds it, believes nothing but a whole snapshot, for the rest may be half a repair, belongs to the same
cluster as before, and removes nothing that was set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cbor2

from adsum.raft.batch import LogChange
from adsum.raft.types import Entry, HardState, Restored, SnapshotMeta, SnapshotRef, Term
from adsum.storage.files import Folder, ReadFailed, read_whole, write_whole
from adsum.storage.raft_log import RaftLog, WritePosition
from adsum.storage.recovery import LogVerdict, Recovery, recover
from adsum.storage.replay import ReplayedLog
from adsum.storage.segment import LogIdentity
from adsum.storage.segment_files import SegmentFiles, segment_name
from adsum.storage.snapshots import SnapshotDamaged, Snapshots

# Holds the largest entry that the core takes (8 MiB), and is filled with zeros in a tenth of a second.
SEGMENT_BYTES = 16 << 20
DOUBT = "doubt"


class ForeignLog(Exception):
    """The folder belongs to another node: the operator's mistake, nothing changed."""


@dataclass(frozen=True, slots=True)
class OpenedLog:
    log: RaftLog
    restored: Restored  # for the core
    verdict: LogVerdict
    # For the operator, loudly. Those of doubt are repeated at every start until `vouch`.
    findings: tuple[str, ...]
    doubt: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Start:
    """What a log can stand on: a snapshot that was verified, or none, and entries that follow on it."""

    ref: SnapshotRef | None
    meta: SnapshotMeta
    entries: Sequence[Entry]


def open_log(
    folder: Folder,
    *,
    node: str,
    mint_log_id: Callable[[], str],
    mint_salt: Callable[[], bytes],
    segment_bytes: int = SEGMENT_BYTES,
) -> OpenedLog:
    recovery, earlier = recover(folder), _read_doubt(folder)
    if not earlier.is_settled:
        _refuse_half_a_repair(earlier, recovery)
    if recovery.identity and recovery.identity.node != node:
        raise ForeignLog(f"this log belongs to node {recovery.identity.node}, and this node is {node}")
    meta = _snapshot_meta(folder, recovery)
    if recovery.verdict is LogVerdict.CORRUPT:
        _write_doubt(folder, Doubt(tuple(recovery.findings), recovery.identity, is_settled=False))
    files = SegmentFiles(folder, segment_bytes)  # removes a spare that is not zeros: it may be the proof
    if recovery.verdict is LogVerdict.CORRUPT:
        files.set_aside(keeps_earlier=not earlier.is_settled)
        log, restored = _begin_anew(folder, files, recovery, LogIdentity(node, mint_log_id()), mint_salt())
    elif recovery.identity is None:
        identity, start = LogIdentity(node, mint_log_id()), WritePosition([], 1, 0)
        log = RaftLog(folder, files, identity, ReplayedLog(), start, None, mint_salt())
        restored = Restored()
    else:
        log = _go_on(folder, files, recovery, recovery.identity)
        restored = Restored(recovery.standing.hard_state, meta, tuple(recovery.entries), recovery.offset)
    log.snapshots.clean_up(log.snapshot)
    files.prepare_next()
    return OpenedLog(log, restored, recovery.verdict, tuple(recovery.findings), _read_doubt(folder).findings)


def vouch(folder: Folder) -> None:
    """The server is a voter again, under its new log id: nothing it forgot can matter any more."""
    if DOUBT in folder.names():
        folder.remove(DOUBT)
        folder.sync()


def _go_on(folder: Folder, files: SegmentFiles, recovery: Recovery, identity: LogIdentity) -> RaftLog:
    last = recovery.segments[-1]
    active = folder.open(segment_name(last.sequence))
    offset, batch = recovery.last_batch or (recovery.end, b"")
    active.write(offset, batch.ljust(last.length_bytes - offset, b"\0"))
    active.sync()
    folder.sync()
    position = WritePosition(
        [header.sequence for header in recovery.segments],
        recovery.next_batch,
        recovery.chain,
        recovery.end,
        last.length_bytes,
    )
    return RaftLog(
        folder, files, identity, recovery.standing, position, active, recovery.salt, recovery.offset
    )


# After corruption.


def _begin_anew(
    folder: Folder, files: SegmentFiles, recovery: Recovery, minted: LogIdentity, salt: bytes
) -> tuple[RaftLog, Restored]:
    before = recovery.identity or minted
    identity = replace(minted, cluster=before.cluster, epoch=before.epoch)
    start = _best_start(folder, recovery, identity)
    # A name that no segment had, and a new salt: nothing left over is ever taken for a part of this log.
    position = WritePosition([recovery.highest_sequence], 1, 0)
    log = RaftLog(folder, files, identity, ReplayedLog(), position, None, salt, recovery.offset)
    position.segments.pop(0)
    hard_state = _hard_state(recovery, start)
    log.append([LogChange(install=start.ref, entries=start.entries, hard_state=hard_state)])
    _write_doubt(folder, Doubt(tuple(recovery.findings), identity))
    return log, Restored(hard_state, start.meta, tuple(start.entries), recovery.offset)


def _best_start(folder: Folder, recovery: Recovery, identity: LogIdentity) -> _Start:
    """The newest snapshot that is whole, with the entries that are known to follow on it. Its record may lie
    behind the damage, or in a log that half a repair has set aside; what was applied in this cluster and this
    epoch is true all the same."""
    snapshots = Snapshots(folder)
    candidates = {ref.index: ref for ref in (snapshots.in_place() if identity.cluster else ())}
    candidates.update({ref.index: ref for ref in recovery.snapshots})
    for _, ref in sorted(candidates.items(), reverse=True):
        try:
            meta = snapshots.verify(ref)
        except SnapshotDamaged:
            continue
        if ref not in recovery.snapshots and meta.epoch != identity.epoch:
            continue
        # No entries where the log before the damage may be of another history than the snapshot.
        after = [entry for entry in recovery.entries if entry.index > ref.index]
        shared = [entry for entry in recovery.entries if (entry.index, entry.term) == (ref.index, ref.term)]
        is_ours = recovery.standing.snapshot == ref or bool(shared)
        follows = is_ours and after and after[0].index == ref.index + 1
        return _Start(ref, meta, after if follows else ())
    return _Start(None, SnapshotMeta(), recovery.entries if recovery.standing.before_first == 0 else ())


def _hard_state(recovery: Recovery, start: _Start) -> HardState:
    """The vote was given under the old log id; the new one has none to remember."""
    last = start.entries[-1].index if start.entries else start.meta.index
    last_term = start.entries[-1].term if start.entries else start.meta.term
    commit = max(start.meta.index, min(recovery.standing.hard_state.commit, last))
    return HardState(Term(max(recovery.highest_term, last_term)), None, commit)


def _snapshot_meta(folder: Folder, recovery: Recovery) -> SnapshotMeta:
    ref = recovery.standing.snapshot
    if ref is None or recovery.verdict is LogVerdict.CORRUPT:
        return SnapshotMeta()
    try:
        return Snapshots(folder).verify(ref)
    except SnapshotDamaged as damage:
        recovery.corrupt(str(damage))
        return SnapshotMeta()


# The doubt.


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the file says; without one, nothing. Settled: the repair came to its end."""

    findings: tuple[str, ...] = ()
    identity: LogIdentity | None = None
    is_settled: bool = True


def _refuse_half_a_repair(earlier: Doubt, recovery: Recovery) -> None:
    found = [*earlier.findings, "the start that found damage was interrupted, so nothing here is believed"]
    recovery.findings[:] = dict.fromkeys([*found, *recovery.findings])
    recovery.verdict = LogVerdict.CORRUPT
    # What is left of the segments may be older than the last `join`.
    recovery.identity = earlier.identity or recovery.identity
    recovery.standing, recovery.entries, recovery.snapshots = ReplayedLog(), [], []


def _write_doubt(folder: Folder, doubt: Doubt) -> None:
    who = doubt.identity
    whose = [who.node, who.log, who.cluster, who.epoch] if who else None
    write_whole(folder, DOUBT, cbor2.dumps([doubt.is_settled, list(doubt.findings), whose]))


def _read_doubt(folder: Folder) -> Doubt:
    """Unreadable is as good as unsettled: that it is there is what counts."""
    if DOUBT not in folder.names():
        return Doubt()
    try:
        is_settled, findings, whose = cbor2.loads(read_whole(folder, DOUBT))
        identity = LogIdentity(*whose) if whose else None
    except (cbor2.CBORDecodeError, ValueError, TypeError, ReadFailed):
        return Doubt(("the file `doubt` cannot be read",), is_settled=False)
    return Doubt(tuple(findings), identity, is_settled=is_settled is True)
