from __future__ import annotations

import socket

import trio

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.health_checks.runner import CheckResult
from adsum.now import MILLISECOND, SECOND
from tests.health_checks.support import Bench


async def test_reply_passes_at_once(bench: Bench) -> None:
    with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as server:
        await server.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{server.getsockname()[1]}"
        results: list[CheckResult] = []

        async def check() -> None:
            results.append(await bench.run(CheckDefinition(udp=target, timeout_ns=60 * SECOND)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            data, sender = await server.recvfrom(100)
            await server.sendto(b"pong", sender)
    assert data == b""
    assert results == [CheckResult(CheckStatus.PASSING, f"UDP connect {target}: Success")]
    assert bench.counters.timeouts == 0


async def test_silence_until_the_timeout_passes(bench: Bench) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        result = await bench.run(CheckDefinition(udp=target, timeout_ns=50 * MILLISECOND))
    assert result == CheckResult(CheckStatus.PASSING, f"UDP connect {target}: Success")


async def test_refusal_by_icmp_is_critical(bench: Bench) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{sock.getsockname()[1]}"
    result = await bench.run(CheckDefinition(udp=target))
    assert result == CheckResult(CheckStatus.CRITICAL, f"read udp {target}: read: connection refused")


async def test_missing_port_is_critical(bench: Bench) -> None:
    result = await bench.run(CheckDefinition(udp="127.0.0.1"))
    assert result.output == "dial udp: address 127.0.0.1: missing port in address"


async def test_a_host_with_a_nul_in_it_is_no_bug_of_ours(bench: Bench) -> None:
    result = await bench.run(CheckDefinition(udp="a\0b:80"))
    assert result == CheckResult(CheckStatus.CRITICAL, "dial udp: lookup a\0b: no such host")
    assert bench.counters.internal_errors == 0
