"""HTTPS with real handshakes; OpenSSL's other side is the client."""

from __future__ import annotations

import logging
import math
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace

import pytest
import trio
import trustme

from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.request import Request
from adsum.http.response import Response, text
from adsum.http.server import Begins, serve
from adsum.http.tls import SPEAKS_IN_CLEAR, Secure
from adsum.net.tls import Tls, TlsSettings, tls
from tests.http.http_support import ANSWER_S_MAX, App, Client, Server, connected, get, request, until
from tests.net.certificates import Folder

NAME = "agent.example"
LARGE = b"0123456789abcdef" * 128 * 1024  # more than a socket takes at once


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("tls"), trustme.CA(), NAME)


@dataclass
class Https(Server):
    tls: Tls

    @asynccontextmanager
    async def connected(self, context: ssl.SSLContext, name: str = NAME) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        secured = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
        try:
            with trio.fail_after(ANSWER_S_MAX):
                await secured.do_handshake()
            yield Client(secured)
        finally:
            await trio.aclose_forcefully(secured)


async def echo(request: Request) -> Response:
    return text(200, f"{request.peer} {request.method} {len(request.body)}")


async def large(request: Request) -> Response:
    return text(200, LARGE.decode())


@asynccontextmanager
async def running(
    settings: TlsSettings, app: App = echo, limits: HttpLimits | None = None, begin: Begins | None = None
) -> AsyncIterator[Https]:
    listener, counters, made = bind_tcp("127.0.0.1", 0), HttpCounters(), tls(settings)

    def context() -> ssl.SSLContext:
        assert made.https is not None
        return made.https

    async with trio.open_nursery() as nursery:
        secure = Secure([listener], context)
        await nursery.start(serve, [], app, limits or HttpLimits(), counters, secure, begin)
        yield Https(listener.getsockname()[1], counters, made)
        nursery.cancel_scope.cancel()


def mutual(certificates: Folder) -> TlsSettings:
    return replace(certificates.settings, verify_incoming_https=True)


async def test_requests_are_answered_over_tls_in_their_order(certificates: Folder) -> None:
    async with running(certificates.settings) as server, server.connected(certificates.stranger()) as client:
        assert (await client.ask(get("/"))).body == b"127.0.0.1 GET 0"
        await client.send(get("/") + request("PUT", "/", body=b"12345") + get("/"))
        answers = [(await client.answer(method)).body for method in ("GET", "PUT", "GET")]
        assert answers == [b"127.0.0.1 GET 0", b"127.0.0.1 PUT 5", b"127.0.0.1 GET 0"]
        assert server.counters.tls_handshakes == 1
        stream = client.stream
        assert isinstance(stream, trio.SSLStream)
        assert (stream.version(), stream.selected_alpn_protocol()) == ("TLSv1.3", None)


async def test_what_is_sent_byte_by_byte_arrives(certificates: Folder) -> None:
    async with running(certificates.settings) as server, server.connected(certificates.stranger()) as client:
        for byte in get("/"):
            await client.send(bytes([byte]))
        assert (await client.answer()).status == 200


async def test_bodies_of_many_records_arrive_whole_in_both_directions(certificates: Folder) -> None:
    async with (
        running(certificates.settings, large) as server,
        server.connected(certificates.stranger()) as client,
    ):
        body = b"x" * 1_000_000
        await client.send(request("PUT", "/", body=body))
        answer = await client.answer("PUT")
        assert answer.body == LARGE
        assert (await client.ask(get("/"))).body == LARGE


async def test_a_client_that_does_not_read_is_waited_for_and_then_cut_off(certificates: Folder) -> None:
    limits = HttpLimits(progress_timeout_s=0.1, progress_bytes_per_s_min=1 << 30)
    async with (
        running(certificates.settings, large, limits) as server,
        server.connected(certificates.stranger()) as client,
    ):
        await client.send(get("/") * 8)
        await until(lambda: server.counters.rejected["write_timeout"] == 1)


async def test_old_and_new_versions_of_tls_are_spoken_and_none_below(certificates: Folder) -> None:
    context = certificates.stranger()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with running(certificates.settings) as server:
        async with server.connected(context) as client:
            assert (await client.ask(get("/"))).status == 200
            assert isinstance(client.stream, trio.SSLStream)
            assert client.stream.version() == "TLSv1.2"
        server.tls.renew(tls(replace(certificates.settings, min_version="tls13")))
        with pytest.raises(trio.BrokenResourceError):
            async with server.connected(context):
                pass


async def test_http_1_1_is_agreed_on_with_those_who_could_speak_http_2(certificates: Folder) -> None:
    context = certificates.stranger()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with running(certificates.settings) as server, server.connected(context) as client:
        assert isinstance(client.stream, trio.SSLStream)
        assert client.stream.selected_alpn_protocol() == "http/1.1"
        assert (await client.ask(get("/"))).status == 200


async def test_clients_show_a_certificate_where_that_is_verified(certificates: Folder) -> None:
    async with (
        running(mutual(certificates)) as server,
        server.connected(certificates.client()) as client,
    ):
        assert (await client.ask(get("/"))).status == 200


async def is_refused(server: Https, context: ssl.SSLContext) -> bool:
    """With TLS 1.3 a client learns of it when it reads."""
    try:
        async with server.connected(context) as client:
            await client.send(get("/"))
            await client.answer()
    except trio.BrokenResourceError:
        return True
    return False


async def test_a_client_without_a_certificate_is_refused_and_counted(certificates: Folder) -> None:
    async with running(mutual(certificates)) as server:
        assert await is_refused(server, certificates.stranger())
        assert server.counters.rejected["tls_handshake"] == 1
        assert server.counters.tls_handshakes == 0


async def test_a_client_of_another_authority_or_an_expired_one_is_refused(
    certificates: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Folder(tmp_path_factory.mktemp("other"), trustme.CA(), "client.example")
    foreign = certificates.stranger()
    foreign.load_cert_chain(other.cert_file, other.key_file)
    expired = Folder(tmp_path_factory.mktemp("old"), certificates.authority, "c.example", has_expired=True)
    async with running(mutual(certificates)) as server:
        assert await is_refused(server, foreign)
        assert await is_refused(server, expired.client())
        assert not await is_refused(server, certificates.client())
        assert server.counters.rejected["tls_handshake"] == 2


async def test_a_client_checks_whom_it_speaks_to(
    certificates: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async with running(certificates.settings) as server:
        for context, name in (
            (ssl.create_default_context(), NAME),
            (certificates.stranger(), "other.example"),
        ):
            with pytest.raises(trio.BrokenResourceError) as refusal:
                async with server.connected(context, name):
                    pass
            assert isinstance(refusal.value.__cause__, ssl.SSLCertVerificationError)


@contextmanager
def nothing_but_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.records if record.levelno > logging.WARNING or record.exc_info] == []


async def test_who_speaks_in_clear_is_told_in_clear(
    certificates: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    with nothing_but_warnings(caplog):
        async with running(certificates.settings) as server, connected(server) as client:
            await client.send(get("/") + b"x" * 100_000)
            assert await client.read_to_end() == SPEAKS_IN_CLEAR
            assert server.counters.rejected["tls_handshake"] == 1
    assert "No TLS with 127.0.0.1: http request" in caplog.text


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 400, b"\x16\x03\x01\xff\xff" + b"\xff" * 4000, b"SSH-2.0-x\r\n"]
)
async def test_garbage_is_counted_and_dropped(
    certificates: Folder, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    with nothing_but_warnings(caplog):
        async with running(certificates.settings) as server:
            async with connected(server) as client:
                await client.send(garbage)
                with suppress(trio.BrokenResourceError):
                    assert b"HTTP" not in await client.read_to_end()
            await until(lambda: server.counters.connections_open == 0)
            assert server.counters.rejected["tls_handshake"] == 1
            assert server.counters.handler_errors == 0


async def test_who_only_looks_whether_somebody_listens_is_no_matter_of_complaint(
    certificates: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(certificates.settings) as server:
        async with connected(server):
            pass
        reset = socket.create_connection(("127.0.0.1", server.port))
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        reset.close()
        await until(lambda: server.counters.clients_gone == 2)
        assert server.counters.rejected["tls_handshake"] == 0
    assert caplog.text == ""


async def test_whoever_does_not_get_on_with_the_handshake_is_cut_off(certificates: Folder) -> None:
    limits = HttpLimits(handshake_timeout_s=0.0)
    async with running(certificates.settings, limits=limits) as server, connected(server) as client:
        await client.send(b"\x16\x03\x01\x02")  # the beginning of a record
        assert await client.read_to_end() == b""
        assert server.counters.rejected["handshake_timeout"] == 1
        assert server.counters.rejected["tls_handshake"] == 0


async def test_limits_per_client_hold_and_are_told_over_tls(certificates: Folder) -> None:
    limits = HttpLimits(connections_per_client_max=1)
    async with running(certificates.settings, limits=limits) as server:
        async with server.connected(certificates.stranger()) as first:
            assert (await first.ask(get("/"))).status == 200
            async with server.connected(certificates.stranger()) as second:
                answer = await second.answer()
                assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        await until(lambda: server.counters.connections_open == 0)
        async with server.connected(certificates.stranger()) as third:
            assert (await third.ask(get("/"))).status == 200


async def test_the_hang_up_of_a_waiting_client_is_seen(certificates: Folder) -> None:
    waiting = trio.Event()

    async def wait(request: Request) -> Response:
        waiting.set()
        await request.park(math.inf)
        raise AssertionError("nobody wakes it")

    async with running(certificates.settings, wait) as server:
        async with server.connected(certificates.stranger()) as client:
            await client.send(get("/"))
            await waiting.wait()
        await until(lambda: server.counters.connections_open == 0)
        assert (server.counters.clients_gone, server.counters.handler_errors) == (1, 0)


async def test_renewed_certificates_are_shown_to_the_next_and_standing_connections_stay(
    certificates: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    later = Folder(tmp_path_factory.mktemp("later"), trustme.CA(), NAME)
    async with running(certificates.settings) as server, server.connected(certificates.stranger()) as before:
        assert (await before.ask(get("/"))).status == 200
        server.tls.renew(tls(later.settings))
        async with server.connected(later.stranger()) as after:
            assert (await after.ask(get("/"))).status == 200
        assert (await before.ask(get("/"))).status == 200
        assert await is_refused(server, certificates.stranger())


async def test_the_end_is_said_so_that_it_is_not_taken_for_a_cut(certificates: Folder) -> None:
    async with running(certificates.settings) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        strict = trio.SSLStream(stream, certificates.stranger(), server_hostname=NAME)  # not https_compatible
        async with Client(strict).stream:
            client = Client(strict)
            await client.send(get("/", "Connection: close"))
            assert (await client.answer()).status == 200
            assert await client.read_to_end() == b""


async def test_many_handshakes_at_once_all_come_to_an_end(certificates: Folder) -> None:
    answered = 0

    async def ask(server: Https) -> None:
        nonlocal answered
        async with server.connected(certificates.stranger()) as client:
            assert (await client.ask(get("/"))).status == 200
            answered += 1

    async with running(certificates.settings) as server:
        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(ask, server)
        assert (answered, server.counters.tls_handshakes) == (64, 64)


async def test_requests_over_tls_have_a_task_each(certificates: Folder) -> None:
    begun: list[Request] = []

    def begin(request: Request) -> bool:
        begun.append(request)
        return True

    async with (
        running(certificates.settings, begin=begin) as server,
        server.connected(certificates.stranger()) as client,
    ):
        for _time in range(3):
            answer = await client.ask(request("PUT", "/", body=b"12345"))
            assert answer.body == b"127.0.0.1 PUT 5"
        assert begun == []
