"""Texts are Consul 1.8.7's for the same targets."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
import trustme

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.now import MILLISECOND
from tests.health_checks.support import Bench, hang


async def test_open_port_passes(bench: Bench) -> None:
    port = await bench.serve(hang)
    result = await bench.run(CheckDefinition(tcp=f"127.0.0.1:{port}"))
    assert (result.status, result.output) == (CheckStatus.PASSING, f"TCP connect 127.0.0.1:{port}: Success")


async def test_closed_port_is_critical(bench: Bench, refusing_port: int) -> None:
    result = await bench.run(CheckDefinition(tcp=f"127.0.0.1:{refusing_port}"))
    assert result.status is CheckStatus.CRITICAL
    assert result.output == f"dial tcp 127.0.0.1:{refusing_port}: connect: connection refused"


async def test_name_that_refuses_shows_the_first_address(bench: Bench, refusing_port: int) -> None:
    result = await bench.run(CheckDefinition(tcp=f"localhost:{refusing_port}"))
    assert result.output in (
        f"dial tcp 127.0.0.1:{refusing_port}: connect: connection refused",
        f"dial tcp [::1]:{refusing_port}: connect: connection refused",
    )


@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("127.0.0.1", "dial tcp: address 127.0.0.1: missing port in address"),
        ("[::1]", "dial tcp: address [::1]: missing port in address"),
        ("[::1", "dial tcp: address [::1: missing ']' in address"),
        ("::1:80", "dial tcp: address ::1:80: too many colons in address"),
        (
            "user:hunter2@127.0.0.1:80",
            "dial tcp: address user:***@127.0.0.1:80: user and password in address",
        ),
        ("user:hunter2@h", "dial tcp: address user:***@h: user and password in address"),
        ("127.0.0.1:abc", "dial tcp: address tcp/abc: unknown port"),
        ("127.0.0.1:99999", "dial tcp: address 99999: invalid port"),
        ("127.0.0.1:", "dial tcp 127.0.0.1:0: connect: connection refused"),
        (":0", "dial tcp :0: connect: connection refused"),
        ("255.255.255.255:80", "dial tcp 255.255.255.255:80: connect: network is unreachable"),
        ("[zz::1]:80", "dial tcp: lookup zz::1: no such host"),
        (f"{'a' * 70}.invalid:80", f"dial tcp: lookup {'a' * 70}.invalid: no such host"),
    ],
)
async def test_unusable_targets_are_critical_with_gos_text(bench: Bench, target: str, output: str) -> None:
    result = await bench.run(CheckDefinition(tcp=target))
    assert (result.status, result.output) == (CheckStatus.CRITICAL, output)


async def test_target_that_never_accepts_times_out(bench: Bench) -> None:
    """A full backlog: the kernel drops further connection requests without a word."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        result = await bench.run(CheckDefinition(tcp=target, timeout_ns=50 * MILLISECOND))
    assert (result.status, result.output) == (CheckStatus.CRITICAL, f"dial tcp {target}: i/o timeout")


async def test_tls_handshake_is_part_of_the_check_when_asked(
    bench: Bench, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    port = await bench.serve_answer(b"", context)
    target = f"127.0.0.1:{port}"
    strict = CheckDefinition(tcp=target, tcp_use_tls=True)
    assert (await bench.run(strict)).output == "x509: certificate signed by unknown authority"
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert (await bench.run(strict)).output == f"TCP connect {target}: Success"
    lax = CheckDefinition(tcp=target, tcp_use_tls=True, tls_skip_verify=True)
    assert (await bench.run(lax)).status is CheckStatus.PASSING
