from __future__ import annotations

import ssl
import sys

import h2.config
import h2.connection
import pytest
import trio
import trustme

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.runner import CheckResult
from adsum.now import MILLISECOND
from tests.health_checks.support import Bench, hang


async def speak_http2(stream: trio.abc.Stream) -> None:
    """Acknowledges pings, because h2 does so by itself."""
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    connection.initiate_connection()
    await stream.send_all(connection.data_to_send())
    while data := await stream.receive_some():
        connection.receive_data(data)
        await stream.send_all(connection.data_to_send())


async def test_acknowledged_ping_passes(bench: Bench) -> None:
    port = await bench.serve(speak_http2)
    result = await bench.run(CheckDefinition(h2ping=f"127.0.0.1:{port}", h2ping_use_tls=False))
    assert result == CheckResult(CheckStatus.PASSING, "HTTP2 ping was successful")


async def test_tls_is_the_default(bench: Bench, authority: trustme.CA) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2"])
    target = f"127.0.0.1:{await bench.serve(speak_http2, context)}"
    assert (
        await bench.run(CheckDefinition(h2ping=target, tls_skip_verify=True))
    ).status is CheckStatus.PASSING
    assert (await bench.run(CheckDefinition(h2ping=target))).output == (
        f"Failed to dial to {target}: x509: certificate signed by unknown authority"
    )


async def test_refused_connection_is_critical(bench: Bench, refusing_port: int) -> None:
    target = f"127.0.0.1:{refusing_port}"
    result = await bench.run(CheckDefinition(h2ping=target))
    assert result.output == f"Failed to dial to {target}: dial tcp {target}: connect: connection refused"


async def test_password_in_the_address_is_hidden(bench: Bench) -> None:
    result = await bench.run(CheckDefinition(h2ping="user:hunter2@127.0.0.1:1"))
    shown = "user:***@127.0.0.1:1"
    assert result.output == (
        f"Failed to dial to {shown}: dial tcp: address {shown}: user and password in address"
    )


async def test_server_without_http2_is_critical(bench: Bench) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    result = await bench.run(CheckDefinition(h2ping=f"127.0.0.1:{port}", h2ping_use_tls=False))
    assert result == CheckResult(CheckStatus.CRITICAL, "HTTP2 ping failed: connection closed")


async def test_silent_server_is_critical_at_the_deadline(bench: Bench) -> None:
    target = f"127.0.0.1:{await bench.serve(hang)}"
    definition = CheckDefinition(h2ping=target, h2ping_use_tls=False, timeout_ns=50 * MILLISECOND)
    assert (await bench.run(definition)).output == "HTTP2 ping failed: context deadline exceeded"


async def test_missing_library_is_a_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2.connection", None)
    result = await bench.run(CheckDefinition(h2ping="127.0.0.1:1"))
    assert result.output == "H2PING checks need the h2 library on this agent: pip install adsum[grpc]"
