"""Reading an HTTP response that nobody vouches for: h11 for the grammar, and a limit on everything.

A status line that was read stands: whatever is wrong with the body after it only ends the output.
"""

from __future__ import annotations

import re
import zlib

import h11
import trio

from adsum.health_checks.attempt import CheckFailed
from adsum.health_checks.dial import Stream
from adsum.health_checks.output import Tail
from adsum.mutable import dataclass

HEAD_BYTES_MAX = 64 * 1024  # interim responses included; Go takes 10 MiB
BODY_BYTES_MAX = 1024 * 1024  # decoded, so that a small bomb can't be a large one
BODY_PIECES_MAX = 4096  # a chunk of one byte costs as much as one of 4 KiB: 20 ms for all of them
REASON_CHARACTERS_MAX = 200  # of a status line or a protocol error: the target's own words

BROKEN = "net/http: HTTP/1.x transport connection broken"
BYTES_IN_TEXT = re.compile(r"bytearray\(b(['\"])(.*)\1\)")  # how h11 quotes what it was sent


@dataclass(slots=True)
class CheckResponse:
    code: int
    status_line: str
    location: str
    body: CheckBody

    @property
    def is_redirect(self) -> bool:
        if self.code in (301, 302, 303):
            return True
        return self.code in (307, 308) and self.location != ""


class ResponseReader:
    def __init__(self, stream: Stream, protocol: h11.Connection, body: CheckBody) -> None:
        self._stream = stream
        self._protocol = protocol
        self._body = body
        self._received_bytes = 0

    async def read_head(self) -> CheckResponse:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                reason = BYTES_IN_TEXT.sub(r'"\2"', str(error)[:REASON_CHARACTERS_MAX])
                raise CheckFailed(f"{BROKEN}: malformed HTTP response: {reason}") from error
            if isinstance(event, h11.Response):
                return self._head(event)
            if event is h11.NEED_DATA:
                await self._receive_head()

    async def read_body(self) -> None:
        """Until its end, its limit, or its breaking off: the status is known and stands."""
        while True:
            try:
                event = self._protocol.next_event()
                if event is h11.NEED_DATA:
                    self._protocol.receive_data(bytes(await self._stream.receive_some()))
                    continue
            except (h11.RemoteProtocolError, CheckFailed, trio.BrokenResourceError):
                return
            if not isinstance(event, h11.Data) or not self._body.append(bytes(event.data)):
                return

    async def _receive_head(self) -> None:
        try:
            data = await self._stream.receive_some()
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise CheckFailed(f"{BROKEN}: unexpected EOF" if self._received_bytes else "EOF")
        self._received_bytes += len(data)
        if self._received_bytes > HEAD_BYTES_MAX:
            raise CheckFailed(
                f"{BROKEN}: net/http: server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"
            )
        self._protocol.receive_data(bytes(data))

    def _head(self, event: h11.Response) -> CheckResponse:
        location = ""
        for name, value in event.headers:
            if name == b"location":
                location = location or value.decode("latin-1")
            elif name == b"content-encoding" and value.lower() == b"gzip":
                self._body.expect_gzip()
        reason = event.reason[:REASON_CHARACTERS_MAX].decode("latin-1")
        status_line = f"{event.status_code} {reason}".rstrip()
        return CheckResponse(event.status_code, status_line, location, self._body)


class CheckBody:
    """What is kept of a body, decoded if we asked for compression and got it."""

    def __init__(self, tail: Tail, *, decodes: bool) -> None:
        self.tail = tail
        self.is_cut = False
        self.may_decode = decodes
        self._inflater: zlib._Decompress | None = None
        self._raw_bytes = 0
        self._pieces = 0

    def expect_gzip(self) -> None:
        if self.may_decode:
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: with gzip's header

    def append(self, data: bytes) -> bool:
        """Whether more is wanted: not after the limit, nor after garbage."""
        self._raw_bytes += len(data)
        self._pieces += 1
        if self._inflater is None:
            self.tail.append(data)
        elif not self._inflate(self._inflater, data):
            return False
        bytes_seen = max(self._raw_bytes, self.tail.total_bytes)
        self.is_cut = bytes_seen >= BODY_BYTES_MAX or self._pieces >= BODY_PIECES_MAX
        return not self.is_cut

    def _inflate(self, inflater: zlib._Decompress, data: bytes) -> bool:
        room = BODY_BYTES_MAX - self.tail.total_bytes  # never 0, which would mean no limit
        try:
            self.tail.append(inflater.decompress(data, room))
        except zlib.error:
            return False
        return not inflater.eof
