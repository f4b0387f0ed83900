"""The watches of the configuration in force: begun with the agent, ended with it, and changed by a reload,
which leaves alone those that it does not change.

Where their code cannot be loaded, for want of a file or since an upgrade has replaced it, the agent goes on
without them, and tries again at the next reload.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

import trio

from adsum.config.config import WatchDefinition
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.logs.faults import Faults
from adsum.process.loading import late
from adsum.watching.counters import WatchCounters

if TYPE_CHECKING:  # loaded by the first watch
    from adsum.process.running import RunningAgent
    from adsum.watching.runner import WatchRunner

Ask = Callable[[Request], Awaitable[Response]]


async def keep_watches(
    agent: RunningAgent,
    ask: Ask,
    handlers_at_once: int,
    counters: WatchCounters,
    random: Random,
    faults: Faults,
) -> None:
    """`ask` is the agent's own API."""
    runner: WatchRunner | None = None
    running: dict[WatchDefinition, trio.CancelScope] = {}
    async with trio.open_nursery() as nursery:
        while True:
            reloaded, wanted = agent.reloaded, agent.config.watches
            for definition in [each for each in running if each not in wanted]:
                running.pop(definition).cancel()
            if wanted and runner is None:
                try:
                    watch_runner = await late(_watch_runner)
                    runner = watch_runner(ask, handlers_at_once, counters, random, faults)
                except Exception as error:
                    faults.dropped("watch", error)
            for definition in wanted:
                if runner is not None and definition not in running:
                    running[definition] = await nursery.start(runner.run, definition)
            await reloaded.wait()


def _watch_runner() -> type[WatchRunner]:
    from adsum.watching.runner import WatchRunner

    return WatchRunner
