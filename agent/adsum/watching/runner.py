from __future__ import annotations

from random import Random

import trio

from adsum.config.config import WatchDefinition
from adsum.logs.faults import Faults
from adsum.watching.counters import WatchCounters
from adsum.watching.handlers import Handlers
from adsum.watching.watch import Ask, ConfiguredWatch


class WatchRunner:
    """Runs watches, each for as long as it is wanted."""

    def __init__(
        self, ask: Ask, handlers_at_once: int, counters: WatchCounters, random: Random, faults: Faults
    ) -> None:
        self.counters = counters
        self._ask = ask
        self._handlers = Handlers(self.counters, handlers_at_once)
        self._random = random
        self._faults = faults

    async def run(
        self, definition: WatchDefinition, *, task_status: trio.TaskStatus[trio.CancelScope]
    ) -> None:
        """Until the scope, which is what is started, is cancelled."""
        watch = ConfiguredWatch(
            *(definition, self._ask, self._handlers.of(definition), self.counters, self._random, self._faults)
        )
        with trio.CancelScope() as scope:
            task_status.started(scope)
            await watch.run()
