"""Following: taking in what the leader sends, and saying how far it got.

An answer speaks of this server's disk, so all of them but those to heartbeats wait for it. The commit index
moves only over entries that this very message proved to be the leader's: what lies behind them may be left
over from another term, whatever the leader says is committed.
"""

from __future__ import annotations

from adsum.raft.changer import is_configuration
from adsum.raft.messages import Append, AppendRejected, AppendReply, Heartbeat, HeartbeatReply, SnapshotOffer
from adsum.raft.replica import Replica
from adsum.raft.types import EntryKind, JudgedHash, MemberId


class Follower:
    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def take_append(self, message: Append) -> None:
        log = self._replica.log
        if not is_well_formed(message):
            self._replica.counts.malformed += 1
        elif message.prev_index < log.commit:
            self._acknowledge(message.source, log.commit)  # what is committed here, every leader has
        elif log.term_at(message.prev_index) != message.prev_term:
            self._reject(message)
        elif self._has_too_much(message):
            self._replica.counts.appends_refused += 1
            self._replica.refuses_appends = True
        else:
            last_shared = log.merge(message.prev_index, message.entries)
            log.commit_to(min(message.commit, last_shared))
            self._acknowledge(message.source, last_shared)

    def take_heartbeat(self, message: Heartbeat) -> None:
        """Its commit lies within what this leader knows to be on our disk, so it needs no proof. More than we
        have is a lie, or our disk has lost what it acknowledged."""
        replica = self._replica
        if message.commit > replica.log.last_index:
            replica.counts.malformed += 1
        else:
            replica.log.commit_to(message.commit)
        if message.hash_index:
            replica.judged = JudgedHash(message.hash_index, message.state_hash, message.is_disputed)
        link = (replica.stamp, replica.me, message.source)
        told = (message.round, replica.settings.apply_level_max, replica.can_lead)
        state = (*replica.state_hash, replica.has_stopped_applying)
        replica.send_now(HeartbeatReply(*link, replica.term, *told, *state))

    def take_offer(self, message: SnapshotOffer) -> None:
        """The snapshot's file has arrived whole."""
        replica, log, snapshot = self._replica, self._replica.log, message.snapshot
        if snapshot.term > message.term or not snapshot.configuration.voters:
            replica.counts.malformed += 1
        elif snapshot.epoch != replica.stamp.epoch:
            replica.counts.foreign += 1
        elif snapshot.apply_level > replica.settings.apply_level_max:
            replica.level_missing = snapshot.apply_level
            replica.counts.snapshots_refused += 1
        elif replica.has_stopped_applying or snapshot.index <= log.commit:
            replica.counts.snapshots_refused += 1
            self._acknowledge(message.source, log.commit)
        elif log.term_at(snapshot.index) == snapshot.term:
            log.commit_to(snapshot.index)  # our own entries say the same, and more
            self._acknowledge(message.source, snapshot.index)
        else:
            log.restore(snapshot)
            replica.configuration = snapshot.configuration
            self._acknowledge(message.source, snapshot.index)

    def _has_too_much(self, message: Append) -> bool:
        """Of a log that cannot be applied here. Such a message is not answered: nothing in it is stored."""
        replica, log = self._replica, self._replica.log
        is_new = bool(message.entries) and message.entries[-1].index > log.last_index
        has_stopped = replica.level_missing or replica.has_stopped_applying
        waiting_bytes = log.bytes_after(log.applied) if is_new and has_stopped else 0
        return waiting_bytes > replica.settings.unapplied_bytes_max

    def _acknowledge(self, leader: MemberId, index: int) -> None:
        replica = self._replica
        replica.send_after_store(AppendReply(replica.stamp, replica.me, leader, replica.term, index))

    def _reject(self, message: Append) -> None:
        replica = self._replica
        hint = replica.log.agreement_hint(message.prev_index, message.prev_term)
        link = (replica.stamp, replica.me, message.source)
        replica.send_after_store(AppendRejected(*link, replica.term, message.prev_index, *hint))


def is_well_formed(message: Append) -> bool:
    """An entry out of place would end up on disk: every one is looked at."""
    if message.prev_index < 0 or message.prev_term > message.term:
        return False
    index, term, time_ms, level = message.prev_index, message.prev_term, 0, 0
    for entry in message.entries:
        index += 1
        if entry.index != index or entry.term < term or entry.time_ms < time_ms or entry.apply_level < level:
            return False
        if entry.kind is EntryKind.CONFIGURATION and not is_configuration(entry.data):
            return False
        term, time_ms, level = entry.term, entry.time_ms, entry.apply_level
    return term <= message.term
