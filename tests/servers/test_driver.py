"""The driver alone, around a core that has no disk and nobody to talk to."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from adsum.consensus.commands import SubmitProposal
from adsum.consensus.effects import AskLeader
from adsum.now import Now
from adsum.raft.messages import Message
from adsum.servers.driver import Driver, NobodyFollows
from tests.consensus.support import Bench
from tests.consensus.test_core import elected

TRIES = 20  # which task of a round comes first is drawn


class SendsNothing:
    def send(self, message: Message) -> None: ...

    async def ask_leader(self, _asked: AskLeader) -> bytes | int | Exception:
        raise AssertionError("nobody is asked")

    def carry(self, *_offered: object) -> None: ...


def driver_of(bench: Bench) -> Driver:
    began_ns = time.monotonic_ns()
    log = SimpleNamespace(tell_progress=lambda _told: None, snapshots=None)
    now = lambda: Now(bench.now.monotonic_ns + time.monotonic_ns() - began_ns, 0)  # noqa: E731
    return Driver(bench.core, cast(Any, log), cast(Any, SendsNothing()), now, NobodyFollows())


async def test_a_core_that_failed_half_way_takes_no_further_turn() -> None:
    for _ in range(TRIES):
        turns = await turns_after_a_failure()
        assert turns == ["failed"]


async def turns_after_a_failure() -> list[str]:
    """It fails while the driver waits for those who join the next question about reads."""
    bench, turns = elected(), list[str]()
    driver, tick = driver_of(bench), bench.core.tick

    def failing(now: Now) -> Any:
        if turns or bench.core.reads.lets_join:
            turns.append("went on" if turns else "failed")
            raise AssertionError("half changed")
        return tick(now)

    bench.core.tick = failing  # type: ignore[method-assign]
    with pytest.raises(BaseExceptionGroup):
        await failing_while_it_waits(driver)
    return turns


async def failing_while_it_waits(driver: Driver) -> None:
    writer = SimpleNamespace(do=lambda *_work: None, tell=None, close=lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run, cast(Any, writer))
        await trio.testing.wait_all_tasks_blocked()
        driver.core.reads.lets_join = True
        driver.submit(SubmitProposal(b"wakes it", lambda _outcome: None))
        await trio.lowlevel.checkpoint()
        driver._turn_at_once(driver._now())
        driver.submit(SubmitProposal(b"again", lambda _outcome: None))
        await trio.sleep(1)
