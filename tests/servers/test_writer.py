from __future__ import annotations

import threading
from functools import partial

import pytest
import trio

from adsum.servers.writer import LogWriter


async def test_jobs_run_one_after_the_other_in_a_thread_of_their_own() -> None:
    writer, threads, order = LogWriter(), set[str](), list[int]()

    def job(number: int) -> int:
        threads.add(threading.current_thread().name)
        order.append(number)
        return number

    answers = [await writer.wait(partial(job, number)) for number in range(5)]
    writer.close()
    assert answers == order == [0, 1, 2, 3, 4]
    assert threads == {"raft log"}


async def test_what_a_job_raises_is_raised_on_the_loop() -> None:
    writer = LogWriter()

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await writer.wait(fail)
    assert await writer.wait(lambda: "and the thread goes on") == "and the thread goes on"
    writer.close()


async def test_closing_waits_for_what_was_asked_before() -> None:
    writer, done = LogWriter(), list[str]()
    go_on = threading.Event()
    writer.do(go_on.wait, lambda _outcome: None)
    writer.do(lambda: done.append("last"), lambda _outcome: None)
    go_on.set()
    writer.close()
    assert done == ["last"]
    await trio.lowlevel.checkpoint()
