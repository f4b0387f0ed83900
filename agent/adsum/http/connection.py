"""One connection, one task: read, answer in order, read again.

Between requests it waits among the other idle ones (`idlers`), where known requests (`known`) are answered
without waking its task, and those that a route begins without one (`router.Begin`): it sleeps on while such a
request is under way, and is woken only for what does not go out at once.

Nothing is set up per request: no nursery, no timer, no cancel scope. A connection writes down until when it
is willing to wait (`deadline`) and for what; the server looks over all connections once a second and shuts
down the sockets of those that are late, which ends whatever their task was waiting for. A reply is sent at
once and only waits for the socket when the socket's buffer is full.

While a request is parked nobody else reads the socket, so `until_gone` does: what a pipelining client sends
meanwhile is kept, up to a bound, so that the hang-up behind it is still seen.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeAlias

import trio

from adsum.http.head_cache import KnownHeads
from adsum.http.idlers import Idlers
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.parser import Phase, RequestParser
from adsum.http.request import ClientGone, Request
from adsum.http.request_cache import KnownBeginning, KnownRequest, KnownRequests
from adsum.http.response import (
    CHUNKED,
    GZIP_BYTES_MIN,
    GZIP_INLINE_BYTES_MAX,
    STATUS_LINES,
    Response,
)
from adsum.logs.complaints import Complaints
from adsum.named import NamedTuple

if TYPE_CHECKING:
    from adsum.http.tls import TlsSocket

    Wire: TypeAlias = socket.socket | TlsSocket  # one may cipher

RECEIVE_BYTES = 16 * 1024
# Further than this a parked client's next requests are not read; then its hang-up shows at the deadline only.
AHEAD_BYTES_MAX = 16 * 1024
# Up to this size, copying the body behind its head is cheaper than a second system call.
JOINED_BYTES_MAX = 64 * 1024
# Pipelined ones, before others get a turn: a look at the clock costs less than the cheapest answer.
TURN_S_MAX = 0.002
LINGER_S = 2.0
LINGER_BYTES_MAX = 4 * 1024 * 1024

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
CLOSE = b"Connection: close\r\n"
LAST_CHUNK = b"0\r\n\r\n"
# Of the Date header, in English whatever the locale.
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

logger = logging.getLogger("agent.http")


class Known(NamedTuple):
    """What came before to listeners of one kind."""

    requests: KnownRequests
    heads: KnownHeads


class ConnectionParts(NamedTuple):
    """What all connections of a server share."""

    app: Callable[[Request], Awaitable[Response]]
    begin: Callable[[Request], bool] | None
    limits: HttpLimits
    counters: HttpCounters
    complaints: Complaints
    idlers: Idlers
    on_loopback: Known
    elsewhere: Known


class Connection:
    __slots__ = (
        "_ahead",
        "_app",
        "_begin",
        "_begun",
        "_begun_at",
        "_complaints",
        "_counters",
        "_idlers",
        "_is_deaf",
        "_known",
        "_limits",
        "_owed",
        "_parser",
        "_socket",
        "_taken",
        "_tally",
        "_unsent",
        "deadline",
        "peer",
        "waits_for",
    )

    def __init__(self, sock: Wire, parts: ConnectionParts, *, peer: str, is_on_loopback: bool) -> None:
        self._socket = sock
        self._app = parts.app
        self._begin = parts.begin
        self._limits = parts.limits
        self._counters = parts.counters
        self._complaints = parts.complaints
        known = parts.on_loopback if is_on_loopback else parts.elsewhere
        self._known = known.requests
        self._parser = RequestParser(
            parts.limits,
            parts.counters,
            peer=peer,
            is_on_loopback=is_on_loopback,
            client=self,
            heads=known.heads,
        )
        self._idlers = parts.idlers
        self._ahead = b""
        self._unsent = b""  # of an answer that was sent without the task
        self._is_deaf = False  # until what was taken is answered
        self._taken: Request | KnownBeginning | None = None  # without the task, and not answered yet
        self._tally = parts.counters.requests["other"]  # where its answer is counted
        # An answer that only the task can send, and what varies of it.
        self._owed: tuple[Request, Response, bytes] | None = None
        self._begun = self._parser.messages_begun
        self._begun_at = trio.current_time()
        self.peer = peer
        self.deadline = math.inf  # on trio's clock
        self.waits_for = "idle_timeout"  # the name it is counted under when the deadline passes

    async def run(self) -> None:
        try:
            await self._converse()
        except (ClientGone, OSError):
            self._counters.clients_gone += 1
        except Exception:  # a bug that one connection met must not end the others
            self._counters.handler_errors += 1
            logger.exception("A connection from %s ended by a bug", self.peer)
        finally:
            self._parser.close()
            self._idlers.deafen(self._socket.fileno())
            self._socket.close()
            self._say_gone()

    def _say_gone(self) -> None:
        """To who took the request of this connection, if somebody did and wants to hear of it."""
        taken, self._taken = self._taken, None
        if taken is None or taken.on_gone is None:
            return
        try:
            taken.on_gone()
        except Exception:
            self._counters.handler_errors += 1
            logger.exception("Could not give up the request of %s that was gone", self.peer)

    def cut_off(self) -> None:
        """Ends whatever the task waits for."""
        self._counters.rejected[self.waits_for] += 1
        self.deadline = math.inf
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    async def until_gone(self) -> None:
        self._counters.parked += 1
        self._parser.rest()
        try:
            await self._idlers.wait(self._socket.fileno(), self._hear_ahead)
        finally:
            self._counters.parked -= 1

    def wake(self) -> None:
        self._idlers.wake(self._socket.fileno())

    def _hear_ahead(self) -> bytes | None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self._keep_ahead(data)
        return None if data else b""

    def _keep_ahead(self, data: bytes) -> None:
        self._ahead += data
        if len(self._ahead) >= AHEAD_BYTES_MAX:
            self._idlers.deafen(self._socket.fileno())

    async def _converse(self) -> None:
        parser = self._parser
        while data := await self._receive():
            is_first = parser.phase is Phase.IDLE
            if not parser.requests:
                parser.feed(data)
            if parser.requests:
                is_alone = is_first and parser.phase is Phase.IDLE and len(parser.requests) == 1
                await self._answer_all(data if is_alone else b"")
            if parser.refusal is not None:
                await self._refuse(parser.refusal)
                return
            if parser.is_finished:
                return
            if parser.phase is not Phase.IDLE:
                await self._expect_more()

    async def _receive(self) -> bytes:
        if self._parser.phase is Phase.IDLE:
            return await self._idle()
        if self._ahead:
            return self._take_ahead()
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                continue
            self.deadline = math.inf
            self._counters.received_bytes += len(data)
            return data

    def _take_ahead(self) -> bytes:
        data, self._ahead = self._ahead, b""
        return data

    async def _idle(self) -> bytes:
        while not self._ahead:
            self.waits_for = "idle_timeout"
            self.deadline = trio.current_time() + self._limits.idle_timeout_s
            data = await self._idlers.wait(self._socket.fileno(), self._hear)
            self.deadline = math.inf
            if self._unsent:
                await self._send_rest(self._unsent, 0)
                self._unsent = b""
            elif self._owed is not None:
                (request, response, varying), self._owed = self._owed, None
                await self._reply(request, response, varying)
            elif not self._ahead:
                return data
        return self._take_ahead()

    def _hear(self) -> bytes | None:
        """The next request, unless it is answered without the task."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None
        self._counters.received_bytes += len(data)
        if self._taken is not None:
            self._hear_early(data, self._taken)
            return None
        known = self._known.get(data)
        if type(known) is KnownBeginning:
            self._taken = known
            self.deadline = math.inf
            known.begin(self._answer_known)
            return None
        response = known.again() if known is not None else None
        if known is None or response is None or len(response.body.plain) > JOINED_BYTES_MAX:
            if self._parser.recognize(data) and self._begin is not None:
                return None if self._is_taken(data, self._begin) else data
            return data
        self._note_unparsed(response, known.site_headers)
        self._send_at_once(joined(response, known.fate, takes_gzip=known.takes_gzip))
        return None

    def _hear_early(self, data: bytes, taken: Request | KnownBeginning) -> None:
        """While the answer is under way."""
        if data:
            self._keep_ahead(data)
        elif taken.on_gone is not None:
            raise ClientGone
        else:  # it may wait for its answer all the same
            self._is_deaf = True
            self._idlers.deafen(self._socket.fileno())

    def _is_taken(self, data: bytes, begin: Callable[[Request], bool]) -> bool:
        request = self._parser.requests.pop()
        self._taken = request
        self._tally = self._counters.requests[request.method]
        self.deadline = math.inf
        if begin(request) or self._taken is None:
            if request.begins_again is not None:
                takes_gzip = request.headers.takes_gzip
                self._known.keep(data, KnownBeginning(request.begins_again, takes_gzip, request.site_headers))
            return True
        self._taken = None
        self._parser.requests.append(request)
        return False

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        if self._taken is not request:
            return
        self._taken = None
        self._parser.release(request)
        self._tally[response.status // 100] += 1
        if (
            request.method == "HEAD"
            or response.chunks is not None
            or len(response.body.plain) > JOINED_BYTES_MAX
        ):
            self._owed = request, response, varying
            self.wake()
            return
        self._send_soon(response, varying, takes_gzip=request.headers.takes_gzip)

    def _answer_known(self, response: Response, varying: bytes = b"", /) -> None:
        """It is a `TakesAnswer`, for a request that was not parsed. One that has become large goes out as it
        is, for there is nobody to compress it elsewhere."""
        known, self._taken = self._taken, None
        if type(known) is KnownBeginning:  # else its client is gone
            takes_gzip = known.takes_gzip and len(response.body.plain) <= JOINED_BYTES_MAX
            self._note_unparsed(response, known.site_headers)
            self._send_soon(response, varying, takes_gzip=takes_gzip)

    def _note_unparsed(self, response: Response, site_headers: bytes) -> None:
        self._counters.unparsed += 1
        self._counters.requests["GET"][response.status // 100] += 1
        response.set_site_headers(site_headers)

    def _send_soon(self, response: Response, fate: bytes, *, takes_gzip: bool) -> None:
        """Without the task."""
        try:
            payload = joined(response, fate, takes_gzip=takes_gzip)
        except Exception as error:  # it is this connection's, and not of whoever answers
            self._idlers.wake(self._socket.fileno(), error)
        else:
            self._idlers.send_soon(self._send_at_once, payload)

    def _send_at_once(self, payload: bytes) -> None:
        """What does not go out is left to the task."""
        try:
            sent = self._socket.send(payload)
        except BlockingIOError:
            sent = 0
        except Exception as error:
            self._idlers.wake(self._socket.fileno(), error)
            return
        self._counters.sent_bytes += len(payload)
        self.deadline = trio.current_time() + self._limits.idle_timeout_s
        if sent < len(payload):
            self._unsent = payload[sent:]
            self.wake()
        elif self._ahead:
            self.wake()
        elif self._is_deaf:
            self._is_deaf = False
            self._idlers.listen(self._socket.fileno())

    async def _expect_more(self) -> None:
        """A request has begun: the rest of it is due."""
        parser = self._parser
        now = trio.current_time()
        if self._begun != parser.messages_begun:
            self._begun, self._begun_at = parser.messages_begun, now
        if parser.expects_continue:
            parser.expects_continue = False
            await self._send(CONTINUE)
        if parser.phase is Phase.HEAD:
            self.waits_for = "header_timeout"
            self.deadline = self._begun_at + self._limits.header_timeout_s
        else:
            self.waits_for = "body_timeout"
            self.deadline = self._progress_deadline(self._begun_at, now, parser.body_bytes)

    def _progress_deadline(self, begun_at: float, now: float, done_bytes: int) -> float:
        """Standing still ends it, and so does crawling."""
        crawl_s = done_bytes / self._limits.progress_bytes_per_s_min
        return min(now, begun_at + crawl_s) + self._limits.progress_timeout_s

    async def _answer_all(self, alone: bytes) -> None:
        """`alone`: the bytes that were one request and nothing else."""
        requests = self._parser.requests
        begun_s = time.perf_counter()
        while requests:
            request = requests.pop(0)
            response = await self._answer(request)
            is_short = not request.body and len(response.body.plain) <= JOINED_BYTES_MAX
            if alone and request.again is not None and request.keeps_alive and is_short:
                gzip, fate = request.headers.takes_gzip, self._fate(request)
                self._known.keep(alone, KnownRequest(request.again, gzip, fate, response.site_headers))
            self._parser.release(request)
            if requests and time.perf_counter() - begun_s > TURN_S_MAX:
                await trio.lowlevel.checkpoint()
                begun_s = time.perf_counter()

    async def _answer(self, request: Request) -> Response:
        tally = self._counters.requests.get(request.method) or self._counters.requests["other"]
        response = await self._app(request)
        tally[response.status // 100] += 1
        await self._reply(request, response)
        return response

    async def _reply(self, request: Request, response: Response, varying: bytes = b"") -> None:
        is_head = request.method == "HEAD"
        if response.chunks is not None:
            await self._stream(request, response, varying, is_head=is_head)
            return
        body = response.body
        gzip = len(body.plain) >= GZIP_BYTES_MIN and request.headers.takes_gzip
        if gzip and len(body.plain) > GZIP_INLINE_BYTES_MAX:
            await body.gzip_elsewhere()
        head = head_of(response, varying + self._fate(request), gzip=gzip)
        payload = b"" if is_head else body.gzipped() if gzip else body.plain
        if len(payload) <= JOINED_BYTES_MAX:
            await self._send(head + payload)
        else:
            await self._send(head, flags=socket.MSG_MORE)
            await self._send(payload)

    def _fate(self, request: Request) -> bytes:
        """What the Connection header says about this connection's future."""
        if not request.keeps_alive:
            return CLOSE
        return b"" if request.version == "1.1" else KEEP_ALIVE

    async def _stream(self, request: Request, response: Response, varying: bytes, *, is_head: bool) -> None:
        is_chunked = request.version == "1.1"
        if not is_chunked:
            request.keeps_alive = False
            self._parser.is_finished = True
        framing = CHUNKED if is_chunked else b""
        assert response.chunks is not None
        async with aclosing(response.chunks) as chunks:
            await self._send(head_of(response, framing + varying + self._fate(request)))
            if is_head:
                return
            async for chunk in chunks:
                if chunk:
                    await self._send(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
        if is_chunked:
            await self._send(LAST_CHUNK)

    async def _refuse(self, refusal: Response) -> None:
        self._counters.requests["other"][refusal.status // 100] += 1
        self._complaints.say(
            "request", "Refused a request of %s: %s", self.peer, ascii(refusal.body.plain.decode())
        )
        await self._send(head_of(refusal, CLOSE) + refusal.body.plain)
        await self._linger()

    async def _linger(self) -> None:
        """Closing on unread bytes resets the connection, and the client would never read our sentence."""
        self._socket.shutdown(socket.SHUT_WR)
        with trio.move_on_after(LINGER_S):
            await discard(self._socket, LINGER_BYTES_MAX)

    async def _send(self, data: bytes, flags: int = 0) -> None:
        try:
            sent = self._socket.send(data, flags)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            await self._send_rest(data, sent)
        self._counters.sent_bytes += len(data)

    async def _send_rest(self, data: bytes, sent: int) -> None:
        rest = memoryview(data)
        begun_at = trio.current_time()
        self.waits_for = "write_timeout"
        while sent < len(data):
            self.deadline = self._progress_deadline(begun_at, trio.current_time(), sent)
            await trio.lowlevel.wait_writable(self._socket)
            with suppress(BlockingIOError):
                sent += self._socket.send(rest[sent:])
        self.deadline = math.inf


def head_of(response: Response, fate: bytes, *, gzip: bool = False) -> bytes:
    """`fate` is what is said of this sending alone."""
    return b"".join((response.head(gzip=gzip), date_line(), fate, b"\r\n"))


async def discard(sock: Wire, bytes_max: int) -> None:
    discarded_bytes = 0
    while discarded_bytes < bytes_max:
        await trio.lowlevel.wait_readable(sock)
        try:
            data = sock.recv(RECEIVE_BYTES)
        except BlockingIOError:  # not a whole record of TLS yet
            continue
        if not data:
            return
        discarded_bytes += len(data)


class _Date:
    """The Date header, which changes once a second."""

    second = 0
    line = b""


def joined(response: Response, fate: bytes, *, takes_gzip: bool) -> bytes:
    """Head and body as one piece."""
    if small := response.small():
        return b"".join((STATUS_LINES[response.status], date_line(), fate, small))
    shown = response.body.gzipped() if takes_gzip else response.body.plain
    return b"".join((response.head(gzip=takes_gzip), date_line(), fate, b"\r\n", shown))


def date_line() -> bytes:
    second = int(time.time())
    if second != _Date.second:
        _Date.second = second
        _Date.line = f"Date: {http_date(second)}\r\n".encode()
    return _Date.line


def http_date(second: int) -> str:
    """As `email.utils` writes it, which takes ten modules about mail to load."""
    year, month, day, hour, minute, whole_second, weekday, *_ = time.gmtime(second)
    clock = f"{hour:02}:{minute:02}:{whole_second:02}"
    return f"{WEEKDAYS[weekday]}, {day:02} {MONTHS[month - 1]} {year:04} {clock} GMT"
