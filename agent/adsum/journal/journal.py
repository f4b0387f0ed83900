"""What gossip said about members, kept: who came, went, was suspected, by whom, on what grounds.

The loop never waits for it. `record` makes an entry and puts it into a bounded queue; a worker thread takes
whatever has gathered to the file. A full queue drops the newest and counts them. Who reads gets what waits
too, since reading empties the queue first.

What would say the same about the same member every second (a veto, an accusation withheld, a conflict that
somebody reports again and again) is written once a minute with a count, so that it cannot push the rest out.
Neither can what a stranger's word is enough for (conflicts with members who are made up, newcomers who do not
answer, accusations of this agent): there are so many at once and a few a minute.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from adsum.allowance import Allowance
from adsum.gossip.claims import Profile
from adsum.gossip.effects import Note
from adsum.journal.entry import JournalEntry, JournalKind, NameOf, Recorded, entry_of, note_word, start_of
from adsum.journal.file import (
    IN_MEMORY,
    FoundEntries,
    JournalCounters,
    JournalFile,
    JournalLimits,
    JournalQuery,
)
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import told
from adsum.mutable import dataclass
from adsum.newest import keep_newest
from adsum.now import Now

FILE_NAME = "membership.sqlite"  # in the data folder
QUEUE_ENTRIES_MAX = 8_192  # a thousand members met at once, several times over
GATHER_S = 0.25  # what a kill -9 may cost
LAST_WRITE_S = 2.0  # how long a hung disk may hold the end of the process
CATCH_UP_S = 10.0  # between two tries to write what the disk refused
REPEATING = frozenset(map(note_word, (Note.VETOED, Note.WITHHELD)))
MADE_UP = frozenset(map(note_word, (Note.UNANSWERED, Note.ACCUSED_ME)))
REPEAT_MS = 60_000
REPEATS_REMEMBERED_MAX = 1_024
MADE_UP_AT_ONCE = 1_024  # in a day they fill a tenth of the journal, and no more
MADE_UP_PER_S = 0.05

log = logging.getLogger("agent.journal")

Wake = Callable[[], None]


class Journal:
    def __init__(
        self,
        path: Path | None,
        me: Profile,
        name_of: NameOf,
        started_wall_ms: int,
        limits: JournalLimits | None = None,
    ) -> None:
        """Without a path it is kept in memory."""
        self.counters = JournalCounters()
        self._me = me
        self._name_of = name_of
        limits = limits or (JournalLimits() if path else IN_MEMORY)
        self._file = JournalFile(path, limits, self.counters, me.name)
        self._queue: deque[JournalEntry] = deque()
        self._came = trio.Event()
        self._one_at_a_time = trio.CapacityLimiter(1)
        self._watchers: dict[Wake, None] = {}
        self._repeats: dict[tuple[str, str, str], _Repeat] = {}
        self._made_up = Allowance(a_second=MADE_UP_PER_S, at_once=MADE_UP_AT_ONCE)
        self._complaints = Complaints(log, clock=time.monotonic)  # made in the thread
        self._is_file_gone = False
        self._start: JournalEntry | None = start_of(started_wall_ms, me)

    def record(self, now: Now, effect: Recorded) -> None:
        entry = entry_of(now.wall_ms, effect, self._me, self._name_of)
        if entry.note in REPEATING or entry.kind is JournalKind.CONFLICT:
            counted = self._without_repeats(entry)
            if counted is None:
                return
            entry = counted
        may_be_made_up = entry.kind is JournalKind.CONFLICT or entry.note in MADE_UP
        if may_be_made_up and not self._made_up.take(now.monotonic_ns):
            self.counters.rationed += 1
            return
        self._begin()
        self._put(entry)
        for wake in list(self._watchers):
            wake()

    async def entries(self, wanted: JournalQuery) -> FoundEntries:
        self._begin()
        return await trio.to_thread.run_sync(self._find, wanted, limiter=self._one_at_a_time)

    def watch(self, wake: Wake) -> None:
        """Called at each new entry, until `unwatch`."""
        self._watchers[wake] = None

    def unwatch(self, wake: Wake) -> None:
        self._watchers.pop(wake, None)

    async def run(self) -> None:
        """Until cancelled; what has gathered by then is written first."""
        try:
            while True:
                with trio.move_on_after(CATCH_UP_S if self._file.is_behind else math.inf):
                    await self._came.wait()
                await trio.sleep(GATHER_S)
                self._came = trio.Event()
                await trio.to_thread.run_sync(self._write, limiter=self._one_at_a_time)
        finally:
            with trio.move_on_after(LAST_WRITE_S, shield=True):
                await trio.to_thread.run_sync(self._end, abandon_on_cancel=True, limiter=self._one_at_a_time)

    def file_is_gone(self) -> None:
        """Its folder was deleted; another is there already."""
        self._is_file_gone = True
        self._came.set()

    # On the loop.

    def _begin(self) -> None:
        """With the first news, or when somebody looks: an agent that is alone and unasked needs no file."""
        if self._start is not None:
            self._put(self._start)
            self._start = None

    def _put(self, entry: JournalEntry) -> None:
        if len(self._queue) >= QUEUE_ENTRIES_MAX:
            self.counters.dropped += 1
            return
        self.counters.recorded += 1
        self._queue.append(entry)
        self._came.set()

    def _without_repeats(self, entry: JournalEntry) -> JournalEntry | None:
        """None when it says what one less than a minute old said, which will be told by a count."""
        key = (entry.node.id, entry.note, entry.other.id if entry.other else "")
        last = self._repeats.get(key)
        if last is not None and 0 <= entry.wall_ms - last.wall_ms < REPEAT_MS:
            last.count += 1
            return None
        keep_newest(self._repeats, key, _Repeat(entry.wall_ms), REPEATS_REMEMBERED_MAX)
        return msgspec.structs.replace(entry, repeats=last.count) if last is not None else entry

    # In the thread, one job at a time.

    def _write(self) -> None:
        if self._is_file_gone:
            self._is_file_gone = False
            self._file.file_is_gone()
        elif self._file.is_behind:
            self._file.catch_up()
        batch: list[JournalEntry] = []
        while self._queue:
            batch.append(self._queue.popleft())
        if batch and (problem := self._file.append(batch)):
            sentence = "changes of membership wait to be written to the journal: %s"
            self._complaints.say("not written", sentence, told(problem), level=logging.ERROR)

    def _find(self, wanted: JournalQuery) -> FoundEntries:
        self._write()
        return self._file.find(wanted)

    def _end(self) -> None:
        self._write()
        self._file.close()


@dataclass(slots=True)
class _Repeat:
    wall_ms: int
    count: int = 0
