"""One HTTP request, decoded no further than someone asks.

A hot answer is found by `method` and `target` alone, so path, query and headers are decoded on first use.
The headers of a kept connection rarely change from one request to the next: they live in a `Headers` of
their own that the connection hands to the next request too, with everything that was concluded from them.

A blocking query waits in `park`. It costs the connection's task and nothing else: `wake` cancels the wait,
the deadline is the wait's own, and the only thing waited for is the client hanging up.

A request that is taken without a task (`router.Begin`) costs not even that: whoever took it calls `answered`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Protocol
from urllib.parse import unquote_to_bytes

import trio

from adsum.http.response import Response

HeaderPairs = Sequence[tuple[bytes, bytes]]

NO_QUALITY = re.compile(r"q\s*=\s*0(\.0*)?")
HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
# What follows is a key: bytes, of which none is cleaned away and none refused.
VERBATIM_UNDER = b"/v1/kv/"


class ClientGone(Exception):
    """The client hung up while we worked for it: normal, no state changed, nobody is left to answer."""


class BadPath(ValueError):
    """The client's path can't be decoded; the message says why, and is empty where Consul says nothing."""


class Client(Protocol):
    """The other end of the connection, as far as a parked request needs it."""

    async def until_gone(self) -> None:
        """Returns when the client has hung up, or after `wake`."""

    def wake(self) -> None: ...

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        """Sends it, if that request is the one that was taken without a task and is not answered yet."""


class TakesAnswer(Protocol):
    """Takes the answer to a request without a task, from any other task. Only the first one is sent, and none
    if the client is gone."""

    def __call__(self, response: Response, varying: bytes = b"", /) -> None:
        """`varying`: header lines that belong to this sending alone, so that what is kept can do without."""


class Query:
    """Query parameters as Go reads them: presence counts, empty values stay, names repeat, `+` is a space."""

    __slots__ = ("_pairs",)

    def __init__(self, raw: bytes) -> None:
        self._pairs = _parse_pairs(raw) if raw else ()

    def first(self, name: str, default: str = "") -> str:
        for key, value in self._pairs:
            if key == name:
                return value
        return default

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]

    def has(self, name: str) -> bool:
        for key, _ in self._pairs:  # noqa: SIM110 a generator would take twice as long
            if key == name:
                return True
        return False

    def has_only(self, names: Container[str]) -> bool:
        return all(key in names for key, _ in self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)


class Headers:
    """Header fields as they came, and what was concluded from them."""

    __slots__ = ("_first", "_takes_gzip", "accepted_by", "pairs")

    def __init__(self, pairs: HeaderPairs = ()) -> None:
        self.pairs = pairs
        self._first: dict[str, str] | None = None
        self._takes_gzip: bool | None = None
        self.accepted_by: object = None  # the browser rules that found nothing foreign in them

    def first(self, name: str) -> str:
        """The first field of that (lower-case) name, "" when there is none."""
        if self._first is None:
            self._first = {}
            for key, value in self.pairs:
                self._first.setdefault(key.lower().decode("latin-1"), value.strip().decode("latin-1"))
        return self._first.get(name, "")

    def has(self, name: str) -> bool:
        self.first(name)
        return self._first is not None and name in self._first

    def count(self, name: bytes) -> int:
        return sum(key.lower() == name for key, _ in self.pairs)

    @property
    def takes_gzip(self) -> bool:
        if self._takes_gzip is None:
            self._takes_gzip = _accepts_gzip(self.first("accept-encoding"))
        return self._takes_gzip


class Request:
    __slots__ = (
        "_client",
        "_is_parked",
        "_path",
        "_query",
        "_woken",
        "again",
        "begins_again",
        "body",
        "headers",
        "is_on_loopback",
        "keeps_alive",
        "method",
        "on_gone",
        "peer",
        "site_headers",
        "target",
        "version",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        *,
        headers: Headers,
        body: bytes,
        peer: str,
        is_on_loopback: bool,
        client: Client,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.peer = peer  # the client's address, or "unix"
        self.is_on_loopback = is_on_loopback  # came to a listener that is bound to a loopback address
        self.keeps_alive = True
        self.again: Callable[[], Response | None] | None = None  # how to answer the same anew; see `known`
        # Of a GET that is taken without a task: how to begin the same anew, for whoever asks it then.
        self.begins_again: Callable[[TakesAnswer], None] | None = None
        # Of a request without a task: called if its client hangs up first, and then no answer is awaited.
        # Where it is not set the answer is sent all the same: a client may have ended its own side only.
        self.on_gone: Callable[[], None] | None = None
        self.site_headers = b""  # for the answer to a request without a task
        self.version = "1.1"
        self._client = client
        self._is_parked = False
        self._path: str | None = None
        self._query: Query | None = None
        self._woken = False

    @property
    def path(self) -> str:
        """Percent-decoded once, `//` and `..` cleaned unless it is a key's. Raises BadPath."""
        if self._path is None:
            self._path = clean_path(raw_path(self.target))
        return self._path

    @property
    def query(self) -> Query:
        if self._query is None:
            self._query = Query(self.target.partition(b"?")[2].partition(b"#")[0])
        return self._query

    def answered(self, response: Response, varying: bytes = b"", /) -> None:
        """It is a `TakesAnswer`."""
        response.set_site_headers(self.site_headers)
        self._client.answer(self, response, varying)

    async def park(self, deadline: float) -> bool:
        """Wait for `wake` (True) or for the deadline on trio's clock (False). Raises ClientGone."""
        self._query = None  # who waits keeps little, and it is decoded again should anyone ask
        with trio.CancelScope(deadline=deadline) as wait:
            if self._woken:
                await trio.lowlevel.checkpoint()
            else:
                self._is_parked = True
                try:
                    await self._client.until_gone()
                finally:
                    self._is_parked = False
        if not self._woken and not wait.cancelled_caught:
            raise ClientGone
        was_woken, self._woken = self._woken, False
        return was_woken

    def wake(self) -> None:
        """End the wait; one that has not begun yet will return at once. Calling it again changes nothing."""
        self._woken = True
        if self._is_parked:
            self._is_parked = False
            self._client.wake()


def raw_path(target: bytes) -> bytes:
    """The target without query and fragment; of the absolute form that proxies use, only its path."""
    path = target.partition(b"?")[0].partition(b"#")[0]
    if path.startswith(b"/") or path == b"*":
        return path
    scheme, separator, rest = path.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise BadPath("The request target must begin with a slash.")
    return b"/" + rest.partition(b"/")[2]


def clean_path(raw: bytes) -> str:
    """Decode each segment once, then drop empty and dot segments.

    Consul redirects to the cleaned path, which turns a PUT into a GET in many clients; we serve it.
    A slash that came percent-encoded is part of an id and stays, even doubled.
    """
    if raw.startswith(VERBATIM_UNDER):
        return decoded_once(raw).decode(errors="surrogateescape")
    if b"%" not in raw and b"//" not in raw and b"/." not in raw:
        return printable(raw)
    segments: list[bytes] = []
    for segment in raw.split(b"/"):
        decoded = decoded_once(segment)
        if decoded == b"..":
            del segments[-1:]
        elif decoded not in (b"", b"."):
            segments.append(decoded)
    ends_in_slash = raw.endswith(b"/") and bool(segments)
    return printable(b"/" + b"/".join(segments) + (b"/" if ends_in_slash else b""))


def decoded_once(raw: bytes) -> bytes:
    """Decoded once, and nothing else."""
    if not _escapes_are_whole(raw):
        raise BadPath("The path has a percent sign that is not followed by two hexadecimal digits.")
    return unquote_to_bytes(raw)


def printable(path: bytes) -> str:
    try:
        text = path.decode()
    except UnicodeDecodeError:
        raise BadPath("The path is not UTF-8.") from None
    if not text.isprintable():
        raise BadPath("")
    return text


def _escapes_are_whole(text: bytes) -> bool:
    return all(
        len(piece) >= 2 and piece[0] in HEXADECIMAL and piece[1] in HEXADECIMAL
        for piece in text.split(b"%")[1:]
    )


def _parse_pairs(raw: bytes) -> tuple[tuple[str, str], ...]:
    pairs = []
    for piece in raw.split(b"&"):
        if not piece:
            continue
        name, _, value = piece.partition(b"=")
        if b"%" in piece and not _escapes_are_whole(piece):
            continue  # Go drops a parameter that it can't decode, and so serves the request without it
        pairs.append((_decode_parameter(name), _decode_parameter(value)))
    return tuple(pairs)


def _decode_parameter(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    return raw.decode(errors="replace")


def _accepts_gzip(accept_encoding: str) -> bool:
    for choice in accept_encoding.lower().split(","):
        coding, _, quality = choice.partition(";")
        if coding.strip() == "gzip":
            return NO_QUALITY.fullmatch(quality.strip()) is None
    return False
