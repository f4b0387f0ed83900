"""HTTP checks: a connection of their own each run, h11 for the protocol, Go's client for the behaviour.

Consul's users have Go's rules and texts in their alerts: up to ten redirects with what each drops, a status
that counts as soon as it is read (a body that breaks off or never ends does not make a healthy service
critical), `Get "http://…": dial tcp …: connect: connection refused`.
"""

from __future__ import annotations

import h11
import trio

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.attempt import CheckFailed, CheckResult, Surroundings, critical, passing
from adsum.health_checks.dial import SocketStream, Stream, TargetAttempt
from adsum.health_checks.http_request import (
    TOKEN,
    CheckRequest,
    first_request,
    next_request,
    render,
    render_connect,
)
from adsum.health_checks.http_response import HEAD_BYTES_MAX, CheckBody, CheckResponse, ResponseReader
from adsum.health_checks.output import Tail
from adsum.health_checks.url import DEFAULT_PORTS, BadUrl, Url, parse_url_cached, quoted
from adsum.userinfo import without_password

REDIRECTS_MAX = 10  # Go's client


class HttpAttempt(TargetAttempt):
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        super().__init__(definition, surroundings)
        self._method = definition.method or "GET"
        self._shown = without_password(definition.http)
        self._asked = self._shown  # the URL being asked, as errors show it
        self._response: CheckResponse | None = None

    async def run(self) -> CheckResult:
        if not TOKEN.fullmatch(self._method):
            raise CheckFailed(f"net/http: invalid method {quoted(self._method)}")
        try:
            url = parse_url_cached(self._definition.http)
        except BadUrl as error:
            raise CheckFailed(str(error)) from error
        self._asked = url.shown
        try:
            return self._judge(await self._fetch(url))
        except (CheckFailed, BadUrl) as error:
            raise self._failed(str(error)) from error

    def timed_out(self) -> CheckResult:
        if self._response is not None:
            return self._judge(self._response)
        reached = f"{self._dialer.doing}: i/o timeout" if self._dialer.doing else "context deadline exceeded"
        return critical(str(self._failed(f"{reached} (Client.Timeout exceeded while awaiting headers)")))

    async def _fetch(self, url: Url) -> CheckResponse:
        request = first_request(self._definition, self._method, url)
        for _ in range(REDIRECTS_MAX):
            self._asked = request.url.shown
            response = await self._ask(request)
            if self._is_final(response):
                return response
            request = next_request(request, response, url)
        self._asked = without_password(response.location)
        raise CheckFailed(f"stopped after {REDIRECTS_MAX} redirects")

    async def _ask(self, request: CheckRequest) -> CheckResponse:
        url = request.url
        if url.scheme not in DEFAULT_PORTS:
            raise CheckFailed(f'unsupported protocol scheme "{url.scheme}"')
        if not url.host:
            raise CheckFailed("http: no Host in request URL")
        stream, proxy = await self._connect(url)
        try:
            return await self._exchange(stream, request, proxy)
        finally:
            (stream if isinstance(stream, SocketStream) else stream.transport_stream).close()

    async def _connect(self, url: Url) -> tuple[Stream, Url | None]:
        """The connection, and the proxy if the request itself must be addressed to one."""
        proxy = self._surroundings.proxies.choose(url)
        stream = await self._dialer.dial((proxy or url).address)
        if url.scheme != "https":
            return stream, proxy
        try:
            if proxy is not None:
                await _open_tunnel(stream, url, proxy)
            return await self._secured(stream, url.host), None
        except BaseException:
            stream.close()
            raise

    async def _exchange(self, stream: Stream, request: CheckRequest, proxy: Url | None) -> CheckResponse:
        protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
        try:
            await stream.send_all(render(protocol, request, proxy, self._surroundings.options.user_agent))
        except trio.BrokenResourceError as error:
            raise CheckFailed("EOF") from error
        tail = Tail(self._surroundings.output_bytes_max(self._definition))
        reader = ResponseReader(stream, protocol, CheckBody(tail, decodes=request.asks_for_compression))
        response = await reader.read_head()
        if self._is_final(response):
            self._response = response
            await reader.read_body()
            self._surroundings.counters.bodies_cut += response.body.is_cut
        return response

    def _is_final(self, response: CheckResponse) -> bool:
        return self._definition.disable_redirects or not response.is_redirect

    def _judge(self, response: CheckResponse) -> CheckResult:
        output = response.body.tail.text()
        text = f"HTTP {self._method} {self._shown}: {response.status_line} Output: {output}"
        if 200 <= response.code <= 299:
            return passing(text)
        if response.code == 429:
            return CheckResult(CheckStatus.WARNING, text)
        return critical(text)

    def _failed(self, reason: str) -> CheckFailed:
        return CheckFailed(f'{self._method.capitalize()} "{self._asked}": {reason}')


async def _open_tunnel(stream: SocketStream, url: Url, proxy: Url) -> None:
    """CONNECT, so that TLS runs end to end."""
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    await stream.send_all(render_connect(protocol, url, proxy))
    response = await ResponseReader(stream, protocol, CheckBody(Tail(1), decodes=False)).read_head()
    if response.code != 200:
        raise CheckFailed(f"proxyconnect tcp: {response.status_line}")
