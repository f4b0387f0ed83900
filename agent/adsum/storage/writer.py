"""One thread that writes while the loop goes on.

Whatever has gathered while the last batch was on its way to the disk goes together in the next: registrations
that come at once share a trip to the thread. Each is written whole or refused, whatever becomes of others.
A sync or rename that fails is `StorageFailed`, and ends the process: what was promised to be on the disk may
not be, and nothing after it could be trusted.

Everything else passes. With no file descriptor left the same is tried again. What nobody waits for and the
disk refuses (TTL states, the list of peers, the generation) is owed, and tried again every round, so
that all of it is there soon after there is room. A data folder that was deleted is found at the next write or
the next round, begun anew, and told of.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from adsum.effects import NotPersisted, Persist, Persisted, Save
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import told
from adsum.mutable import dataclass
from adsum.storage.owed import DiskOutcome, Owed

log = logging.getLogger("agent.storage")

PAUSE_S = 0.1  # until somebody may have closed a file
ROUND_S = 10  # between two looks at what is owed, and at the data folder

WAITS = "a registration waits, because no file can be opened: %s"
REFUSED = "a registration was refused, because it could not be kept in data_dir: %s"
UNSAVED = (
    "what changed since is not saved in data_dir (%s; tried again every %d s), and a restart finds what was "
    "saved last: %s"
)
SAVED = "data_dir can be written again; nothing is left unsaved"
LOST = "data_dir was deleted or emptied under the running agent: all that the agent knows is written again"
NAMED_MAX = 8  # files in a line


@dataclass(slots=True)
class WriterCounters:
    put_off: int = 0  # for want of a file descriptor
    refused: int = 0  # of which somebody was told
    left_out: int = 0  # that nobody waits for, each time in vain
    unsaved: int = 0  # files that are owed now
    folders_lost: int = 0


class DiskWriter:
    def __init__(
        self,
        owed: Owed,
        report: Callable[[Persisted | NotPersisted], None],
        counters: WriterCounters | None = None,
    ) -> None:
        self._owed = owed
        self._tell = report
        self.counters = counters or WriterCounters()
        self._lost: Callable[[], None] | None = None
        self._complaints = Complaints(log)
        self._gathered: deque[Persist | Save] = deque()  # bounded by the core: past WAITING_MAX it refuses
        self._came = trio.Event()
        self._wrote = trio.Event()
        self._is_writing = False
        self._refuses = False  # the last time that somebody waited, and nothing was written since

    def tell_of_loss(self, lost: Callable[[], None]) -> None:
        """Of the data folder, before anything that was written into the new one."""
        self._lost = lost

    def write(self, effect: Persist | Save) -> None:
        self._gathered.append(effect)
        self._came.set()

    async def until_idle(self) -> None:
        while self._gathered or self._is_writing:
            await self._wrote.wait()

    async def run(self) -> None:
        # What a start could not write is told at once.
        next_round_s = trio.current_time() + (0 if self._owed else ROUND_S)
        while True:
            with trio.move_on_at(next_round_s):
                await self._came.wait()
            self._came = trio.Event()
            batch, self._gathered = self._gathered, deque()
            self._is_writing = True
            is_round = trio.current_time() >= next_round_s
            if is_round:
                next_round_s = trio.current_time() + ROUND_S
            while True:
                outcome = await trio.to_thread.run_sync(partial(self._owed.work_off, batch, retries=is_round))
                self._note_problems(outcome)
                for ticket, refused in outcome.written:
                    self._tell(Persisted(ticket) if refused is None else NotPersisted(ticket, told(refused)))
                if not batch:
                    break
                await trio.sleep(PAUSE_S)
            self._is_writing = False
            self._wrote.set()
            self._wrote = trio.Event()

    def _note_problems(self, outcome: DiskOutcome) -> None:
        if outcome.is_folder_new and self._lost is not None:
            self.counters.folders_lost += 1
            log.error(LOST)
            self._lost()
        if outcome.waits is not None:
            self.counters.put_off += 1
            self._complain("waits", WAITS, outcome.waits.strerror)
        for problem in outcome.unsaved:
            self.counters.left_out += 1
            self._complain("unsaved", UNSAVED, told(problem), ROUND_S, _named(self._owed.files))
        self._report_recovery(outcome)
        for _ticket, refused in outcome.written:
            if refused is not None:
                self.counters.refused += 1
                self._complain("refused", REFUSED, told(refused))

    def _report_recovery(self, outcome: DiskOutcome) -> None:
        was_ill = self._refuses or self.counters.unsaved > 0
        self.counters.unsaved = len(self._owed)
        if any(refused for _ticket, refused in outcome.written):
            self._refuses = True
        elif outcome.has_written:
            self._refuses = False
        if was_ill and not self._refuses and not self.counters.unsaved:
            self._complaints.say("saved", SAVED)

    def _complain(self, kind: str, sentence: str, *details: object) -> None:
        self._complaints.say(kind, sentence, *details, level=logging.ERROR)


def _named(files: list[str]) -> str:
    more = len(files) - NAMED_MAX
    return ", ".join(files[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
