"""How much of the loop's time requests with `filter=` may take, all of them together, and who waits for it.

One filter is bounded by its own account of work (`catalog.filter`); a thousand clients, or one that asks
without end, are bounded here. The processor time that filtered answers take is charged to one allowance of
a quarter of each second, so that DNS, gossip and everybody else have the rest.

When it is used up, whoever asks waits, first come first served: so a client that asks one costly filter after
the other has its turn only after those of all others who asked meanwhile. Nobody is served before those who
wait, even if there is time again; each looks anew when its turn comes, for by then its answer may have been
made for somebody else. A request that waits for nothing else does so for a second at most, and only so many
of them do: beyond that it is told to come back, in the status that Consul has for it
(`limits.request_limits`: 429, another agent could answer). A blocking query that was woken waits until its
own deadline. Who hangs up leaves the queue. Answers that are still true cost nothing and are not touched by
any of this.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import trio

from adsum.allowance import Allowance
from adsum.catalog.bad_filter import BadFilter, TooCostly
from adsum.http.request import Request
from adsum.http.response import HeaderList
from adsum.http.router import HttpRefusal
from adsum.now import MILLISECOND, SECOND

if TYPE_CHECKING:
    from adsum.api.rendering import ApiCounters

NS_PER_S = 250 * MILLISECOND
NS_AT_ONCE = 250 * MILLISECOND
WAIT_S_MAX = 1.0
WAITING_MAX = 64  # besides blocking queries, which are bounded by the number of connections
NO_TIME_LEFT = (
    "Requests with a filter have used up the time that this agent has for them. "
    "Ask again in a second, ask another agent, or ask without the filter."
)
RETRY_AFTER: HeaderList = (("Retry-After", "1"),)

Result = TypeVar("Result")


class NoTimeLeft(Exception):
    """Filtered requests have had their share for now, or others wait for it. Nothing was done."""


class FilterTime:
    def __init__(self, counters: ApiCounters, stopwatch_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self._counters = counters
        self._stopwatch_ns = stopwatch_ns
        self._allowance = Allowance(a_second=NS_PER_S, at_once=NS_AT_ONCE)
        self._queue: OrderedDict[Request, None] = OrderedDict()
        self._is_first_working = False
        self._waiting = 0  # without blocking queries

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Around all that is done for a filter, without waiting in between. Raises `NoTimeLeft`."""
        if self._queue and not self._is_first_working:
            raise NoTimeLeft
        if not self._allowance.is_left(_now_ns()):
            raise NoTimeLeft
        begun_ns = self._stopwatch_ns()
        try:
            yield
        finally:
            spent_ns = self._stopwatch_ns() - begun_ns
            self._counters.filters_ns += spent_ns
            self._allowance.charge(_now_ns(), spent_ns)

    async def spend(self, request: Request, work: Callable[[], Result]) -> Result:
        """Does what is done for a request's filter, if it has one; refuses it as its client is told."""
        if not request.query.first("filter"):
            return work()

        def measured() -> Result:
            with self.spending():
                return work()

        with self.refusing():
            return await self.soon(request, measured)

    @contextmanager
    def refusing(self, headers: HeaderList = ()) -> Iterator[None]:
        """Turns what filters raise into what their clients are told."""
        try:
            yield
        except NoTimeLeft:
            self._counters.filters_refused_for_time += 1
            raise HttpRefusal(429, NO_TIME_LEFT, (*headers, *RETRY_AFTER)) from None
        except BadFilter as bad:
            self._counters.filters_refused_for_work += isinstance(bad, TooCostly)
            raise HttpRefusal(400, str(bad), headers) from None

    async def soon(self, request: Request, work: Callable[[], Result]) -> Result:
        """`in_turn`, for who waits for nothing else: not for long, and not behind too many of its kind."""
        with suppress(NoTimeLeft):
            return work()
        if self._waiting >= WAITING_MAX:
            raise NoTimeLeft
        self._waiting += 1
        try:
            return await self.in_turn(request, work, trio.current_time() + WAIT_S_MAX)
        finally:
            self._waiting -= 1

    async def in_turn(self, request: Request, work: Callable[[], Result], deadline: float) -> Result:
        """Does the work, which spends by `spending` if it must, when it is this request's turn and there is
        time. Raises `NoTimeLeft` at the deadline, on trio's clock, and `ClientGone`."""
        with suppress(NoTimeLeft):
            return work()
        self._counters.filters_waited += 1
        self._queue[request] = None
        try:
            while True:
                if self._is_first(request):
                    with suppress(NoTimeLeft):
                        return self._work_first(work)
                if trio.current_time() >= deadline:
                    raise NoTimeLeft
                # When to look whether there is any: the first of them knows, the others are woken.
                look_s = math.inf
                if self._is_first(request):
                    look_s = trio.current_time() + self._allowance.left_in_ns(_now_ns()) / SECOND
                await request.park(min(deadline, look_s))
        finally:
            was_first = self._is_first(request)
            del self._queue[request]
            if was_first and self._queue:
                next(iter(self._queue)).wake()

    def _work_first(self, work: Callable[[], Result]) -> Result:
        self._is_first_working = True
        try:
            return work()
        finally:
            self._is_first_working = False

    def _is_first(self, request: Request) -> bool:
        return next(iter(self._queue)) is request


def _now_ns() -> int:
    return round(trio.current_time() * SECOND)
