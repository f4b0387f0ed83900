"""Keys, at /v1/kv: one road for servers and client agents, for what is behind it is a `KeyStore`.

Whoever waits for a key waits in `park`, as for everything else; the store calls when there is an answer. A
wait that runs out is answered with what is there now, asked anew. Errors have Consul's texts, on which
clients dispatch, and why stands in a header of our own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import quote_plus

import trio
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from adsum.api import parameters, shapes
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import FOREIGN_INDEX_HOLD_S, JITTER_FRACTION, check_consistency, parse_asked
from adsum.api.key_reader import KeyReader
from adsum.http.request import VERBATIM_UNDER, Query, Request, TakesAnswer, decoded_once, raw_path
from adsum.http.response import FALSE, TRUE, HeaderList, Response, empty, json_body, text, too_large_sentence
from adsum.http.router import RETRY_SOON, HttpRefusal, Route
from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRecord,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.now import MILLISECOND

PATH = VERBATIM_UNDER.decode()
UINT64_MAX = 2**64 - 1
DIGITS = re.compile(r"[0-9]+")
EXCLUSIVE = ("cas", "acquire", "release")
NAMES_PER_TURN = 16_384  # some 3 ms
ENTRIES_PER_TURN = 1_024  # some 2 ms, if their values are small
VALUE_BYTES_PER_TURN = 2 << 20
JOINED_HERE_BYTES_MAX = 4 << 20  # some 2 ms
# What a browser is to make of a value that somebody put there.
RAW_HEADERS: HeaderList = (("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox"))
NO_SESSIONS = (
    "Adsum has no sessions yet, so no key can be acquired or released with one; ?cas= decides who was first."
)
STATUS_OF = {
    KeyCause.NO_LEADER: 500,
    KeyCause.UNKNOWN: 500,
    KeyCause.BUSY: 429,
    KeyCause.NO_ROOM: 507,
    KeyCause.TOO_LARGE: 413,
    KeyCause.FAILED: 500,
    KeyCause.NO_SERVERS: 500,
    KeyCause.DOUBTED: 500,
}
CONSULS_WORDS = {KeyCause.NO_LEADER: "No cluster leader", KeyCause.NO_SERVERS: "No known Consul servers"}

Answered = TypeVar("Answered", StoreAnswer, KeysFound)


class KvEntry(Struct, frozen=True, gc=False):
    """As Consul shows it, in its order."""

    LockIndex: int
    Key: str
    Flags: int
    Value: bytes | None
    Session: str | UnsetType
    CreateIndex: int
    ModifyIndex: int


class _Answer(Generic[Answered]):
    """What the store calls, and whom that wakes."""

    __slots__ = ("_request", "outcome")

    def __init__(self, request: Request) -> None:
        self.outcome: Answered | KeyRefusal | None = None
        self._request = request

    def __call__(self, outcome: Answered | KeyRefusal) -> None:
        self.outcome = outcome
        self._request.wake()


class KvEndpoints(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._value_bytes_max = parts.agent.config.limits.kv_value_bytes_max

    def routes(self) -> list[Route]:
        return [Route(("GET", "PUT", "DELETE"), PATH, self.key, rest=True, begin=self.begin)]

    def begin(self, request: Request, rest: str, answered: TakesAnswer) -> bool:
        """What needs no task of its own: a write, and one key without waiting for it. Their answers go out
        also to a client that has ended its own side."""
        asked = self._asked_of(request, rest)
        if isinstance(asked, KeyWrite):
            self._agent.keys.write(asked, partial(self._answer_write, request, answered))
            return True
        query = request.query
        if asked.shape is not ReadShape.KEY or query.has("index") or query.has("max_stale"):
            return False
        reader = KeyReader(self._agent, asked, partial(self._answer_to, query, asked))
        request.begins_again = reader.begin
        reader.begin(answered)
        return True

    async def key(self, request: Request, rest: str) -> Response:
        asked = self._asked_of(request, rest)
        if isinstance(asked, KeyWrite):
            answer = _Answer[StoreAnswer](request)
            token = self._agent.keys.write(asked, answer)
            written = await self._awaited(request, answer, token, math.inf)
            assert written is not None, "it is awaited without end"
            return self._written(request, written)
        found = await self._found(request, asked)
        if found.behind_ms > behind_ms_max(request.query):
            index = parse_asked(request.query, self._agent).index
            found = await self._now(request, replace(asked, mode=ReadMode.DEFAULT, since=index))
        is_list = asked.shape is not ReadShape.KEY
        is_pretty = self._is_pretty(request.query)
        listed = await _listed(found, asked.shape, is_pretty=is_pretty) if is_list else b""
        return self._shown(request.query, asked, found, listed)

    def _asked_of(self, request: Request, rest: str) -> KeyWrite | KeyRead:
        key = key_of(request, rest)
        if b"?" not in request.target and key:
            if request.method == "GET":
                return KeyRead(ReadShape.KEY, key)
            if request.method == "PUT" and len(request.body) <= self._value_bytes_max:
                return KeyWrite(KeyVerb.PUT, key, request.body)
        query = request.query
        # Of writes as well, as Consul does: how they would wait, and how fresh an answer they would take.
        parse_asked(query, self._agent)
        check_consistency(query)
        parameters.check_datacenter(query, self._agent.config.datacenter)
        parameters.check_namespace(query)
        if request.method == "GET":
            return read_of(query, key)
        if request.method == "PUT":
            return put_of(request, key, self._value_bytes_max)
        return delete_of(query, key)

    def _answer_write(
        self, request: Request, answered: Callable[[Response], None], written: StoreAnswer | KeyRefusal
    ) -> None:
        if isinstance(written, KeyRefusal):
            answered(refusal_text(written))
        else:
            answered(self._written(request, written))

    def _written(self, request: Request, written: StoreAnswer) -> Response:
        answer = TRUE if written.outcome is StoreOutcome.DONE else FALSE
        return json_body(shapes.pretty(answer.body.plain)) if self._is_pretty(request.query) else answer

    def _answer_to(self, query: Query, read: KeyRead, found: KeysFound | KeyRefusal) -> Response:
        return refusal_text(found) if isinstance(found, KeyRefusal) else self._shown(query, read, found)

    def _shown(self, query: Query, read: KeyRead, found: KeysFound, listed: bytes = b"") -> Response:
        """`listed`: the body where it is a list, which is made in turns."""
        meta: HeaderList = (
            ("X-Consul-Index", str(max(found.index, 1))),
            ("X-Consul-Knownleader", "true" if found.has_leader else "false"),
            ("X-Consul-Lastcontact", str(found.behind_ms)),
        )
        if not found.keys and (read.shape is not ReadShape.NAMES or read.key):
            return empty(404, meta)
        if read.shape is not ReadShape.KEY:
            return json_body(listed, meta)
        if query.has("raw"):
            value = found.records[0].value
            return Response(200, value, content_type="text/plain", headers=(*meta, *RAW_HEADERS))
        body = shapes.encode([shown(found.keys[0], found.records[0])])
        return json_body(shapes.pretty(body) if self._is_pretty(query) else body, meta)

    def _is_pretty(self, query: Query) -> bool:
        return self._agent.config.is_dev or query.has("pretty")

    async def _found(self, request: Request, read: KeyRead) -> KeysFound:
        asked = parse_asked(request.query, self._agent)
        now_s = trio.current_time()
        if not asked.index:
            found = await self._asked(request, read, math.inf)
        else:
            read = replace(read, since=asked.index)
            jitter_s = self._parts.random.uniform(0, asked.wait_s / JITTER_FRACTION)
            found = await self._asked(request, read, now_s + asked.wait_s + jitter_s)
            if found is not None and found.is_foreign:
                read = replace(read, since=max(found.index, 1))
                found = await self._asked(request, read, now_s + min(asked.wait_s, FOREIGN_INDEX_HOLD_S))
        return await self._now(request, read) if found is None else found

    async def _now(self, request: Request, read: KeyRead) -> KeysFound:
        found = await self._asked(request, replace(read, waits=False), math.inf)
        assert found is not None, "it is awaited without end"
        return found

    async def _asked(self, request: Request, read: KeyRead, until_s: float) -> KeysFound | None:
        answer = _Answer[KeysFound](request)
        asked = self._agent.keys.read(read, answer)
        return await self._awaited(request, answer, asked, until_s)

    async def _awaited(
        self, request: Request, answer: _Answer[Answered], asked: object, until_s: float
    ) -> Answered | None:
        """None when there is no answer until then."""
        try:
            while answer.outcome is None:
                if not await request.park(until_s):
                    break
        finally:
            if answer.outcome is None:
                self._agent.keys.give_up(asked)
        if isinstance(answer.outcome, KeyRefusal):
            raise refused(answer.outcome)
        return answer.outcome


def refusal_text(refusal: KeyRefusal) -> Response:
    why = refused(refusal)
    return text(why.status, why.sentence, why.headers)


def refused(refusal: KeyRefusal) -> HttpRefusal:
    headers: HeaderList = RETRY_SOON if refusal.cause is KeyCause.BUSY else ()
    words = CONSULS_WORDS.get(refusal.cause)
    if words is not None:
        headers = (*headers, ("X-Adsum-Reason", refusal.sentence))
    return HttpRefusal(STATUS_OF[refusal.cause], words or refusal.sentence, headers)


# What is asked.


def key_of(request: Request, rest: str) -> bytes:
    """As it came: what would be cleaned away from another path is part of a key."""
    raw = raw_path(request.target)
    return decoded_once(raw[len(PATH) :]) if raw.startswith(VERBATIM_UNDER) else rest.encode()


def put_of(request: Request, key: bytes, value_bytes_max: int) -> KeyWrite:
    query = request.query
    check_named(key)
    given = [name for name in EXCLUSIVE if query.has(name)]
    if len(given) > 1:
        raise conflicting(query)
    if query.has("acquire") or query.has("release"):
        raise HttpRefusal(500, NO_SESSIONS)
    flags = unsigned(query, "flags") if query.has("flags") else 0
    cas = unsigned(query, "cas") if query.has("cas") else None
    if len(request.body) > value_bytes_max:
        raise HttpRefusal(413, too_large_sentence(len(request.body), value_bytes_max))
    return KeyWrite(KeyVerb.PUT, key, request.body, flags, cas)


def delete_of(query: Query, key: bytes) -> KeyWrite:
    if query.has("recurse"):
        if query.has("cas"):
            raise conflicting(query)
        return KeyWrite(KeyVerb.DELETE_TREE, key)
    check_named(key)
    cas = unsigned(query, "cas") if query.has("cas") else None
    return KeyWrite(KeyVerb.DELETE, key, cas=cas)


def read_of(query: Query, key: bytes) -> KeyRead:
    mode = ReadMode.DEFAULT
    if query.has("consistent"):
        mode = ReadMode.CONSISTENT
    elif query.has("stale") or behind_ms_max(query) < math.inf:
        mode = ReadMode.STALE
    if query.has("keys"):
        separator = query.first("separator") or query.first("seperator")  # as old clients spell it
        return KeyRead(ReadShape.NAMES, key, separator.encode(), mode)
    if query.has("recurse"):
        return KeyRead(ReadShape.TREE, key, mode=mode)
    check_named(key)
    return KeyRead(ReadShape.KEY, key, mode=mode)


def behind_ms_max(query: Query) -> float:
    """What a stale answer may be late by; past that it is asked for anew, of the leader."""
    ns = parameters.duration_ns(query, "max_stale") or 0
    return ns / MILLISECOND if ns > 0 else math.inf


def check_named(key: bytes) -> None:
    if not key:
        raise HttpRefusal(400, "Missing key name")


def conflicting(query: Query) -> HttpRefusal:
    """In the words of Go's encoder of queries."""
    pairs = sorted(query, key=lambda pair: pair[0])
    encoded = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
    return HttpRefusal(400, f"Conflicting flags: {encoded}")


def unsigned(query: Query, name: str) -> int:
    """In the words of Go's parser."""
    value = query.first(name)
    if DIGITS.fullmatch(value) is None:
        raise HttpRefusal(500, f'strconv.ParseUint: parsing "{value}": invalid syntax')
    if int(value) > UINT64_MAX:
        raise HttpRefusal(500, f'strconv.ParseUint: parsing "{value}": value out of range')
    return int(value)


# What is shown.


def shown_key(key: bytes) -> str:
    """JSON has no other bytes than those of UTF-8."""
    return key.decode(errors="replace")


async def _listed(found: KeysFound, shape: ReadShape, *, is_pretty: bool) -> bytes:
    """In turns; what they made is copied in one go, so that of a large list is done in a thread, where it
    lets others run."""
    pieces: list[bytes] = []
    bytes_total = turn = 0
    while turn < len(found.keys):
        if turn:
            await trio.lowlevel.checkpoint()
        if shape is ReadShape.NAMES:
            several = slice(turn, turn + NAMES_PER_TURN)
            piece = shapes.encode([shown_key(key) for key in found.keys[several]])
        else:
            several = slice(turn, turn + _entries_that_fit(found.records, turn))
            piece = shapes.encode(list(map(shown, found.keys[several], found.records[several])))
        turn = several.stop
        pieces.append(
            shapes.pretty(piece).removeprefix(b"[\n").removesuffix(b"\n]\n") if is_pretty else piece[1:-1]
        )
        bytes_total += len(pieces[-1])
    joined = partial(_pretty_list_of if is_pretty else shapes.list_of, pieces)
    return await trio.to_thread.run_sync(joined) if bytes_total > JOINED_HERE_BYTES_MAX else joined()


def _pretty_list_of(pieces: list[bytes]) -> bytes:
    return b"[\n%b\n]\n" % b",\n".join(pieces) if pieces else b"[]\n"


def _entries_that_fit(records: list[KeyRecord], start: int) -> int:
    """Into one turn, and always one."""
    count = bytes_total = 0
    for record in records[start : start + ENTRIES_PER_TURN]:
        bytes_total += len(record.value)
        if count and bytes_total > VALUE_BYTES_PER_TURN:
            break
        count += 1
    return count


def shown(key: bytes, record: KeyRecord) -> KvEntry:
    return KvEntry(
        record.lock_index,
        shown_key(key),
        record.flags,
        record.value or None,
        record.lease or UNSET,
        record.create,
        record.modify,
    )
