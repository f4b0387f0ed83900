"""The one thread that writes the log, and the driver's way to it.

Jobs run one after the other; what comes out is called back on the loop. The thread is the driver's own, not
one borrowed from trio for each trip: a batch makes the trip some hundreds of times a second, and this is half
of what it costs.

While this thread waits for the disk the loop computes, and when the disk is done the loop still holds the
interpreter: by default for up to 5 ms, which is longer than everything else between a proposal and its
answer. So for the whole process the switch comes ten times sooner.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

import trio

SWITCH_INTERVAL_S = 0.0005
ENDING_S_MAX = 10.0  # for the last write before the process goes

T = TypeVar("T")


class Done(Generic[T]):
    """What became of a job: a value, or what it raised."""

    __slots__ = ("_error", "_value")

    def __init__(self, value: T | None, error: BaseException | None) -> None:
        self._value = value
        self._error = error

    def unwrap(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set whenever there is no error


class LogWriter:
    """Used inside trio; `close` waits for what was asked before."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._work, name="raft log", daemon=True)
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._thread.start()

    def do(self, job: Callable[[], T], done: Callable[[Done[T]], None]) -> None:
        """`done` runs on the loop and must not raise."""

        def work() -> None:
            outcome = _done(job)
            self._token.run_sync_soon(done, outcome)

        self._jobs.put(work)

    async def wait(self, job: Callable[[], T]) -> T:
        """The job goes to its end also when the caller is cancelled."""
        outcomes: list[Done[T]] = []
        ended = trio.Event()

        def done(outcome: Done[T]) -> None:
            outcomes.append(outcome)
            ended.set()

        self.do(job, done)
        await ended.wait()
        return outcomes[0].unwrap()

    def tell(self, news: Callable[[], object]) -> None:
        """From any thread, of something that is under way; `news` runs on the loop and must not raise."""
        with suppress(trio.RunFinishedError):  # nobody is left to be told
            self._token.run_sync_soon(news)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join(ENDING_S_MAX)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except trio.RunFinishedError:  # nobody is left to be told
                return


def _done(job: Callable[[], T]) -> Done[T]:
    try:
        return Done(job(), None)
    except BaseException as error:  # it is raised again on the loop, where somebody decides
        return Done(None, error)
