"""Taking streams from listeners: never more at once than there are places, and never the end of an agent.

A listener takes a place before it accepts, and waits in between in the kernel's queue with everybody else.
So what is open is bounded, whatever those do who hold it. Whoever has to be turned away, or displaces
another, must be accepted first: each listener has one place more for that.

Where the system has no file or memory for a connection, that is counted, said once a minute, and tried again
soon: the next look would fail as well, and a loop that tried at once would take all of the processor.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import told
from adsum.mutable import dataclass

ACCEPT_PAUSE_S = 0.1

Hold = Callable[[trio.SocketStream], Awaitable[None]]


@dataclass(slots=True)
class AcceptCounters:
    errors: int = 0  # the system gave us none of those that wait


class Accepting:
    """`of_whom` is the kind of streams, as the log calls them: "DNS clients"."""

    def __init__(self, hold: Hold, *, streams_max: int, of_whom: str, counters: AcceptCounters) -> None:
        self._hold = hold
        self._streams_max = streams_max
        self._of_whom = of_whom
        self._counters = counters
        self._complaints = Complaints(logging.getLogger("net"))

    async def run(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Until cancelled; closes the listeners, and each stream when `hold` has returned."""
        places = trio.Semaphore(self._streams_max + len(listeners))
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(self._accept_from, listener, places, nursery)
            task_status.started()

    async def _accept_from(
        self, listener: trio.SocketListener, places: trio.Semaphore, nursery: trio.Nursery
    ) -> None:
        async with listener:
            while True:
                await places.acquire()
                nursery.start_soon(self._keep, await self._accepted(listener), places)

    async def _accepted(self, listener: trio.SocketListener) -> trio.SocketStream:
        """Without a file the system refuses to look, also when nobody is there: so we wait for somebody."""
        while True:
            try:
                await trio.lowlevel.wait_readable(listener.socket)
                return await listener.accept()
            except OSError as error:
                self._counters.errors += 1
                sentence = "connections of %s cannot be taken: %s"
                self._complaints.say("accept", sentence, self._of_whom, told(error))
                await trio.sleep(ACCEPT_PAUSE_S)

    async def _keep(self, stream: trio.SocketStream, places: trio.Semaphore) -> None:
        try:
            await self._hold(stream)
        finally:
            stream.socket.close()
            places.release()
