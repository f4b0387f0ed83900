"""When a majority of the servers is lost for good, an operator names the one that goes on.

The file `quorum-recovery.json`, put into the log's folder of that server while it is stopped:

    {"cluster": …, "epoch": 0, "node": …, "log": …, "last_index": 1234, "term": 7, "commit": 1230,
     "wall_s": 1800000000}

It repeats what the log says of itself, so it cannot be meant for another server, another state, or a second
time: after it, the epoch and the last index are others. A file that does not fit is refused with what the
log says. The server becomes the only voter, in the next term and the next epoch; everything in its log
counts as committed, and what only the lost ones had is gone. So revisions go on far above all that can have
been given out: an index that was not known to be committed here may stand for something else that somebody
was told of. The others join it as learners. Members of the old epoch, should they come back, are heard by
nobody.

One survivor, not several: two logs that each call their own end committed would be two truths.

The entry is appended first, then the epoch is raised, and the file goes last: a start interrupted between
finds its own entry and goes on from there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from adsum.raft.batch import LogChange
from adsum.raft.changer import encode_configuration
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    Restored,
    RevisionOffset,
    Term,
)
from adsum.storage.files import Folder, ReadFailed, read_whole
from adsum.storage.opening import OpenedLog
from adsum.storage.raft_log import RaftLog

FILE = "quorum-recovery.json"
FILE_BYTES_MAX = 64 << 10
OFFSET_STEP = 1 << 40
REVISIONS_A_SECOND = 1 << 21  # more than any log writes; with the seconds since 1970 below 2^53


class QuorumRecoveryRefused(Exception):
    """The file does not fit this log: the operator's to correct or remove. Nothing changed."""


@dataclass(frozen=True, slots=True)
class QuorumRecovery:
    cluster: str
    epoch: int
    node: str
    log: str
    last_index: int
    term: int
    commit: int  # what this log knows to be committed; whatever comes after it gets new revisions
    wall_s: int  # when the operator decided it


def describe(log: RaftLog, wall_s: int) -> QuorumRecovery:
    """What a recovery file for this log, as it is now, has to say."""
    identity, state = log.identity, log.hard_state
    who = identity.cluster, identity.epoch, identity.node, identity.log
    return QuorumRecovery(*who, log.last_index, state.term, state.commit, wall_s)


def offset_of(wanted: QuorumRecovery, before: RevisionOffset) -> RevisionOffset:
    """Above every revision of this log by more than the lost ones can have gone on, and above those of any
    recovery that the same backup of a disk went through before."""
    value = max(wanted.last_index + before.value + OFFSET_STEP, wanted.wall_s * REVISIONS_A_SECOND)
    return RevisionOffset(value, wanted.commit + 1)


def encode(recovery: QuorumRecovery) -> bytes:
    return json.dumps(asdict(recovery), indent=2).encode() + b"\n"


def recover_quorum(folder: Folder, opened: OpenedLog) -> Restored | None:
    """What the core starts with instead of `opened.restored`; None without a file."""
    if FILE not in folder.names():
        return None
    wanted, log, restored = _read(folder), opened.log, opened.restored
    entry = _entry(wanted, restored)
    offset = offset_of(wanted, log.offset)
    if describe(log, wanted.wall_s) == wanted:
        hard_state = HardState(entry.term, None, entry.index)
        log.append([LogChange(entries=[entry], hard_state=hard_state)])
        restored = Restored(hard_state, restored.snapshot, (*restored.entries, entry))
    elif not (restored.entries and _is_this(restored.entries[-1], wanted, log)):
        _refuse(wanted, describe(log, wanted.wall_s))
    if log.identity.epoch == wanted.epoch:
        log.join(wanted.cluster, wanted.epoch + 1, offset)
    folder.remove(FILE)
    folder.sync()
    return replace(restored, offset=log.offset)


def _read(folder: Folder) -> QuorumRecovery:
    try:
        fields = json.loads(read_whole(folder, FILE)[:FILE_BYTES_MAX])
        recovery = QuorumRecovery(**fields)
    except (ValueError, TypeError, ReadFailed) as error:
        raise QuorumRecoveryRefused(f"{FILE} cannot be read: {error}") from error
    expected = QuorumRecovery("", 0, "", "", 0, 0, 0, 0)
    for name, value in asdict(recovery).items():
        if type(value) is not type(getattr(expected, name)):
            kind = type(getattr(expected, name)).__name__
            raise QuorumRecoveryRefused(f"{FILE}: {name} must be of type {kind}")
    return recovery


def _entry(wanted: QuorumRecovery, restored: Restored) -> Entry:
    before = restored.entries[-1] if restored.entries else restored.snapshot
    configuration = Configuration(voters=(MemberId(wanted.node, wanted.log),))
    return Entry(
        wanted.last_index + 1,
        Term(wanted.term + 1),
        EntryKind.CONFIGURATION,
        before.time_ms,
        before.apply_level,
        None,
        encode_configuration(configuration),
    )


def _is_this(entry: Entry, wanted: QuorumRecovery, log: RaftLog) -> bool:
    """An earlier start got as far as this, and no further than the epoch."""
    configuration = Configuration(voters=(log.identity.member,))
    data = encode_configuration(configuration)
    expected = (wanted.last_index + 1, wanted.term + 1, EntryKind.CONFIGURATION, data)
    identity = log.identity
    is_ours = (wanted.cluster, wanted.node, wanted.log) == (identity.cluster, identity.node, identity.log)
    is_in_time = log.identity.epoch in (wanted.epoch, wanted.epoch + 1)
    return is_ours and is_in_time and (entry.index, entry.term, entry.kind, entry.data) == expected


def _refuse(wanted: QuorumRecovery, found: QuorumRecovery) -> None:
    told = [
        f"{name} is {getattr(found, name)!r} here and {value!r} in the file"
        for name, value in asdict(wanted).items()
        if value != getattr(found, name)
    ]
    raise QuorumRecoveryRefused(
        f"{FILE} is not for this log as it is now: {'; '.join(told)}. Correct the file, or remove it."
    )
