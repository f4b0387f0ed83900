from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
import trio
import trio.testing

from adsum.config.build import Loaded
from adsum.config.config import WatchDefinition
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.logs.faults import Faults
from adsum.process import configured_watches
from adsum.process.configured_watches import keep_watches
from adsum.watch_plan import plan_of
from adsum.watching.counters import WatchCounters
from adsum.watching.runner import WatchRunner
from tests.process import agents
from tests.process.agents import made

CONFIG = replace(agents.CONFIG, ports=replace(agents.CONFIG.ports, serf_lan=-1))


def watch_of(key: str) -> WatchDefinition:
    return WatchDefinition(plan=plan_of("key", {"key": key}), args=("/bin/true",))


class Api:
    """Asked by watches, and never answering."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self._asked = trio.Semaphore(0)

    async def until_asked(self, times: int) -> None:
        """So many times since it was asked last."""
        for _ in range(times):
            await self._asked.acquire()

    async def ask(self, request: Request) -> Response:
        self.begun[request.path] += 1
        self._asked.release()
        try:
            await trio.sleep_forever()
        finally:
            self.ended[request.path] += 1
        raise AssertionError


async def test_a_reload_begins_and_ends_watches_and_leaves_the_others_alone() -> None:
    old = replace(CONFIG, watches=(watch_of("a"), watch_of("b")))
    new = replace(CONFIG, watches=(watch_of("b"), watch_of("c")))
    api = Api()
    async with trio.open_nursery() as nursery:
        agent = made(old, nursery, read_again=lambda: Loaded(new, []))
        nursery.start_soon(keep_watches, agent, api.ask, 1, WatchCounters(), Random(0), Faults())
        await api.until_asked(2)
        await agent.reload()
        await api.until_asked(1)
        assert api.begun == {"/v1/kv/a": 1, "/v1/kv/b": 1, "/v1/kv/c": 1}
        assert api.ended == {"/v1/kv/a": 1}
        nursery.cancel_scope.cancel()
    assert api.ended == {"/v1/kv/a": 1, "/v1/kv/b": 1, "/v1/kv/c": 1}


async def test_an_agent_without_watches_gets_its_first_by_a_reload() -> None:
    api = Api()
    async with trio.open_nursery() as nursery:
        agent = made(
            CONFIG, nursery, read_again=lambda: Loaded(replace(CONFIG, watches=(watch_of("a"),)), [])
        )
        nursery.start_soon(keep_watches, agent, api.ask, 1, WatchCounters(), Random(0), Faults())
        await trio.testing.wait_all_tasks_blocked()
        assert api.begun == {}
        await agent.reload()
        await api.until_asked(1)
        nursery.cancel_scope.cancel()


async def test_watches_whose_code_cannot_be_loaded_end_nothing_and_begin_with_the_next_reload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upgrade in place replaces the code of an agent that runs."""
    api, faults, load = Api(), Faults(), configured_watches._watch_runner
    refusals = [ImportError("cannot import name 'WatchRunner'")]

    def cannot_be_loaded() -> type[WatchRunner]:
        if refusals:
            raise refusals.pop()
        return load()

    monkeypatch.setattr(configured_watches, "_watch_runner", cannot_be_loaded)
    usual_s = sys.getswitchinterval()
    async with trio.open_nursery() as nursery:
        agent = made(replace(CONFIG, watches=(watch_of("a"),)), nursery)
        nursery.start_soon(keep_watches, agent, api.ask, 1, WatchCounters(), Random(0), faults)
        while not faults.counts["watch"]:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert sys.getswitchinterval() == usual_s
        await agent.reload()
        await api.until_asked(1)
        nursery.cancel_scope.cancel()
