"""Requests from bytes: llhttp (by httptools) splits them, and what it doesn't bound or decide is done here.

The parser does no I/O, so any bytes can be thrown at it. It takes what a connection received, and holds the
complete requests in order, or the refusal after which nothing more is read: once framing is in doubt the
rest of a connection may be anything, which is how requests are smuggled. llhttp is strict by default (bare
line feeds, folded headers, two lengths, length with chunks are errors).

Three things it leaves to us. Sizes: it collects a header of any length, so bytes are counted before it sees
them. An `Upgrade` that we don't follow: it takes the body for another protocol, so the request is put to a
fresh parser without it. And hosts: it doesn't ask for one.

A request whose head came before, byte for byte, is read without llhttp (`head_cache`).
"""

from __future__ import annotations

from enum import Enum, auto

import httptools

from adsum.http.head_cache import KnownHeads, are_plain, cut
from adsum.http.limits import METHODS, HttpCounters, HttpLimits
from adsum.http.request import Client, Headers, Request
from adsum.http.response import Response, text, too_large_sentence

METHOD_NAMES = {name.encode(): name for name in METHODS}
HEADER_FRAME_BYTES = 4  # the colon, a space and the line end
# Chunks of one byte cost five more for their frame. A client is not meant to pay more than this for a byte.
CHUNK_FRAMING_PER_BYTE_MAX = 8


class Phase(Enum):
    IDLE = auto()  # between requests
    HEAD = auto()
    BODY = auto()


class RequestRefused(Exception):
    """Leaves llhttp from inside a callback; `refusal` says why."""


class RequestParser:
    __slots__ = (
        "_body",
        "_client",
        "_counters",
        "_fed_bytes",
        "_head_bytes",
        "_headers",
        "_heads",
        "_is_on_loopback",
        "_is_plain",
        "_is_resting",
        "_is_upgrading",
        "_limits",
        "_method",
        "_pairs",
        "_parser",
        "_peer",
        "_target",
        "_version",
        "_wants_continue",
        "expects_continue",
        "held_bytes",
        "is_finished",
        "messages_begun",
        "phase",
        "refusal",
        "requests",
    )

    def __init__(
        self,
        limits: HttpLimits,
        counters: HttpCounters,
        *,
        peer: str,
        is_on_loopback: bool,
        client: Client,
        heads: KnownHeads,
    ) -> None:
        self._limits = limits
        self._counters = counters
        self._heads = heads
        self._peer = peer
        self._is_on_loopback = is_on_loopback
        self._client = client
        self._parser: httptools.HttpRequestParser  # only while there is something to parse
        self._is_resting = True
        self._headers = Headers()
        self._version = "1.1"
        self._is_plain = True  # the fields of the last request decided nothing but its length
        self._wants_continue = False
        self.requests: list[Request] = []  # complete, in the order they came
        self.refusal: Response | None = None  # to be sent after the requests; nothing is read any more
        self.is_finished = False  # the client said that its last request was the last
        self.expects_continue = False  # the client waits for our word before it sends the body
        self.held_bytes = 0  # bodies here, complete or not
        self.messages_begun = 0
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self.on_message_begin()
        self.phase = Phase.IDLE

    @property
    def body_bytes(self) -> int:
        """Of the request that is being received."""
        return len(self._body)

    def recognize(self, data: bytes) -> bool:
        """Whether this is one request, whole and alone, with a known head; then it is among `requests`."""
        if not self._is_plain or self.phase is not Phase.IDLE or self.is_finished:
            return False
        found = cut(data)
        if found is None:
            return False
        method, target, head, body = found
        known = self._heads.get(head)
        if known is None or len(body) != known.body_bytes or len(target) > self._limits.target_bytes_max:
            return False
        if body:
            if self._counters.bodies_held_bytes + len(body) > self._limits.bodies_held_bytes_max:
                return False
            self._hold(len(body))
        self.requests.append(
            Request(
                method,
                target,
                headers=known.headers,
                body=body,
                peer=self._peer,
                is_on_loopback=self._is_on_loopback,
                client=self._client,
            )
        )
        return True

    def feed(self, data: bytes) -> None:
        """To llhttp."""
        rest, begun, is_first = data, self.messages_begun, self.phase is Phase.IDLE
        while rest and self.refusal is None and not self.is_finished:
            rest = self._feed_once(rest)
        is_alone = is_first and self.phase is Phase.IDLE and self.messages_begun == begun + 1
        if is_alone and self._is_plain and self.refusal is None:
            self._heads.learn(data, self.requests[-1])

    def release(self, request: Request) -> None:
        """The request has been answered; its body no longer counts."""
        self._hold(-len(request.body))

    def close(self) -> None:
        """What points back at us, or at who reads for us, is let go of, so that nobody has to look for it."""
        self._hold(-self.held_bytes)
        self._drop_parser()
        self.requests.clear()
        del self._client

    def rest(self) -> None:
        """A connection that is parked between two requests needs no parser: a tenth of what it holds."""
        if self.phase is Phase.IDLE:
            self._drop_parser()

    def _drop_parser(self) -> None:
        if not self._is_resting:
            self._is_resting = True
            del self._parser

    # What llhttp calls, in this order. Requests of one connection look alike, so this is kept short.

    def on_message_begin(self) -> None:
        self.phase = Phase.HEAD
        self.messages_begun += 1
        self.expects_continue = False
        self._is_upgrading = False
        self._method = b""
        self._target = b""
        self._pairs = []
        self._head_bytes = 0
        self._fed_bytes = 0
        self._body = bytearray()

    def on_url(self, piece: bytes) -> None:
        self._target += piece
        size_max = self._limits.target_bytes_max
        if len(self._target) > size_max:
            raise self._refused(
                414, f"Request target too large, max size: {size_max} bytes.", "target_too_large"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + HEADER_FRAME_BYTES
        if self._head_bytes > self._limits.header_bytes_max:
            raise self._header_refused()
        if self.phase is Phase.HEAD:  # a trailer has no say after the body
            self._pairs.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._method = parser.get_method()
        version = parser.get_http_version()
        if parser.should_upgrade():
            self._is_upgrading = True
            return
        if version != self._version or self._pairs != self._headers.pairs:
            self._headers = Headers(self._pairs)
            self._version = version
            self._is_plain = version == "1.1" and are_plain(self._headers)
            self._examine()
        self.expects_continue = self._wants_continue
        self.phase = Phase.BODY
        self._fed_bytes = 0

    def on_body(self, piece: bytes) -> None:
        size = len(self._body) + len(piece)
        if size > self._limits.body_bytes_max:
            raise self._body_refused(size)
        if self._counters.bodies_held_bytes + len(piece) > self._limits.bodies_held_bytes_max:
            raise self._refused(
                503, "This agent holds too many request bodies already; try again soon.", "bodies_held"
            )
        self.expects_continue = False
        self._hold(len(piece))
        self._body += piece

    def on_message_complete(self) -> None:
        if self._is_upgrading:
            return
        request = Request(
            METHOD_NAMES.get(self._method) or self._method.decode(),
            self._target,
            headers=self._headers,
            body=bytes(self._body) if self._body else b"",
            peer=self._peer,
            is_on_loopback=self._is_on_loopback,
            client=self._client,
        )
        request.version = self._version
        request.keeps_alive = self._parser.should_keep_alive()
        self.is_finished = not request.keeps_alive
        self.requests.append(request)
        self.phase = Phase.IDLE
        self._pairs = []
        if self._body:
            self._body = bytearray()

    # Below: straight-line helpers.

    def _feed_once(self, data: bytes) -> bytes:
        """What is left to be fed: nothing, unless a request wanted an upgrade."""
        begun = self.messages_begun
        if self._is_resting:
            self._is_resting = False
            self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError:
            if self.refusal is None:
                raise
        except httptools.HttpParserError as error:
            if not self.is_finished:  # else what came before is answered, and the rest is not ours
                self._counters.parse_errors += 1
                self.refusal = text(400, f"Bad request: {error}.")
        if self.phase is not Phase.IDLE and self.messages_begun == begun:
            self._count_unseen(len(data))
        return b""

    def _count_unseen(self, fed_bytes: int) -> None:
        """llhttp keeps an unfinished header, chunk extension or trailer to itself, so count what goes in."""
        self._fed_bytes += fed_bytes
        allowed_bytes = self._limits.header_bytes_max
        if self.phase is Phase.BODY:
            allowed_bytes += len(self._body) * (1 + CHUNK_FRAMING_PER_BYTE_MAX)
        if self._fed_bytes > allowed_bytes and self.refusal is None:
            self._header_refused()

    def _without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        self._parser = httptools.HttpRequestParser(self)
        if self._method == b"CONNECT":
            self.refusal = text(405, "method CONNECT not allowed")
            return b""
        lines = [b"%b %b HTTP/%b" % (self._method, self._target, version)]
        for name, value in self._pairs:
            if name.lower() == b"connection":
                value = b"close" if b"close" in value.lower() else b"keep-alive"
            if name.lower() != b"upgrade":
                lines.append(name + b": " + value)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _examine(self) -> None:
        """Once for each new set of headers: what llhttp accepts, and RFC 9112 or we don't."""
        headers = self._headers
        if self._version not in ("1.1", "1.0"):
            raise self._refused(505, "This server speaks HTTP/1.1 and HTTP/1.0.", "version")
        hosts = headers.count(b"host")
        if hosts > 1 or (hosts == 0 and self._version == "1.1"):
            raise self._refused(400, "Bad request: exactly one Host header is needed.", "host")
        coding = headers.first("transfer-encoding")
        if coding and coding.lower() != "chunked":
            raise self._refused(501, "Transfer-Encoding can only be chunked here.", "coding")
        if coding and self._version == "1.0":
            raise self._refused(400, "Bad request: HTTP/1.0 has no Transfer-Encoding.", "coding")
        length = int(headers.first("content-length") or "0")
        if length > self._limits.body_bytes_max:
            raise self._body_refused(length)
        self._wants_continue = self._version == "1.1" and headers.first("expect").lower() == "100-continue"

    def _hold(self, body_bytes: int) -> None:
        self.held_bytes += body_bytes
        self._counters.bodies_held_bytes += body_bytes

    def _header_refused(self) -> RequestRefused:
        sentence = f"Request header too large, max size: {self._limits.header_bytes_max} bytes."
        return self._refused(431, sentence, "header_too_large")

    def _body_refused(self, size: int) -> RequestRefused:
        sentence = too_large_sentence(size, self._limits.body_bytes_max)
        return self._refused(413, sentence, "body_too_large")

    def _refused(self, status: int, sentence: str, cause: str) -> RequestRefused:
        self._counters.rejected[cause] += 1
        self.refusal = text(status, sentence)
        return RequestRefused()
