"""Against a small server written with h2; texts are Consul 1.8.7's for the same answers."""

from __future__ import annotations

import ssl
import sys

import h2.config
import h2.connection
import h2.events
import pytest
import trio
import trustme

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.attempt import CheckFailed
from adsum.health_checks.grpc import encode_request, serving_status
from adsum.health_checks.runner import CheckResult
from adsum.now import MILLISECOND
from tests.health_checks.support import Bench, hang

Headers = list[tuple[str, str]]
GRPC = [(":status", "200"), ("content-type", "application/grpc")]


class HealthServer:
    """Answers every request with `headers`, `body` and `trailers`; or resets it; or leaves."""

    def __init__(self, headers: Headers, body: bytes = b"", trailers: Headers | None = None) -> None:
        self.headers = headers
        self.body = body
        self.trailers = trailers
        self.reset_code: int | None = None
        self.leaves = False
        self.requests: list[tuple[dict[str, str], bytes]] = []

    async def handle(self, stream: trio.abc.Stream) -> None:
        connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        connection.initiate_connection()
        await stream.send_all(connection.data_to_send())
        headers: dict[str, str] = {}
        while data := await stream.receive_some():
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers}
                elif isinstance(event, h2.events.DataReceived):
                    self.requests.append((headers, event.data))
                elif isinstance(event, h2.events.StreamEnded):
                    self._answer(connection, event.stream_id)
            await stream.send_all(connection.data_to_send())

    def _answer(self, connection: h2.connection.H2Connection, stream_id: int) -> None:
        if self.leaves:
            connection.close_connection(2)
        elif self.reset_code is not None:
            connection.reset_stream(stream_id, self.reset_code)
        elif self.trailers is None:
            connection.send_headers(stream_id, self.headers, end_stream=True)
        else:
            connection.send_headers(stream_id, self.headers)
            connection.send_data(stream_id, self.body)
            connection.send_headers(stream_id, self.trailers, end_stream=True)


def answering(message: bytes) -> HealthServer:
    framed = b"\0" + len(message).to_bytes(4, "big") + message
    return HealthServer(GRPC, framed, [("grpc-status", "0"), ("grpc-message", "")])


async def test_serving_passes(bench: Bench) -> None:
    server = answering(b"\x08\x01")
    target = f"127.0.0.1:{await bench.serve(server.handle)}/my.service"
    result = await bench.run(CheckDefinition(grpc=target))
    assert result == CheckResult(CheckStatus.PASSING, f"gRPC check {target}: success")
    headers, body = server.requests[0]
    assert body == b"\0\0\0\0\x0c\x0a\x0amy.service"
    assert headers == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": target.partition("/")[0],
        "content-type": "application/grpc",
        "user-agent": "Consul Health Check",
        "te": "trailers",
        "grpc-timeout": "10000m",
    }


async def test_password_in_the_address_is_hidden(bench: Bench) -> None:
    result = await bench.run(CheckDefinition(grpc="user:hunter2@127.0.0.1:1/my.service"))
    assert result.output == (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing '
        'dial tcp: address user:***@127.0.0.1:1: user and password in address"'
    )


@pytest.mark.parametrize("message", [b"", b"\x08\x00", b"\x08\x02", b"\x08\x03"])
async def test_any_other_state_is_critical(bench: Bench, message: bytes) -> None:
    port = await bench.serve(answering(message).handle)
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{port}"))
    assert result == CheckResult(CheckStatus.CRITICAL, "gRPC application didn't report service healthy")


@pytest.mark.parametrize(
    ("headers", "output"),
    [
        (
            [*GRPC, ("grpc-status", "5"), ("grpc-message", "unknown%20service")],
            "rpc error: code = NotFound desc = unknown service",
        ),
        ([*GRPC, ("grpc-status", "99")], "rpc error: code = Unknown desc = "),
        (
            [(":status", "404"), ("content-type", "text/plain")],
            (
                "rpc error: code = Unimplemented desc = Not Found: HTTP status code 404; "
                'transport: received the unexpected content-type "text/plain"'
            ),
        ),
        (
            [(":status", "503"), ("content-type", "text/plain")],
            (
                "rpc error: code = Unavailable desc = Service Unavailable: HTTP status code 503; "
                'transport: received the unexpected content-type "text/plain"'
            ),
        ),
    ],
)
async def test_errors_read_as_grpc_gos(bench: Bench, headers: Headers, output: str) -> None:
    port = await bench.serve(HealthServer(headers).handle)
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{port}"))
    assert result == CheckResult(CheckStatus.CRITICAL, output)


async def test_reset_stream_is_critical(bench: Bench) -> None:
    server = HealthServer(GRPC)
    server.reset_code = 2
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{await bench.serve(server.handle)}"))
    assert result.output == (
        "rpc error: code = Internal desc = stream terminated by RST_STREAM with error code: INTERNAL_ERROR"
    )


async def test_server_that_says_goodbye_is_critical_at_once_unlike_consul(bench: Bench) -> None:
    """Consul waits for the deadline."""
    server = HealthServer(GRPC)
    server.leaves = True
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{await bench.serve(server.handle)}"))
    assert result.output == "rpc error: code = Unavailable desc = transport is closing"


async def test_refused_connection_is_critical(bench: Bench, refusing_port: int) -> None:
    target = f"127.0.0.1:{refusing_port}"
    result = await bench.run(CheckDefinition(grpc=target))
    assert result.output == (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing '
        f'dial tcp {target}: connect: connection refused"'
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\x01\x01\x04\0\0\0\x01\xff",  # a header block that decodes to nothing
    ],
)
async def test_server_that_is_none_is_critical(bench: Bench, answer: bytes) -> None:
    async def speak(stream: trio.abc.Stream) -> None:
        await stream.receive_some()
        await stream.send_all(answer)

    port = await bench.serve(speak)
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{port}"))
    assert result.output == "rpc error: code = Unavailable desc = connection closed"
    assert bench.counters.internal_errors == 0


async def test_frames_without_end_are_cut_off_long_before_the_deadline(bench: Bench) -> None:
    async def flood(stream: trio.abc.Stream) -> None:
        while True:
            await stream.send_all(b"\0\0\0\x04\0\0\0\0\0" * 1000)  # empty settings

    port = await bench.serve(flood)
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{port}"))
    assert result.output == "rpc error: code = Unavailable desc = connection closed"
    assert bench.counters.timeouts == 0


async def test_silent_server_is_critical_at_the_deadline(bench: Bench) -> None:
    port = await bench.serve(hang)
    result = await bench.run(CheckDefinition(grpc=f"127.0.0.1:{port}", timeout_ns=50 * MILLISECOND))
    assert result.output == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


async def test_tls_is_used_when_asked(bench: Bench, authority: trustme.CA) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    server = answering(b"\x08\x01")
    target = f"127.0.0.1:{await bench.serve(server.handle, context)}"
    lax = CheckDefinition(grpc=target, grpc_use_tls=True, tls_skip_verify=True)
    assert (await bench.run(lax)).status is CheckStatus.PASSING
    assert server.requests[0][0][":scheme"] == "https"
    strict = CheckDefinition(grpc=target, grpc_use_tls=True)
    assert (await bench.run(strict)).output == (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: authentication handshake '
        'failed: x509: certificate signed by unknown authority"'
    )


async def test_missing_library_is_a_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2.connection", None)
    result = await bench.run(CheckDefinition(grpc="127.0.0.1:1"))
    expected = "gRPC checks need the h2 library on this agent: pip install adsum[grpc]"
    assert result == CheckResult(CheckStatus.CRITICAL, expected)


@pytest.mark.parametrize(
    ("service", "message"),
    [("", b""), ("a", b"\x0a\x01a"), ("é" * 100, b"\x0a\xc8\x01" + "é".encode() * 100)],
)
def test_request_is_protobuf(service: str, message: bytes) -> None:
    assert encode_request(service) == message


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"\x12\x03abc\x08\x01", 1),  # fields of a later version of the message
        (b"\x08\x01\x1d1234", 1),
        (b"\x08\x01\x2112345678", 1),
        (b"\x10\x05", 0),
    ],
)
def test_unknown_fields_are_skipped(message: bytes, status: int) -> None:
    assert serving_status(message) == status


@pytest.mark.parametrize("message", [b"\x08", b"\x08" + b"\xff" * 11, b"\x12\x05ab", b"\x0b", b"\x1d12"])
def test_garbage_is_refused(message: bytes) -> None:
    with pytest.raises(CheckFailed, match="failed to unmarshal"):
        serving_status(message)
