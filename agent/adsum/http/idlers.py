"""Connections whose clients are silent: between two requests, or waiting for an answer that is not due yet.

trio wakes a task for each socket that becomes readable, and throws a cancellation through it when its wait is
over for another reason. Either costs more than a known request does to answer, or a blocked one. So whoever
waits for its client waits here, in one epoll: the sockets stay registered, all that are readable are looked
at in one go, and a task is woken only for what needs one. The loop waits for the epoll itself, which is
readable while one of its sockets is.

Answers that were begun, and are ready while all are looked at, go out behind that, one after the other: a
client whose connections speak together wakes once for all of them, and not for each. What is answered from
what was kept goes out at once, for to hold that back would cost a tenth of it.

A socket stays registered after its wait, too, since most speak again only when they have been answered. One
that speaks earlier is taken out until its connection waits again. And each is taken out before it is closed:
the next one may get its number, and would never be heard.
"""

from __future__ import annotations

import select
from collections.abc import Callable

import trio

# Before others get a turn: some 10 µs each, if all of them are known.
READY_PER_WAKE = 64


class IdleWait:
    __slots__ = ("error", "hear", "heard", "task")

    def __init__(self, hear: Callable[[], bytes | None], task: trio.lowlevel.Task) -> None:
        self.hear = hear
        self.task = task
        self.heard = b""
        self.error: Exception | None = None


class Idlers:
    """By the numbers of their sockets, which must not be closed meanwhile."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waits: dict[int, IdleWait] = {}
        self._registered: set[int] = set()
        self._is_looking = False
        self._ready: list[tuple[Callable[[bytes], None], bytes]] = []  # answers, and what sends each

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            self._is_looking = True
            for number, _events in self._epoll.poll(0, READY_PER_WAKE):
                self._look(number)
            self._is_looking = False
            ready, self._ready = self._ready, []
            for send, payload in ready:
                send(payload)

    def close(self) -> None:
        """When nobody can wait any more, which is later than the end of `run`."""
        self._epoll.close()

    async def wait(self, number: int, hear: Callable[[], bytes | None]) -> bytes:
        """What `hear` gave when the socket was readable; while that is None, the wait goes on. Empty after
        `wake`. Raises what `hear` raised."""
        self.listen(number)
        wait = self._waits[number] = IdleWait(hear, trio.lowlevel.current_task())

        def give_up(_raise_cancel: object) -> trio.lowlevel.Abort:
            del self._waits[number]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)
        error, wait.error = wait.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame, and nobody would let go of either
        return wait.heard

    def send_soon(self, send: Callable[[bytes], None], payload: bytes) -> None:
        """Before anything else runs; `send` must not raise."""
        if self._is_looking:
            self._ready.append((send, payload))
        else:
            send(payload)

    def wake(self, number: int, error: Exception | None = None) -> None:
        """Ends its wait, if it waits; with the error, if there is one."""
        wait = self._waits.get(number)
        if wait is not None:
            wait.error = error
            self._end(number, wait)

    def listen(self, number: int) -> None:
        """After `deafen`, if it still waits."""
        if number not in self._registered:
            self._epoll.register(number, select.EPOLLIN)
            self._registered.add(number)

    def deafen(self, number: int) -> None:
        """What comes stays where it is, until `listen` or the next wait. To be called before the socket is
        closed."""
        if number in self._registered:
            self._registered.remove(number)
            self._epoll.unregister(number)

    def _look(self, number: int) -> None:
        wait = self._waits.get(number)
        if wait is None:  # it speaks while it is being answered, or was ended by what another one heard
            self.deafen(number)
            return
        try:
            heard = wait.hear()
        except Exception as error:  # whatever it is, it concerns one connection
            wait.error = error
        else:
            if heard is None:
                return
            wait.heard = heard
        if number in self._waits:  # else what was heard has ended it
            self._end(number, wait)

    def _end(self, number: int, wait: IdleWait) -> None:
        del self._waits[number]
        trio.lowlevel.reschedule(wait.task)
