"""What endpoints ask of the store, and how they wait for it: keys, sessions, transactions alike.

Whoever waits does so in `park`, as for everything else; the store calls when there is an answer. A wait that
runs out is answered with what is there now, asked anew. Errors have Consul's texts, on which clients
dispatch, and why stands in a header of our own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

import trio
from msgspec.structs import replace

from adsum.api import parameters
from adsum.api.api_types import Agent
from adsum.api.blocking import FOREIGN_INDEX_HOLD_S, JITTER_FRACTION, parse_asked
from adsum.http.request import Query, Request
from adsum.http.response import HeaderList, Response, text
from adsum.http.router import RETRY_SOON, HttpRefusal
from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeysFound, KeyStore, KeyWrite, ReadMode, StoreAnswer
from adsum.now import MILLISECOND
from adsum.session import Session
from adsum.store_requests import (
    SessionRead,
    SessionsFound,
    SessionStory,
    SessionStoryRead,
    StoreChange,
    TransactionFound,
    TransactionRead,
)

STATUS_OF = {KeyCause.BUSY: 429, KeyCause.NO_ROOM: 507, KeyCause.TOO_LARGE: 413}  # else 500
CONSULS_WORDS = {KeyCause.NO_LEADER: "No cluster leader", KeyCause.NO_SERVERS: "No known Consul servers"}
NOT_YET = object()

Answered = TypeVar("Answered")
# What may be waited for, and what is found then.
Read = TypeVar("Read", KeyRead, SessionRead)
Found = TypeVar("Found", KeysFound, SessionsFound)


class Awaited(Generic[Answered]):
    """What the store calls, and whom that wakes."""

    __slots__ = ("_outcome", "_request")

    def __init__(self, request: Request) -> None:
        self._outcome: Answered | KeyRefusal | object = NOT_YET
        self._request = request

    def __call__(self, outcome: Answered | KeyRefusal) -> None:
        self._outcome = outcome
        self._request.wake()

    @property
    def is_there(self) -> bool:
        return self._outcome is not NOT_YET

    @property
    def outcome(self) -> Answered:
        """Raises the refusal to send."""
        if isinstance(self._outcome, KeyRefusal):
            raise refused(self._outcome)
        assert self.is_there, "it was waited for"
        return self._outcome  # type: ignore[return-value]  # it is nothing else


class StoreAccess:
    def __init__(self, agent: Agent, random: Random) -> None:
        self._agent = agent
        self._random = random

    async def write(self, request: Request, change: KeyWrite | StoreChange) -> StoreAnswer:
        awaited = Awaited[StoreAnswer](request)
        return await self._whole(request, awaited, self._keys.write(change, awaited))

    async def renew(self, request: Request, session_id: str) -> Session | None:
        awaited = Awaited["Session | None"](request)
        return await self._whole(request, awaited, self._keys.renew(session_id, awaited))

    async def run_reads(self, request: Request, read: TransactionRead) -> TransactionFound:
        awaited = Awaited[TransactionFound](request)
        found = await self._whole(request, awaited, self._keys.ask(read, awaited))  # type: ignore[arg-type]
        if found.behind_ms > behind_ms_max(request.query):
            return await self.run_reads(request, replace(read, mode=ReadMode.DEFAULT))
        return found

    async def story(self, request: Request, session_id: str) -> SessionStory:
        awaited = Awaited[SessionStory](request)
        asked = self._keys.ask(SessionStoryRead(session_id), awaited)  # type: ignore[arg-type]
        return await self._whole(request, awaited, asked)

    async def keys(self, request: Request, read: KeyRead) -> KeysFound:
        return await self._found(request, read, lambda one, awaited: self._keys.read(one, awaited))

    async def sessions(self, request: Request, read: SessionRead) -> SessionsFound:
        def ask(one: SessionRead, awaited: Awaited[SessionsFound]) -> object:
            return self._keys.ask(one, awaited)  # type: ignore[arg-type]  # it finds sessions

        return await self._found(request, read, ask)

    # Inside.

    @property
    def _keys(self) -> KeyStore:
        """Of a server that had no room for its log it is another, once there is."""
        return self._agent.keys

    async def _found(
        self, request: Request, read: Read, ask: Callable[[Read, Awaited[Found]], object]
    ) -> Found:
        found = await self._waited_for(request, read, ask)
        if found.behind_ms > behind_ms_max(request.query):
            index = parse_asked(request.query, self._agent).index
            anew = replace(read, mode=ReadMode.DEFAULT, since=index, waits=False)
            return await self._asked(request, anew, ask)
        return found

    async def _waited_for(
        self, request: Request, read: Read, ask: Callable[[Read, Awaited[Found]], object]
    ) -> Found:
        asked = parse_asked(request.query, self._agent)
        if not asked.index:
            return await self._asked(request, read, ask)
        now_s = trio.current_time()
        read = replace(read, since=asked.index)
        jitter_s = self._random.uniform(0, asked.wait_s / JITTER_FRACTION)
        found = await self._asked_until(request, read, ask, now_s + asked.wait_s + jitter_s)
        if found is not None and found.is_foreign:
            read = replace(read, since=max(found.index, 1))
            hold_s = min(asked.wait_s, FOREIGN_INDEX_HOLD_S)
            found = await self._asked_until(request, read, ask, now_s + hold_s)
        if found is None:
            return await self._asked(request, replace(read, waits=False), ask)
        return found

    async def _asked(
        self, request: Request, read: Read, ask: Callable[[Read, Awaited[Found]], object]
    ) -> Found:
        found = await self._asked_until(request, read, ask, math.inf)
        assert found is not None, "it is awaited without end"
        return found

    async def _asked_until(
        self, request: Request, read: Read, ask: Callable[[Read, Awaited[Found]], object], until_s: float
    ) -> Found | None:
        """None when there is no answer until then."""
        awaited = Awaited[Found](request)
        asked = ask(read, awaited)
        await self._wait(request, awaited, asked, until_s)
        return awaited.outcome if awaited.is_there else None

    async def _whole(self, request: Request, awaited: Awaited[Answered], asked: object) -> Answered:
        await self._wait(request, awaited, asked, math.inf)
        return awaited.outcome

    async def _wait(
        self, request: Request, awaited: Awaited[Answered], asked: object, until_s: float
    ) -> None:
        try:
            while not awaited.is_there:
                if not await request.park(until_s):
                    break
        finally:
            if not awaited.is_there:
                self._keys.give_up(asked)


def mode_of(query: Query) -> ReadMode:
    if query.has("consistent"):
        return ReadMode.CONSISTENT
    if query.has("stale") or behind_ms_max(query) < math.inf:
        return ReadMode.STALE
    return ReadMode.DEFAULT


def behind_ms_max(query: Query) -> float:
    """What a stale answer may be late by; past that it is asked for anew, of the leader."""
    ns = parameters.duration_ns(query, "max_stale") or 0
    return ns / MILLISECOND if ns > 0 else math.inf


def meta_of(index: int, *, has_leader: bool, behind_ms: int) -> HeaderList:
    return (
        ("X-Consul-Index", str(max(index, 1))),
        ("X-Consul-Knownleader", "true" if has_leader else "false"),
        ("X-Consul-Lastcontact", str(behind_ms)),
    )


def refusal_text(refusal: KeyRefusal) -> Response:
    why = refused(refusal)
    return text(why.status, why.sentence, why.headers)


def refused(refusal: KeyRefusal) -> HttpRefusal:
    headers: HeaderList = RETRY_SOON if refusal.cause is KeyCause.BUSY else ()
    words = CONSULS_WORDS.get(refusal.cause)
    if words is not None:
        headers = (*headers, ("X-Adsum-Reason", refusal.sentence))
    return HttpRefusal(STATUS_OF.get(refusal.cause, 500), words or refusal.sentence, headers)
