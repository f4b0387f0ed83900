"""Connections between two requests, waiting for the next in one epoll of their own.

trio wakes a task for each socket that becomes readable, which costs more than a known request does to
answer. So what waits for its next request waits here: the sockets stay registered, all that are readable are
looked at in one go, and a connection's task is woken only for what needs one. The loop waits for the epoll
itself, which is readable while one of its sockets is."""

from __future__ import annotations

import select
from typing import Protocol

import trio

# Before others get a turn: some 10 µs each, if all of them are known.
READY_PER_WAKE = 64


class Idler(Protocol):
    def fileno(self) -> int: ...

    def hear(self) -> bytes | None:
        """The socket is readable. None: that was dealt with, and it goes on waiting."""


class Wait:
    __slots__ = ("error", "heard", "idler", "task")

    def __init__(self, idler: Idler, task: trio.lowlevel.Task) -> None:
        self.idler = idler
        self.task = task
        self.heard = b""
        self.error: Exception | None = None


class Idlers:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waits: dict[int, Wait] = {}

    async def run(self) -> None:
        """Until cancelled."""
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                for number, _events in self._epoll.poll(0, READY_PER_WAKE):
                    self._look(number)

    async def wait(self, idler: Idler) -> bytes:
        """What it heard that needs its task; empty when the client has hung up. Raises what `hear` raised."""
        number = idler.fileno()
        self._epoll.register(number, select.EPOLLIN)
        wait = self._waits[number] = Wait(idler, trio.lowlevel.current_task())

        def forget(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._forget(number)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(forget)
        if wait.error is not None:
            raise wait.error
        return wait.heard

    def _look(self, number: int) -> None:
        wait = self._waits[number]
        try:
            heard = wait.idler.hear()
        except Exception as error:  # whatever it is, it concerns one connection
            wait.error = error
        else:
            if heard is None:
                return
            wait.heard = heard
        self._forget(number)
        trio.lowlevel.reschedule(wait.task)

    def _forget(self, number: int) -> None:
        del self._waits[number]
        self._epoll.unregister(number)
