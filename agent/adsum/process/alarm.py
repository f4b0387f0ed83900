"""Wakes one task at a moment that may be moved while it sleeps.

trio ends a sleep by cancelling it, which makes an exception, throws it through the task and catches it again:
of a tick of the core that was the greater part. Here the sleeper takes the end of its time for what it is,
and goes on; the end of the agent still cancels it.
"""

from __future__ import annotations

import math

import trio


class Alarm:
    def __init__(self) -> None:
        self._at_s = math.inf
        self._sleep = trio.CancelScope()

    def set(self, at_s: float) -> None:
        """On trio's clock; never, if that is infinite."""
        self._at_s = self._sleep.deadline = at_s

    async def rings(self) -> None:
        """At once, and each time, once the moment has come."""
        task = trio.lowlevel.current_task()

        def wake(_raise_cancel: object) -> trio.lowlevel.Abort:
            trio.lowlevel.reschedule(task)
            return trio.lowlevel.Abort.FAILED

        with trio.CancelScope(deadline=self._at_s) as self._sleep:
            await trio.lowlevel.wait_task_rescheduled(wake)
        await trio.lowlevel.checkpoint_if_cancelled()
