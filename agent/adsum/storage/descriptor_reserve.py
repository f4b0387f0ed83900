"""File descriptors that are kept for the log, because clients can hold all others.

That none is left says nothing about the disk: nothing was tried yet. So the log opens what it needs with one
from the reserve, and when even that is spent it waits until one is closed. It waits in the thread that asked,
which is never the loop's: there others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import OUT_OF_FILES, told

RESERVED = 4  # the segment in use, the next one, a snapshot that is written and one that is read
PAUSE_S = 0.05  # until somebody may have closed one
WAITS = "the log of consensus waits, because no file can be opened: %s"

T = TypeVar("T")


class ComplainingPause:
    """Of the thread that asked."""

    def __init__(self) -> None:
        self._complaints = Complaints(logging.getLogger("agent.storage"), time.monotonic)

    def __call__(self, error: OSError) -> None:
        self._complaints.say("files", WAITS, told(error))
        time.sleep(PAUSE_S)


class DescriptorReserve:
    def __init__(
        self, take: Callable[[], int], give: Callable[[int], None], pause: Callable[[OSError], None]
    ) -> None:
        """`take` opens something, and raises as the system does when nothing can be opened; `give` closes
        it; `pause` waits a little for somebody else to close something."""
        self._take = take
        self._give = give
        self._pause = pause
        self._held: list[int] = []
        self._changing = threading.Lock()
        self.fill()

    def opened(self, open_: Callable[[], T]) -> T:
        """What `open_` returns, as soon as there is a descriptor for it."""
        while True:
            try:
                return open_()
            except OSError as error:
                if error.errno not in OUT_OF_FILES:
                    raise
                if not self._give_up_one():
                    self._pause(error)

    def fill(self) -> None:
        """As far as it goes; whenever a file was closed."""
        with self._changing:
            try:
                while len(self._held) < RESERVED:
                    self._held.append(self._take())
            except OSError:
                return

    def close(self) -> None:
        while self._give_up_one():
            pass

    def _give_up_one(self) -> bool:
        with self._changing:
            if not self._held:
                return False
            self._give(self._held.pop())
            return True
