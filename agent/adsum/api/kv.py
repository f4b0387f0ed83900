"""Keys and locks on them, at /v1/kv: one road for servers and client agents, for what is behind it is a
`KeyStore`.

A lock is a key that a session acquires. Each grant has a fencing token, which only grows: it is told with the
grant and with a key that is held, and whoever writes with `?if-token=` is refused once a higher one was shown
under that key. Why an acquire or release was not done stands in headers of our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from urllib.parse import quote_plus

import trio
from msgspec import UNSET, Struct, UnsetType

from adsum.api import parameters, shapes
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import check_consistency, parse_asked
from adsum.api.key_reader import KeyReader
from adsum.api.store_access import StoreAccess, meta_of, mode_of, refusal_text
from adsum.durations import format_duration
from adsum.http.request import VERBATIM_UNDER, Query, Request, TakesAnswer
from adsum.http.response import FALSE, TRUE, HeaderList, Response, empty, json_body, text, too_large_sentence
from adsum.http.router import HttpRefusal, Route
from adsum.kv import (
    BELOW_FLOOR,
    AnswerExtras,
    KeyRead,
    KeyRecord,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.now import MILLISECOND

PATH = VERBATIM_UNDER.decode()
UINT64_MAX = 2**64 - 1
DIGITS = re.compile(r"[0-9]+")
EXCLUSIVE = ("cas", "acquire", "release")
OF_PUTS = (*EXCLUSIVE, "flags", "if-token")
NAMES_PER_TURN = 16_384  # some 3 ms
ENTRIES_PER_TURN = 1_024  # some 2 ms, if their values are small
VALUE_BYTES_PER_TURN = 2 << 20
JOINED_HERE_BYTES_MAX = 4 << 20  # some 2 ms
# What a browser is to make of a value that somebody put there.
RAW_HEADERS: HeaderList = (("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox"))
HEX = re.compile(r"[0-9a-fA-F-]*")
SESSION_ID_LENGTH = 36
FENCING_TOKEN, REASON = "X-Adsum-Fencing-Token", "X-Adsum-Reason"
FENCED = (
    "the fencing token {} is lower than {}, which was shown under this key already: somebody else held the "
    "lock since, and nothing was written"
)
FENCED_BY_FLOOR = "{}, and nothing was written; a new grant has a higher one"
NOT_WRITTEN = (StoreOutcome.NO_SESSION, StoreOutcome.FENCED, StoreOutcome.REFUSED)
NO_EXTRAS = AnswerExtras()


class KvEntry(Struct, frozen=True, gc=False):
    """As Consul shows it, in its order."""

    LockIndex: int
    Key: str
    Flags: int
    Value: bytes | None
    Session: str | UnsetType
    CreateIndex: int
    ModifyIndex: int
    FencingToken: int | UnsetType = UNSET  # ours, while it is held


class KvEndpoints(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._value_bytes_max = parts.agent.config.limits.kv_value_bytes_max
        self._access = StoreAccess(parts.agent, parts.random)

    def routes(self) -> list[Route]:
        return [Route(("GET", "PUT", "DELETE"), PATH, self.key, rest=True, begin=self.begin)]

    def begin(self, request: Request, rest: str, answered: TakesAnswer) -> bool:
        """What needs no task of its own: a write, and one key without waiting for it. Their answers go out
        also to a client that has ended its own side."""
        asked = self._asked_of(request, rest)
        if isinstance(asked, KeyWrite):
            self._agent.keys.write(asked, partial(self._answer_write, request, asked, answered))
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
            return self._written(request, asked, await self._access.write(request, asked))
        found = await self._access.keys(request, asked)
        is_list = asked.shape is not ReadShape.KEY
        is_pretty = self._is_pretty(request.query)
        listed = await _listed(found, asked.shape, is_pretty=is_pretty) if is_list else b""
        return self._shown(request.query, asked, found, listed)

    def _asked_of(self, request: Request, rest: str) -> KeyWrite | KeyRead:
        key = rest.encode(errors="surrogateescape")  # as it came: of a key nothing is cleaned away
        if b"?" not in request.target and key:
            if request.method == "GET":
                return KeyRead(ReadShape.KEY, key)
            if request.method == "PUT" and len(request.body) <= self._value_bytes_max:
                return KeyWrite(KeyVerb.PUT, key, request.body)
        query = request.query
        if request.method == "PUT" and query.has_only(OF_PUTS):
            return put_of(request, key, self._value_bytes_max)
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
        self,
        request: Request,
        write: KeyWrite,
        answered: Callable[[Response], None],
        written: StoreAnswer | KeyRefusal,
    ) -> None:
        if isinstance(written, KeyRefusal):
            answered(refusal_text(written))
        else:
            answered(self._written(request, write, written))

    def _written(self, request: Request, write: KeyWrite, written: StoreAnswer) -> Response:
        answer = TRUE if written.outcome is StoreOutcome.DONE else FALSE
        if answer is FALSE and written.outcome in NOT_WRITTEN:
            return not_written(write, written)
        is_pretty = self._is_pretty(request.query)
        if written.extras is None:
            return json_body(shapes.pretty(answer.body.plain)) if is_pretty else answer
        body = shapes.pretty(answer.body.plain) if is_pretty else answer.body.plain
        return json_body(body, told_of_lock(written.extras))

    def _answer_to(self, query: Query, read: KeyRead, found: KeysFound | KeyRefusal) -> Response:
        return refusal_text(found) if isinstance(found, KeyRefusal) else self._shown(query, read, found)

    def _shown(self, query: Query, read: KeyRead, found: KeysFound, listed: bytes = b"") -> Response:
        """`listed`: the body where it is a list, which is made in turns."""
        meta = meta_of(found.index, has_leader=found.has_leader, behind_ms=found.behind_ms)
        if not found.keys and (read.shape is not ReadShape.NAMES or read.key):
            return empty(404, meta)
        if read.shape is not ReadShape.KEY:
            return json_body(listed, meta)
        if token := held_under(found.records[0]):
            meta = (*meta, (FENCING_TOKEN, str(token)))
        if query.has("raw"):
            value = found.records[0].value
            return Response(200, value, content_type="text/plain", headers=(*meta, *RAW_HEADERS))
        body = shapes.encode([shown(found.keys[0], found.records[0])])
        return json_body(shapes.pretty(body) if self._is_pretty(query) else body, meta)

    def _is_pretty(self, query: Query) -> bool:
        return self._agent.config.is_dev or query.has("pretty")


# What is asked.


def put_of(request: Request, key: bytes, value_bytes_max: int) -> KeyWrite:
    query = request.query
    check_named(key)
    given = [name for name in EXCLUSIVE if query.has(name)]
    if len(given) > 1:
        raise conflicting(query)
    verb, session = KeyVerb.PUT, ""
    if query.has("acquire"):
        verb, session = KeyVerb.ACQUIRE, session_to_acquire(query.first("acquire"))
    elif query.has("release"):
        verb, session = KeyVerb.RELEASE, query.first("release")
        if not session:
            raise HttpRefusal(500, "missing session")
    flags = unsigned(query, "flags") if query.has("flags") else 0
    cas = unsigned(query, "cas") if query.has("cas") else None
    if len(request.body) > value_bytes_max:
        raise HttpRefusal(413, too_large_sentence(len(request.body), value_bytes_max))
    return KeyWrite(verb, key, request.body, flags, cas, session, token_of(query))


def delete_of(query: Query, key: bytes) -> KeyWrite:
    if query.has("recurse"):
        if query.has("cas") or query.has("if-token"):
            raise conflicting(query)
        return KeyWrite(KeyVerb.DELETE_TREE, key)
    check_named(key)
    cas = unsigned(query, "cas") if query.has("cas") else None
    return KeyWrite(KeyVerb.DELETE, key, cas=cas, if_token=token_of(query))


def session_to_acquire(session_id: str) -> str:
    """A UUID; anything else is refused in Consul's words."""
    if not session_id:
        raise HttpRefusal(500, "missing session")
    if problem := why_no_session_id(session_id):
        raise HttpRefusal(500, problem)
    return session_id


def why_no_session_id(text: str) -> str:
    """In Consul's words; empty if it is one."""
    if len(text) != SESSION_ID_LENGTH:
        return "failed session lookup: index error: UUID must be 36 characters"
    end = HEX.match(text)
    assert end is not None, "it may be empty"
    if end.end() < len(text):
        found = text[end.end()]
        return (
            "failed session lookup: index error: Invalid UUID: encoding/hex: invalid byte: "
            f"U+{ord(found):04X} '{found}'"
        )
    return ""


def token_of(query: Query) -> int | None:
    return unsigned(query, "if-token") if query.has("if-token") else None


def read_of(query: Query, key: bytes) -> KeyRead:
    mode = mode_of(query)
    if query.has("keys"):
        separator = query.first("separator") or query.first("seperator")  # as old clients spell it
        return KeyRead(ReadShape.NAMES, key, separator.encode(), mode)
    if query.has("recurse"):
        return KeyRead(ReadShape.TREE, key, mode=mode)
    check_named(key)
    return KeyRead(ReadShape.KEY, key, mode=mode)


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
    digits = value.lstrip("0") or "0"  # Python reads no number of thousands of them
    if len(digits) > len(str(UINT64_MAX)) or int(digits) > UINT64_MAX:
        raise HttpRefusal(500, f'strconv.ParseUint: parsing "{value}": value out of range')
    return int(digits)


# What is shown.


def not_written(write: KeyWrite, written: StoreAnswer) -> Response:
    extras = written.extras or NO_EXTRAS
    match written.outcome:
        case StoreOutcome.NO_SESSION:
            return text(500, f'invalid session "{write.session}"')
        case StoreOutcome.FENCED if extras.sentence == BELOW_FLOOR.format(extras.token):
            return text(409, FENCED_BY_FLOOR.format(extras.sentence))
        case StoreOutcome.FENCED:
            return text(409, FENCED.format(write.if_token, extras.token))
        case _:
            return text(500, extras.sentence)


def told_of_lock(extras: AnswerExtras) -> HeaderList:
    if extras.token:
        return ((FENCING_TOKEN, str(extras.token)),)
    if extras.delay_ms:
        left = format_duration(extras.delay_ms * MILLISECOND)
        sentence = f"its last holder's session has ended, and a lock-delay runs for another {left}"
        return ((REASON, sentence), ("X-Adsum-Lock-Delay-Remaining", left))
    if extras.holder:
        return ((REASON, f"session {extras.holder} holds it"), ("X-Adsum-Holder", extras.holder))
    return ((REASON, extras.sentence),) if extras.sentence else ()


def held_under(record: KeyRecord) -> int:
    """The fencing token of whoever holds it; 0 if nobody does."""
    return record.extras.token if record.lease is not None and record.extras is not None else 0


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
        UNSET if record.lease is None else held_under(record) or UNSET,
    )
