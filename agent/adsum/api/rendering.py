"""One rendering per query and index, shared by everyone who asks and everyone who waits.

A `Rendering` is one query's answer: what it depends on, how to make it, and the response that was made last,
head and all. It stays true until one of its topics moves, so a hot read costs a look in a dict and one
comparison of indexes. When a topic moved but the bytes are the same (another tag, another status), the
answer keeps its index too, and nobody is woken for nothing: that makes indexes exact for every query,
whatever its filter.

Kept are at most so many queries and so many bytes; what was not used since the last look goes first. A filter
is not kept but for its text: it is read anew for each rendering, which costs microseconds for those that
people write, and is bounded for all others (`filter_time`).
"""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import trio

from adsum import frozen, mutable
from adsum.api import shapes
from adsum.api.filter_time import FilterTime, NoTimeLeft
from adsum.catalog.bad_filter import BadFilter
from adsum.http.response import Body, HeaderList, Response, json_body
from adsum.topics import IndexSource, Topic

if TYPE_CHECKING:
    from adsum.api.freshness import Freshness

QUERIES_MAX = 4096
BYTES_MAX = 64 * 1024 * 1024
TARGETS_PER_QUERY_MAX = 8  # spellings of one query that are found without parsing
TARGET_BYTES_MAX = 512
OVERHEAD_BYTES = 2048  # what a kept query costs besides its answer and its text
TARGET_OVERHEAD_BYTES = 256  # of each spelling
CHARACTER_BYTES = 4  # of the query's text: one character beyond Unicode's first plane widens all of them

# Endpoints that list everything wake at most this often, and spend at most a fifth of the time on rendering.
PAUSE_S_MIN = 0.020
PAUSE_PER_COST = 4


@mutable.dataclass(slots=True)
class ApiCounters:
    blocking_open: int = 0
    blocking_woken: int = 0
    blocking_timed_out: int = 0
    foreign_indexes_held: int = 0
    renderings: int = 0
    renderings_unchanged: int = 0  # a topic moved, but not what this query shows of it
    rendering_hits: int = 0
    renderings_dropped: int = 0  # to make room
    rendering_bytes: int = 0  # held now
    filters_ns: int = 0  # spent on answers with a filter
    filters_refused_for_work: int = 0
    filters_refused_for_time: int = 0
    filters_waited: int = 0  # requests that had to wait for time


@frozen.dataclass(frozen=True, slots=True)
class WaitableRead:
    """What a query depends on, where the indexes of that are kept, and how to make its answer; making it
    again gives it anew."""

    indexes: IndexSource
    topics: tuple[Topic, ...]
    render: Callable[[], bytes]
    lists_everything: bool = False
    headers: HeaderList = ()
    is_by_distance: bool = False  # the order may change though nothing else does: made again for each asker


class Rendering:
    def __init__(
        self,
        read: WaitableRead,
        counters: ApiCounters,
        stamp: Freshness,
        *,
        is_pretty: bool,
        headers: HeaderList = (),
        asked: bytes = b"",
        filter_time: FilterTime | None = None,
    ) -> None:
        """With the target that was asked, and, if it has a filter, with what filters draw their time from."""
        self.read = read
        self.index = 0
        self.response = Response()
        self.size = 0
        self.targets: list[bytes] = []
        self.is_used = True
        self.kept_by: Renderings | None = None
        self.next_at = 0.0  # on trio's clock: waiters should not ask for another before
        self._asked_bytes = OVERHEAD_BYTES + CHARACTER_BYTES * len(asked)
        self._filter_time = filter_time
        self._index_of = read.indexes.of
        self._counters = counters
        self._stamp = stamp
        self._stamped = -1
        self._headers = (*headers, *read.headers)
        self._is_pretty = is_pretty
        self._only_topic = read.topics[0] if len(read.topics) == 1 else None
        self._seen = -1
        self.recall = _recalling(weakref.ref(self))

    def again(self) -> Response | None:
        """None: ask in full, for it was dropped, is refused now, or has to wait for time."""
        if self.kept_by is None:
            return None
        try:
            response = self.current()
        except (BadFilter, NoTimeLeft):
            return None
        self.is_used = True
        self._counters.rendering_hits += 1
        return response

    def current(self) -> Response:
        """With a filter it raises `NoTimeLeft` and `BadFilter`."""
        version = self._stamp.look()
        if self._topics_index() != self._seen:
            with self._filter_time.spending() if self._filter_time is not None else nullcontext():
                self._render()
        elif version != self._stamped:
            self._put_head(self.response.body)
        return self.response

    def at_hand(self) -> Response:
        """The last one where there is no time for its filter."""
        try:
            return self.current()
        except NoTimeLeft:
            return self.response

    def outdate(self) -> None:
        """Made again when it is asked for next, though no topic moved. The index stays if the bytes do."""
        self._seen = -1

    def _topics_index(self) -> int:
        if self._only_topic is not None:
            return self._index_of(self._only_topic)
        return max(map(self._index_of, self.read.topics))

    def _render(self) -> None:
        seen, begun_s = self._topics_index(), time.perf_counter()
        plain = self.read.render()
        if self._is_pretty:
            plain = shapes.pretty(plain)
        self._counters.renderings += 1
        if self.index and plain == self.response.body.plain:
            self._counters.renderings_unchanged += 1
            if self._stamp.version != self._stamped:
                self._put_head(self.response.body)
        else:
            self.index = seen
            self._put_head(Body(plain))
            self._resize(len(plain) + self._asked_bytes)
        self._seen = seen
        cost_s = time.perf_counter() - begun_s
        self.next_at = trio.current_time() + max(PAUSE_S_MIN, PAUSE_PER_COST * cost_s)

    def _put_head(self, body: Body) -> None:
        self._stamped = self._stamp.version
        headers = (("X-Consul-Index", str(self.index)), *self._stamp.headers, *self._headers)
        self.response = json_body(body, headers)

    def add_target(self, target: bytes) -> None:
        self.targets.append(target)
        self._asked_bytes += TARGET_OVERHEAD_BYTES + len(target)
        self._resize(self.size + TARGET_OVERHEAD_BYTES + len(target))

    def _resize(self, size: int) -> None:
        grown, self.size = size - self.size, size
        if self.kept_by is not None:
            self._counters.rendering_bytes += grown
            self.kept_by.make_room()


def _recalling(reference: weakref.ref[Rendering]) -> Callable[[], Response | None]:
    """`again`, for those who asked before, and must not keep what was dropped."""

    def recall() -> Response | None:
        rendering = reference()
        return rendering.again() if rendering is not None else None

    return recall


class Renderings:
    """By query, and by the raw targets that spelled it without an index. Old ones go when room is needed."""

    def __init__(
        self, counters: ApiCounters, *, queries_max: int = QUERIES_MAX, bytes_max: int = BYTES_MAX
    ) -> None:
        self.by_target: dict[bytes, Rendering] = {}
        self._by_query: OrderedDict[Hashable, Rendering] = OrderedDict()
        self._counters = counters
        self._queries_max = queries_max
        self._bytes_max = bytes_max

    def __len__(self) -> int:
        return len(self._by_query)

    def get(self, query: Hashable) -> Rendering | None:
        return self._by_query.get(query)

    def keep(self, query: Hashable, rendering: Rendering) -> None:
        self._by_query[query] = rendering
        rendering.kept_by = self
        self._counters.rendering_bytes += rendering.size
        self.make_room()

    def keep_target(self, target: bytes, rendering: Rendering) -> None:
        if rendering.kept_by is None or len(target) > TARGET_BYTES_MAX:
            return
        if len(rendering.targets) < TARGETS_PER_QUERY_MAX:
            self.by_target[target] = rendering
            rendering.add_target(target)

    def make_room(self) -> None:
        """The clock algorithm: who was used since it was last looked at may stay another round. The last one
        stays in any case, for its waiters would otherwise each hold a copy."""
        while len(self._by_query) > 1 and (
            len(self._by_query) > self._queries_max or self._counters.rendering_bytes > self._bytes_max
        ):
            query, rendering = self._by_query.popitem(last=False)
            if rendering.is_used:
                rendering.is_used = False
                self._by_query[query] = rendering
            else:
                self._drop(rendering)

    def _drop(self, rendering: Rendering) -> None:
        rendering.kept_by = None
        self._counters.renderings_dropped += 1
        self._counters.rendering_bytes -= rendering.size
        for target in rendering.targets:
            del self.by_target[target]
        rendering.targets.clear()
