"""How much of the loop's time requests with `filter=` may take, all of them together.

One filter is bounded by its own account of work (`catalog.filter`); a thousand clients, or one that asks
without end, are bounded here. The time that filtered answers take is measured and charged to one allowance of
a quarter of each second, so that DNS, gossip and everybody else have the rest. When it is used up, who asks
is told at once to come back, in the status that Consul has for it (`limits.request_limits`: 429, another
agent could answer); who has been waiting for a change waits a little longer, one after the other. Answers
that are still true cost nothing and are not touched by any of this.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import trio

from adsum.allowance import Allowance
from adsum.api.response import HeaderList
from adsum.api.router import Refusal
from adsum.catalog.filter_grammar import BadFilter, TooCostly
from adsum.now import MILLISECOND, SECOND

if TYPE_CHECKING:
    from adsum.api.rendering import ApiCounters
    from adsum.api.request import Query

NS_PER_S = 250 * MILLISECOND
NS_AT_ONCE = 250 * MILLISECOND
NO_TIME_LEFT = (
    "Requests with a filter have used up the time that this agent has for them. "
    "Ask again in a second, ask another agent, or ask without the filter."
)
RETRY_AFTER: HeaderList = (("Retry-After", "1"),)


class NoTimeLeft(Exception):
    """Filtered requests have had their share for now. Nothing was done."""


class FilterTime:
    def __init__(self, counters: ApiCounters) -> None:
        self._counters = counters
        self._allowance = Allowance(a_second=NS_PER_S, at_once=NS_AT_ONCE)
        self._turn = trio.Lock()

    def is_left(self) -> bool:
        return self._allowance.is_left(_now_ns())

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Around all that is done for a filter, without waiting in between. Raises `NoTimeLeft`."""
        if not self.is_left():
            raise NoTimeLeft
        begun_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            spent_ns = time.perf_counter_ns() - begun_ns
            self._counters.filters_ns += spent_ns
            self._allowance.charge(_now_ns(), spent_ns)

    @contextmanager
    def spent_on(self, query: Query) -> Iterator[None]:
        """Around all that is done for a request's filter, if it has one; refuses it as its client is told."""
        with self.refusing(), self.spending() if query.first("filter") else nullcontext():
            yield

    @contextmanager
    def refusing(self, headers: HeaderList = ()) -> Iterator[None]:
        """Turns what filters raise into what their clients are told."""
        try:
            yield
        except NoTimeLeft:
            self._counters.filters_refused_for_time += 1
            raise Refusal(429, NO_TIME_LEFT, (*headers, *RETRY_AFTER)) from None
        except BadFilter as bad:
            self._counters.filters_refused_for_work += isinstance(bad, TooCostly)
            raise Refusal(400, str(bad), headers) from None

    async def wait(self, deadline: float) -> bool:
        """Until there is time, in the order of asking, or until the deadline on trio's clock (False)."""
        if self.is_left() and not self._turn.locked():
            return True
        self._counters.filters_waited += 1
        with trio.move_on_at(deadline):
            async with self._turn:
                while left_in_ns := self._allowance.left_in_ns(_now_ns()):  # noqa: ASYNC110 (time is the event)
                    await trio.sleep(left_in_ns / SECOND)
                return True
        return False


def _now_ns() -> int:
    return round(trio.current_time() * SECOND)
