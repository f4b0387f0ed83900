"""HTTP checks: a connection of their own each run, h11 for the protocol, Go's client for the behaviour.

Consul's users have Go's rules and texts in their alerts: up to ten redirects with what each drops, a status
that counts as soon as it is read (a body that breaks off or never ends does not make a healthy service
critical), `Get "http://…": dial tcp …: connect: connection refused`.
Limits: 64 KiB of headers (Go takes 10 MiB), the first MiB of a body, of which the tail is kept; a
compressed body counts as decoded, so a small bomb can't be a large one.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64encode
from dataclasses import dataclass, replace
from urllib.parse import urljoin

import h11
import trio

from adsum.catalog.definitions import CheckDefinition, Status
from adsum.health_checks.attempt import CheckFailed, CheckResult, Surroundings, critical
from adsum.health_checks.dial import Dialer, SocketStream, start_tls, tls_context
from adsum.health_checks.output import Tail
from adsum.health_checks.url import DEFAULT_PORTS, BadUrl, Url, parse_url, parse_url_cached, quoted

REDIRECTS_MAX = 10  # Go's client
HEAD_BYTES_MAX = 64 * 1024  # interim responses included
BODY_BYTES_MAX = 1024 * 1024
REASON_CHARACTERS_MAX = 200  # of a status line or a protocol error: the target's own words

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
ABSOLUTE = re.compile(rf"{SCHEME.pattern}|//")
BYTES_IN_TEXT = re.compile(r"bytearray\(b(['\"])(.*)\1\)")  # how h11 quotes what it was sent
BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
NOT_FORWARDED = frozenset(("authorization", "www-authenticate", "cookie", "cookie2"))
# Written by us, whatever the definition says: the framing and the connection are not the caller's.
OURS = frozenset(
    ("host", "user-agent", "content-length", "transfer-encoding", "trailer", "connection", "accept-encoding")
)
BROKEN = "net/http: HTTP/1.x transport connection broken"

Headers = list[tuple[str, str]]
Connection = SocketStream | trio.SSLStream[SocketStream]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: Url
    headers: Headers  # what the definition asked for, and a Referer after a redirect
    host: str  # of the Host header; empty for the URL's
    body: bytes


class HttpAttempt:
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._dialer = Dialer(surroundings)
        self._method = definition.method or "GET"
        self._asked = definition.http  # the URL being asked, as errors show it
        self._response: Response | None = None

    async def run(self) -> CheckResult:
        request = self._first_request()
        for _ in range(REDIRECTS_MAX):
            response = await self._ask(request)
            if self._definition.disable_redirects or not response.is_redirect:
                return self._judge(response)
            request = self._follow(request, response)
        self._asked = response.location
        raise self._failed(f"stopped after {REDIRECTS_MAX} redirects")

    def timed_out(self) -> CheckResult:
        if self._response is not None:
            return self._judge(self._response)
        reached = f"{self._dialer.doing}: i/o timeout" if self._dialer.doing else "context deadline exceeded"
        return critical(str(self._failed(f"{reached} (Client.Timeout exceeded while awaiting headers)")))

    def _first_request(self) -> Request:
        if not TOKEN.fullmatch(self._method):
            raise CheckFailed(f'net/http: invalid method "{self._method}"')
        try:
            url = parse_url_cached(self._definition.http)
        except BadUrl as error:
            raise CheckFailed(str(error)) from error
        self._asked = url.shown
        headers = [
            (name, value) for name, values in sorted(self._definition.header.items()) for value in values
        ]
        for name, value in headers:
            self._require_valid(name, value)
        host = next((value for name, value in headers if name.lower() == "host"), "")
        return Request(self._method, url, headers, host, self._definition.body.encode())

    def _require_valid(self, name: str, value: str) -> None:
        if not TOKEN.fullmatch(name):
            raise self._failed(f'net/http: invalid header field name "{name}"')
        if BAD_VALUE.search(value):
            raise self._failed(f"net/http: invalid header field value {quoted(value)} for key {name}")

    async def _ask(self, request: Request) -> Response:
        self._asked = request.url.shown
        try:
            _require_http(request.url)
            stream, proxy = await self._connect(request.url)
        except BadUrl as error:
            raise self._failed(str(error)) from error
        except CheckFailed as error:
            raise self._failed(str(error)) from error
        try:
            return await self._exchange(stream, request, proxy)
        except CheckFailed as error:
            raise self._failed(str(error)) from error
        finally:
            _socket_of(stream).close()

    async def _connect(self, url: Url) -> tuple[Connection, Url | None]:
        """The connection, and the proxy if the request itself must be addressed to one."""
        proxy = self._surroundings.proxies.choose(url)
        stream = await self._dialer.dial((proxy or url).address)
        if url.scheme != "https":
            return stream, proxy
        try:
            if proxy is not None:
                await _open_tunnel(stream, url, proxy)
            context = await tls_context(self._surroundings, skip_verify=self._definition.tls_skip_verify)
            return await start_tls(stream, context, self._definition.tls_server_name or url.host), None
        except BaseException:
            stream.close()
            raise

    async def _exchange(self, stream: Connection, request: Request, proxy: Url | None) -> Response:
        protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            await stream.send_all(self._render(protocol, request, proxy))
        except trio.BrokenResourceError as error:
            raise CheckFailed("EOF") from error
        tail = Tail(self._surroundings.output_bytes_max(self._definition))
        reader = ResponseReader(stream, protocol, Body(tail, decodes=_decodes(request)))
        response = await reader.read_head()
        if response.is_redirect and not self._definition.disable_redirects:
            return response
        self._response = response
        await reader.read_body()
        self._surroundings.counters.bodies_cut += response.body.is_cut
        return response

    def _render(self, protocol: h11.Connection, request: Request, proxy: Url | None) -> bytes:
        target = f"http://{request.url.authority}{request.url.target}" if proxy else request.url.target
        head = h11.Request(
            method=request.method,
            target=target,
            headers=_headers(request, proxy, self._surroundings.options.user_agent),
        )
        data = protocol.send(head) or b""
        if request.body:
            data += protocol.send(h11.Data(data=request.body)) or b""
        return data + (protocol.send(h11.EndOfMessage()) or b"")

    def _follow(self, request: Request, response: Response) -> Request:
        location = response.location
        if not location:
            raise self._failed(f"{response.code} response missing Location header")
        is_relative = not ABSOLUTE.match(location)
        try:
            url = _resolve(location, request.url)
        except (BadUrl, ValueError) as error:
            raise self._failed(f"failed to parse Location header {quoted(location)}: {error}") from error
        keeps_body = response.code in (307, 308)
        changes_method = not keeps_body and request.method not in ("GET", "HEAD")
        first = parse_url_cached(self._definition.http)
        headers = [
            (name, value)
            for name, value in request.headers
            if name.lower() != "referer"
            and (name.lower() not in NOT_FORWARDED or _is_same_or_below(url, first))
        ]
        return Request(
            method="GET" if changes_method else request.method,
            url=url,
            headers=sorted(headers + _referer(request.url, url)),
            host=request.host if is_relative else "",
            body=request.body if keeps_body else b"",
        )

    def _judge(self, response: Response) -> CheckResult:
        if 200 <= response.code <= 299:
            status = Status.PASSING
        elif response.code == 429:
            status = Status.WARNING
        else:
            status = Status.CRITICAL
        output = response.body.tail.text()
        text = f"HTTP {self._method} {self._definition.http}: {response.status_line} Output: {output}"
        return CheckResult(status, text)

    def _failed(self, reason: str) -> CheckFailed:
        return CheckFailed(f'{self._method.capitalize()} "{self._asked}": {reason}')


class Body:
    """What is kept of a body, decoded if we asked for compression and got it."""

    def __init__(self, tail: Tail, *, decodes: bool) -> None:
        self.tail = tail
        self.is_cut = False
        self.may_decode = decodes
        self._inflater: zlib._Decompress | None = None
        self._raw_bytes = 0

    def expect_gzip(self) -> None:
        if self.may_decode:
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)  # 16: with gzip's header

    def append(self, data: bytes) -> bool:
        """Whether more is wanted: not after the limit, nor after garbage."""
        self._raw_bytes += len(data)
        if self._inflater is not None:
            return self._inflate(self._inflater, data)
        self.tail.append(data)
        self.is_cut = self._raw_bytes >= BODY_BYTES_MAX
        return not self.is_cut

    def _inflate(self, inflater: zlib._Decompress, data: bytes) -> bool:
        room = BODY_BYTES_MAX - self.tail.total_bytes  # never 0, which would mean no limit
        try:
            self.tail.append(inflater.decompress(data, room))
        except zlib.error:
            return False
        self.is_cut = max(self._raw_bytes, self.tail.total_bytes) >= BODY_BYTES_MAX
        return not self.is_cut and not inflater.eof


@dataclass(slots=True)
class Response:
    code: int
    status_line: str
    location: str
    body: Body

    @property
    def is_redirect(self) -> bool:
        if self.code in (301, 302, 303):
            return True
        return self.code in (307, 308) and self.location != ""


class ResponseReader:
    def __init__(self, stream: Connection, protocol: h11.Connection, body: Body) -> None:
        self._stream = stream
        self._protocol = protocol
        self._body = body
        self._received_bytes = 0

    async def read_head(self) -> Response:
        while True:
            event = self._next_event()
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

    def _next_event(self) -> object:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            reason = BYTES_IN_TEXT.sub(r'"\2"', str(error)[:REASON_CHARACTERS_MAX])
            raise CheckFailed(f"{BROKEN}: malformed HTTP response: {reason}") from error

    def _head(self, event: h11.Response) -> Response:
        location = ""
        for name, value in event.headers:
            if name == b"location":
                location = location or value.decode("latin-1")
            elif name == b"content-encoding" and value.lower() == b"gzip":
                self._body.expect_gzip()
        reason = event.reason[:REASON_CHARACTERS_MAX].decode("latin-1")
        status_line = f"{event.status_code} {reason}".rstrip()
        return Response(event.status_code, status_line, location, self._body)


async def _open_tunnel(stream: SocketStream, url: Url, proxy: Url) -> None:
    """CONNECT, so that TLS runs end to end."""
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    headers = [("Host", url.address), *_proxy_authorization(proxy)]
    head = h11.Request(method="CONNECT", target=url.address, headers=headers)
    await stream.send_all((protocol.send(head) or b"") + (protocol.send(h11.EndOfMessage()) or b""))
    response = await ResponseReader(stream, protocol, Body(Tail(1), decodes=False)).read_head()
    if response.code != 200:
        raise CheckFailed(f"proxyconnect tcp: {response.status_line}")


def _headers(request: Request, proxy: Url | None, user_agent: str) -> Headers:
    """In Go's order; names are compared without case, which Consul forgets."""
    names = {name.lower(): value for name, value in request.headers}
    headers = [
        ("Host", request.host or request.url.authority),
        ("User-Agent", names.get("user-agent") or user_agent),
    ]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(request.body))))
    if "accept" not in names:
        headers.append(("Accept", "text/plain, text/*, */*"))
    if request.url.user is not None and "authorization" not in names:
        headers.append(_basic("Authorization", request.url.user))
    headers += [(name, value.strip()) for name, value in request.headers if name.lower() not in OURS]
    headers.append(("Accept-Encoding", names.get("accept-encoding") or "gzip"))
    headers.append(("Connection", "close"))
    return headers + (_proxy_authorization(proxy) if proxy else [])


def _proxy_authorization(proxy: Url) -> Headers:
    return [] if proxy.user is None else [_basic("Proxy-Authorization", proxy.user)]


def _basic(name: str, user: bytes) -> tuple[str, str]:
    return name, f"Basic {b64encode(user).decode()}"


def _decodes(request: Request) -> bool:
    """As Go: compression is ours to undo only if it was ours to ask for."""
    return all(name.lower() not in ("accept-encoding", "range") for name, _ in request.headers)


def _require_http(url: Url) -> None:
    if url.scheme not in DEFAULT_PORTS:
        raise CheckFailed(f'unsupported protocol scheme "{url.scheme}"')
    if not url.host:
        raise CheckFailed("http: no Host in request URL")


def _absolute(url: Url) -> str:
    return f"{url.scheme}://{url.authority}{url.target}"


def _resolve(location: str, base: Url) -> Url:
    if SCHEME.match(location):
        return parse_url(location)
    url = parse_url(urljoin(_absolute(base), location))
    return url if location.startswith("//") else replace(url, user=base.user)


def _referer(last: Url, new: Url) -> Headers:
    if last.scheme == "https" and new.scheme == "http":
        return []  # what was asked in private is not told in the open
    return [("Referer", _absolute(last))]


def _is_same_or_below(new: Url, first: Url) -> bool:
    return new.address == first.address or new.address.endswith("." + first.address)


def _socket_of(stream: Connection) -> SocketStream:
    return stream if isinstance(stream, SocketStream) else stream.transport_stream
