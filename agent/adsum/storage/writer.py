"""One thread that writes while the loop goes on.

Whatever has gathered while the last batch was on its way to the disk goes together in the next: registrations
that come at once share a trip to the thread. A write or sync that fails ends the process: what was promised
to be on the disk may not be, and nothing after it could be trusted.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from adsum.effects import Persist
from adsum.storage import registrations
from adsum.storage.disk import Disk


class Writer:
    def __init__(self, disk: Disk, done: Callable[[int], None]) -> None:
        self._disk = disk
        self._done = done
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
            await trio.to_thread.run_sync(self._perform, batch)
            self._is_writing = False
            for persist in batch:
                self._done(persist.ticket)
            self._wrote.set()
            self._wrote = trio.Event()

    def _perform(self, batch: list[Persist]) -> None:
        for persist in batch:
            registrations.perform(self._disk, persist.changes, is_synced=persist.is_synced)
