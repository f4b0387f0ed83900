"""What a leader knows of one follower's log, and how much it may send without hearing back.

    PROBE      the point of agreement is being looked for: one message at a time
    REPLICATE  it is known: entries are sent ahead of their acknowledgements, within a window
    SNAPSHOT   what the follower needs was compacted: nothing is sent until a snapshot has arrived

`match` is proven (on the follower's disk), `next` is a guess, and match < next always.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

from adsum.raft.settings import RaftSettings
from adsum.raft.types import NO_HASH, StateHash

# How often a follower that a snapshot was brought to may refuse what follows on it, once in a round of
# heartbeats: an answer may have waited for its disk since before the snapshot arrived there.
REFUSALS_MAX = 20


class ProgressMode(enum.Enum):
    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


@dataclass(slots=True, eq=False)
class Progress:
    _settings: RaftSettings
    next: int
    match: int = 0
    mode: ProgressMode = ProgressMode.PROBE
    is_waiting: bool = False  # a probe is out
    windows_silent: int = 2  # how often the quorum was checked since it was heard: it has never been
    owes_append: bool = True  # the next message goes even without entries: only its answer can tell more
    snapshot_index: int = 0  # of the snapshot on its way
    awaited_index: int = 0  # what follows is kept for it, from when a snapshot is sent until it has caught up
    catch_up_to: int = 0  # the log's end when that snapshot was installed
    refusals: int = 0  # of what follows on the snapshot that has arrived there
    commit_sent: int = 0
    acked_round: int = 0  # of heartbeats
    apply_level_max: int = 0  # 0 until it has told
    can_lead: bool = True  # unless it told otherwise
    state_hash: StateHash = NO_HASH  # the newest that it told
    has_stopped: bool = False
    inflight_bytes: int = 0
    _inflight: deque[tuple[int, int]] = field(
        default_factory=deque
    )  # (last index, bytes) of appends under way

    @property
    def is_active(self) -> bool:
        return self.windows_silent <= 1

    def heard(self) -> None:
        self.windows_silent = 0

    @property
    def is_installing(self) -> bool:
        """A snapshot has arrived there, and that its log stands on it was not heard yet."""
        return self.mode is ProgressMode.PROBE and self.match < self.awaited_index < self.next

    @property
    def can_send(self) -> bool:
        if self.mode is ProgressMode.REPLICATE:
            return not self.is_window_full
        return self.mode is ProgressMode.PROBE and not self.is_waiting

    @property
    def must_send_append(self) -> bool:
        """A full window gets one message without entries all the same: if everything in it was lost, only an
        answer to this can tell."""
        return self.owes_append and (self.mode is ProgressMode.REPLICATE or self.can_send)

    @property
    def is_window_full(self) -> bool:
        settings = self._settings
        return (
            len(self._inflight) >= settings.inflight_messages_max
            or self.inflight_bytes >= settings.inflight_bytes_max
        )

    @property
    def inflight_messages(self) -> int:
        return len(self._inflight)

    def sent(self, last_index: int, bytes_sent: int, commit: int) -> None:
        """Entries up to `last_index`; nothing new of them when `bytes_sent` is 0."""
        self.owes_append = False
        self.commit_sent = max(self.commit_sent, min(commit, last_index))
        if self.mode is ProgressMode.PROBE:
            self.is_waiting = True
        elif bytes_sent:
            assert self.next <= last_index, "replication goes forward"
            self.next = last_index + 1
            self._inflight.append((last_index, bytes_sent))
            self.inflight_bytes += bytes_sent
        self._check()

    def acknowledged(self, index: int, last_index: int) -> bool:
        """True if it is news. The log ends at `last_index`."""
        while self._inflight and self._inflight[0][0] <= index:
            self.inflight_bytes -= self._inflight.popleft()[1]
        if index <= self.match:
            return False
        self.match = index
        if 0 < self.awaited_index <= index:
            self.catch_up_to = self.catch_up_to or last_index
            self.awaited_index = index if index < self.catch_up_to else 0
        self.next = max(self.next, index + 1)
        self.is_waiting = False
        self._check()
        return True

    def rejected(self, rejected_index: int, hint_index: int) -> bool:
        """Goes back to where the logs could agree. False for an answer to something long settled."""
        if self.mode is ProgressMode.REPLICATE:
            if rejected_index <= self.match:
                return False
            self.to_probe(self.match + 1)
            return True
        if self.mode is not ProgressMode.PROBE or rejected_index != self.next - 1:
            return False
        if rejected_index == self.match:
            return False  # it lacks what it proved to have: asking again at once would go on for ever
        if self.is_installing:
            self.refusals += 1
            if self.refusals < REFUSALS_MAX:
                return False
            self.awaited_index = 0  # it was restarted, and has lost the snapshot
        self.next = max(min(rejected_index, hint_index + 1), self.match + 1)
        self.is_waiting = False
        self.owes_append = True
        self._check()
        return True

    def allow_probe(self) -> None:
        """It answers heartbeats: whatever was lost may be sent again."""
        self.is_waiting = False

    def to_probe(self, next_index: int) -> None:
        self._enter(ProgressMode.PROBE)
        self.next = max(next_index, self.match + 1)
        self.owes_append = True
        self._check()

    def to_replicate(self) -> None:
        self._enter(ProgressMode.REPLICATE)
        self.next = self.match + 1
        self._check()

    def to_snapshot(self, snapshot_index: int) -> None:
        self._enter(ProgressMode.SNAPSHOT)
        self.snapshot_index = self.awaited_index = snapshot_index
        self.catch_up_to = self.refusals = 0

    def _enter(self, mode: ProgressMode) -> None:
        self.mode = mode
        self.is_waiting = False
        self.snapshot_index = 0
        self._inflight.clear()
        self.inflight_bytes = 0

    def _check(self) -> None:
        assert 0 <= self.match < self.next, "what is proven lies before what is guessed"
        assert self.inflight_bytes >= 0, "bytes come back that were never sent"
