"""Reads of the catalog: parse, find the shared rendering, wait while it is what the client already has.

Every catalog read is answered from this agent's own copy, so every mode of consistency is called `stale`,
which is what it is; `?consistent` has the copy compared with others first. A wait ends when the query's
own index moves. An index that is not from here (a client behind a balancer, or from before a restart) is held
for a change at most a second and then answered with the current one, so that such a client neither spins nor
hangs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import trio

from adsum.agent.commands import CommandRefused, ConfirmCatalog
from adsum.api import parameters
from adsum.api.api_types import Agent, ApiParts
from adsum.api.filter_time import NoTimeLeft
from adsum.api.freshness import Freshness
from adsum.api.full_outputs import wants_full, with_full_outputs
from adsum.api.rendering import Rendering, Renderings, WaitableRead
from adsum.frozen import dataclass
from adsum.http.request import Query, Request
from adsum.http.response import HeaderList, Response
from adsum.http.router import HttpRefusal, Route
from adsum.now import SECOND
from adsum.topics import Watching

FOREIGN_INDEX_HOLD_S = 1.0
JITTER_FRACTION = 16  # clients allow for wait/16 more and not a moment longer
INDEX = re.compile(r"(-?)([0-9]{1,20})")
INDEX_MAX = 2**64 - 1
CACHE_DIRECTIVE = re.compile(r"(max-age|stale-if-error)=([0-9]+)|must-revalidate|no-cache|")

# What Consul sends where a query failed before it had an index.
FAILED_META: HeaderList = (
    ("X-Consul-Index", "1"),
    ("X-Consul-Knownleader", "false"),
    ("X-Consul-Lastcontact", "0"),
)

CACHED: HeaderList = (("X-Cache", "HIT"), ("Age", "0"))

# Parameters that plans and renderings look at; all others (when to answer, who asks, how fresh) leave the
# answer as it is, and queries that differ only in them share a rendering, and an index.
SHAPING = frozenset({"cached", "filter", "near", "node-meta", "passing", "pretty", "tag"})

# Parameters with which a target says more than which rendering to send.
NOT_BY_TARGET = ("consistent", "output", "token")

Plan = Callable[[Agent, Query, str], WaitableRead]


@dataclass(frozen=True, slots=True)
class BlockingQuery:
    index: int  # 0: answer at once
    wait_s: float


class BlockingReads:
    def __init__(self, parts: ApiParts) -> None:
        self._agent = parts.agent
        self._random = parts.random
        self._counters = parts.counters
        self._filter_time = parts.filter_time
        self._renderings = Renderings(parts.counters)
        self._freshness = Freshness(parts.agent)

    def route(
        self, path: str, plan: Plan, *, takes_cached: bool = False, shows_checks: bool = False
    ) -> Route:
        """A plan turns the rest of the path and the query into what to read, or refuses."""
        by_target = self._renderings.by_target
        counters = self._counters

        async def answer(request: Request, rest: str) -> Response:
            known = by_target.get(request.target)
            if known is None:
                is_full = shows_checks and wants_full(request)
                response = await self._answer(plan, request, rest, takes_cached=takes_cached)
                if is_full:
                    return await with_full_outputs(self._agent, request, response)
                return response
            known.is_used = True
            counters.rendering_hits += 1
            request.again = known.recall
            with self._filter_time.refusing(FAILED_META):  # there may be more to look at by now
                return await self._filter_time.soon(request, known.current)

        return Route(("GET",), path, answer, rest=path.endswith("/"))

    async def _answer(self, plan: Plan, request: Request, rest: str, *, takes_cached: bool) -> Response:
        query = request.query
        asked = parse_asked(query, self._agent)
        is_cached = check_consistency(query) and takes_cached
        if is_cached:
            check_cache_control(request.headers.first("cache-control"))
        parameters.check_namespace(query)
        parameters.check_datacenter(query, self._agent.config.datacenter, FAILED_META)
        if query.has("consistent"):
            # Of the members that are present, two have nothing that we lack; or there are none.
            try:
                await self._agent.submit(ConfirmCatalog())
            except CommandRefused as refused:
                raise HttpRefusal(500, refused.refusal.sentence, FAILED_META) from None
        with self._filter_time.refusing(FAILED_META):
            rendering = await self._filter_time.soon(
                request, partial(self._find, plan, request, rest, is_cached=is_cached)
            )
            response = rendering.response
            if asked.index:
                del query  # who waits keeps little
                return await self._hold(request, rendering, asked)
        if not (is_cached or rendering.read.is_by_distance or any(map(query.has, NOT_BY_TARGET))):
            self._renderings.keep_target(request.target, rendering)
        return response

    def _find(self, plan: Plan, request: Request, rest: str, *, is_cached: bool) -> Rendering:
        key = (request.path, tuple(sorted(pair for pair in request.query if pair[0] in SHAPING)))
        rendering = self._renderings.get(key)
        if rendering is not None:
            rendering.is_used = True
            if rendering.read.is_by_distance:
                rendering.outdate()
            rendering.current()
            return rendering
        # Rendered before it is kept: what fails is not worth keeping.
        rendering = Rendering(
            plan(self._agent, request.query, rest),
            self._counters,
            self._freshness,
            is_pretty=self._agent.config.is_dev or request.query.has("pretty"),
            headers=CACHED if is_cached else (),
            asked=request.target,
            filter_time=self._filter_time if request.query.first("filter") else None,
        )
        rendering.current()
        self._renderings.keep(key, rendering)
        return rendering

    async def _hold(self, request: Request, rendering: Rendering, asked: BlockingQuery) -> Response:
        if asked.index < rendering.index:
            return rendering.response
        wait_s = asked.wait_s + self._random.uniform(0, asked.wait_s / JITTER_FRACTION)
        if asked.index > rendering.index:
            self._counters.foreign_indexes_held += 1
            wait_s = min(asked.wait_s, FOREIGN_INDEX_HOLD_S)
        self._counters.blocking_open += 1
        try:
            with Watching(self._agent.watches, rendering.read.topics, request.wake):
                await self._until_moved(request, rendering, trio.current_time() + wait_s)
        finally:
            self._counters.blocking_open -= 1
        return rendering.at_hand()

    async def _until_moved(self, request: Request, rendering: Rendering, deadline: float) -> None:
        known = rendering.index
        while rendering.index == known:
            if not await request.park(deadline):
                self._counters.blocking_timed_out += 1
                return
            if rendering.read.lists_everything:
                # Let changes gather; more of them may come and wake us meanwhile.
                until = min(rendering.next_at, deadline)
                while trio.current_time() < until and await request.park(until):
                    pass
            try:
                await self._filter_time.in_turn(request, rendering.current, deadline)
            except NoTimeLeft:
                self._counters.blocking_timed_out += 1
                return
        self._counters.blocking_woken += 1


def parse_asked(query: Query, agent: Agent) -> BlockingQuery:
    wait_ns = parameters.duration_ns(query, "wait", refusal="Invalid wait time") or 0
    if wait_ns <= 0:
        wait_ns = agent.config.default_query_time_ns
    match = INDEX.fullmatch(query.first("index") or "0")
    if match is None or int(match[2]) > INDEX_MAX:
        raise HttpRefusal(400, "Invalid index")
    index = 0 if match[1] else int(match[2])  # Spring's configuration watch sends -1
    return BlockingQuery(index, min(wait_ns, agent.config.max_query_time_ns) / SECOND)


def check_consistency(query: Query) -> bool:
    """Whether a cached answer will do; all modes are the same here, but not all may be asked for at once."""
    is_cached = query.has("cached")
    is_stale = query.has("stale")
    if query.has("max_stale"):
        sentence = f'Invalid max_stale value "{query.first("max_stale")}"'
        is_stale = parameters.duration_ns(query, "max_stale", refusal=sentence) is not None or is_stale
    if is_stale and query.has("consistent"):
        raise HttpRefusal(400, "Cannot specify ?stale with ?consistent, conflicting semantics.")
    if is_cached and query.has("consistent"):
        raise HttpRefusal(400, "Cannot specify ?cached with ?consistent, conflicting semantics.")
    return is_cached


def check_cache_control(header: str) -> None:
    """Our copy is never older than it can be, so the ages asked for are only checked for being ages."""
    for directive in header.split(","):
        if CACHE_DIRECTIVE.fullmatch(directive.strip().lower()) is None:
            raise HttpRefusal(400, "Invalid Cache-Control header.")
