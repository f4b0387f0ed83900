"""One thread that writes while the loop goes on.

Whatever has gathered while the last batch was on its way to the disk goes together in the next: registrations
that come at once share a trip to the thread. A write or sync that fails ends the process: what was promised
to be on the disk may not be, and nothing after it could be trusted.

Two failures are milder. With no file descriptor left nothing was written yet, so it is tried again. And what
was never promised to outlive a power loss (TTL states, which only bridge a restart) is left out: a full disk
should not take away discovery from a host whose registrations are safe.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from adsum.effects import Persist
from adsum.storage import registrations
from adsum.storage.disk import Disk

log = logging.getLogger("agent.storage")

OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
PAUSE_S = 0.1  # until somebody may have closed a file
COMPLAINT_INTERVAL_S = 60.0


@dataclass(slots=True)
class WriterCounters:
    put_off: int = 0  # for want of a file descriptor
    left_out: int = 0  # unsynced writes that failed


class Writer:
    def __init__(
        self, disk: Disk, done: Callable[[int], None], counters: WriterCounters | None = None
    ) -> None:
        self._disk = disk
        self._done = done
        self._counters = counters or WriterCounters()
        self._silent_until_s = 0.0
        self._gathered: list[Persist] = []  # bounded by the core, which refuses commands past WAITING_MAX
        self._came = trio.Event()
        self._wrote = trio.Event()
        self._is_writing = False

    def write(self, persist: Persist) -> None:
        self._gathered.append(persist)
        self._came.set()

    async def until_idle(self) -> None:
        while self._gathered or self._is_writing:
            await self._wrote.wait()

    async def run(self) -> None:
        while True:
            await self._came.wait()
            self._came = trio.Event()
            batch, self._gathered = self._gathered, []
            self._is_writing = True
            while (problem := await trio.to_thread.run_sync(self._perform, batch)) is not None:
                self._counters.put_off += 1
                self._complain("a registration waits, because no file can be opened: %s", problem)
                await trio.sleep(PAUSE_S)
            self._is_writing = False
            for persist in batch:
                self._done(persist.ticket)
            self._wrote.set()
            self._wrote = trio.Event()

    def _perform(self, batch: list[Persist]) -> OSError | None:
        """Every change replaces or removes a whole file, so that a batch can be begun anew."""
        for persist in batch:
            try:
                registrations.perform(self._disk, persist.changes, is_synced=persist.is_synced)
            except OSError as problem:
                if persist.is_synced and problem.errno not in OUT_OF_FILES:
                    raise
                if persist.is_synced:
                    return problem
                self._counters.left_out += 1
                self._complain("what TTL checks said is not saved, and lost at a restart: %s", problem)
        return None

    def _complain(self, sentence: str, problem: OSError) -> None:
        if time.monotonic() >= self._silent_until_s:
            self._silent_until_s = time.monotonic() + COMPLAINT_INTERVAL_S
            log.error(sentence, problem)
