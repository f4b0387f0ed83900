"""What holds from the first moment of the loop; the rest of a life is in tests/system."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random

import pytest
import trio

from adsum.config.build import Loaded
from adsum.logs.stream import LogCounters, LogStream
from adsum.process import assembly
from adsum.process.assembly import Assembly
from adsum.process.sockets import CannotStart
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed
from tests.process.agents import CONFIG

SILENT = replace(CONFIG, ports=replace(CONFIG.ports, serf_lan=-1))
TRIOS_THREADS = 40


def cannot_start() -> None:
    raise CannotStart("this is as far as it goes")


async def test_programs_that_hang_while_they_are_started_leave_all_else_its_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """56 of checks and 8 of watches may be started at once, each in a thread, and hang with their disk."""
    loaded = Loaded(SILENT, [])
    stream = LogStream(logging.INFO, LogCounters())
    made = Assembly(loaded, lambda: loaded, Owed(MemoryDisk()), None, Random(0), stream)
    monkeypatch.setattr(assembly, "_running_agent", cannot_start)
    threads = trio.to_thread.current_default_thread_limiter()
    assert threads.total_tokens == TRIOS_THREADS
    with pytest.raises(ExceptionGroup) as ended:
        await made.run()
    assert ended.group_contains(CannotStart)
    assert threads.total_tokens == TRIOS_THREADS + 56 + 8
