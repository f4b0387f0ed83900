"""What goes back to the client, encoded once however often it is sent.

A rendering of the catalog is shared by everyone who waits for it, so a `Response` may be sent many times:
its head is built on the first sending and kept, and a `Body` compresses itself at most once. Heads are
joined from parts that were encoded when the process started; only Date and Connection are added per
sending, by the connection.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from http import HTTPStatus

import trio

HeaderList = tuple[tuple[str, str], ...]

# A body that fits in the packet its head travels in gains nothing from compression.
GZIP_BYTES_MIN = 1024
# Level 1 takes a third of the default level's time for JSON and ends within a tenth of its size.
GZIP_LEVEL = 1
# Above this, compressing would hold the event loop for more than a few milliseconds; a thread does it then.
GZIP_INLINE_BYTES_MAX = 256 * 1024
GZIP_WINDOW_BITS = 31  # zlib's largest window, plus 16 for the gzip wrapping

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
VARY = b"Vary: Accept-Encoding\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
GZIPPED = b"Content-Encoding: gzip\r\n"


class Body:
    """Bytes that many clients receive, some of them compressed."""

    __slots__ = ("_compressed", "_gzipped", "plain")

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._gzipped: bytes | None = None
        self._compressed: trio.Event | None = None  # while a thread is at it

    def gzipped(self) -> bytes:
        if self._gzipped is None:
            self._gzipped = compress(self.plain)
        return self._gzipped

    async def gzip_elsewhere(self) -> None:
        """Compress in a thread, once however many ask; `gzipped` is then free."""
        while self._gzipped is None:
            if self._compressed is not None:
                await self._compressed.wait()
                continue
            self._compressed = trio.Event()
            try:
                self._gzipped = await trio.to_thread.run_sync(compress, self.plain)
            finally:
                self._compressed.set()
                self._compressed = None


class Response:
    __slots__ = ("_heads", "_small", "body", "chunks", "content_type", "headers", "site_headers", "status")

    def __init__(
        self,
        status: int = 200,
        body: Body | bytes = b"",
        *,
        content_type: str = "",
        headers: HeaderList = (),
        chunks: AsyncGenerator[bytes, None] | None = None,
    ) -> None:
        self.status = status
        self.body = body if isinstance(body, Body) else Body(body)
        self.content_type = content_type
        self.headers = headers
        self.chunks = chunks  # streamed after the head, each chunk flushed; `body` is then not sent
        self.site_headers = b""  # what the operator's configuration adds to every answer, already encoded
        self._heads: dict[bool, bytes] = {}
        self._small: bytes | None = None

    def set_site_headers(self, encoded: bytes) -> None:
        if self.site_headers != encoded:
            self.site_headers = encoded
            self._heads.clear()
            self._small = None

    def small(self) -> bytes:
        """All but the status line and what belongs to one sending, in one piece; empty if it is so large that
        it may be compressed. Where thousands are kept, each object looked at costs a trip to memory."""
        if self._small is None:
            is_small = len(self.body.plain) < GZIP_BYTES_MIN
            self._small = b"\r\n".join((self._fields(gzip=False), self.body.plain)) if is_small else b""
        return self._small

    def head(self, *, gzip: bool) -> bytes:
        """Everything from the status line on except Date, Connection and the empty line."""
        if gzip not in self._heads:
            self._heads[gzip] = STATUS_LINES[self.status] + self._fields(gzip=gzip)
        return self._heads[gzip]

    def _fields(self, *, gzip: bool) -> bytes:
        parts = list[bytes]()
        if self.content_type:
            parts.append(encode_headers((("Content-Type", self.content_type),)))
        if self.chunks is None:
            length = len(self.body.gzipped() if gzip else self.body.plain)
            parts.append(b"Content-Length: %d\r\n" % length)
        if gzip:
            parts.append(GZIPPED)
        parts += (VARY, encode_headers(self.headers), self.site_headers)
        return b"".join(parts)


class HeaderInjection(ValueError):
    """Our bug, or a configuration's: a header with a line break in it would begin a header of its own."""


def encode_headers(headers: HeaderList) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    if lines.count("\n") != len(headers) or lines.count("\r") != len(headers) or "\0" in lines:
        raise HeaderInjection(f"A response header contains a line break: {headers!r}")
    return lines.encode()


def compress(plain: bytes) -> bytes:
    return zlib.compress(plain, GZIP_LEVEL, GZIP_WINDOW_BITS)


def text(status: int, sentence: str, headers: HeaderList = ()) -> Response:
    return Response(status, sentence.encode(), content_type="text/plain; charset=utf-8", headers=headers)


def json_body(body: Body | bytes, headers: HeaderList = (), status: int = 200) -> Response:
    return Response(status, body, content_type="application/json", headers=headers)


def empty(status: int, headers: HeaderList = ()) -> Response:
    """Those without headers are made once for each status."""
    if headers:
        return Response(status, headers=headers)
    response = EMPTY.get(status)
    if response is None:
        response = EMPTY[status] = Response(status)
    return response


# Shared, with their heads, by all requests that are answered so.
EMPTY: dict[int, Response] = {}
TRUE = json_body(b"true")
FALSE = json_body(b"false")


def too_large_sentence(size: int, size_max: int) -> str:
    """Vault and Terraform look for ` too large`."""
    return f"Request body({size} bytes) too large, max size: {size_max} bytes."
