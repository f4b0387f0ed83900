"""What others notice while somebody asks for what is dear: unusual DNS packets, and filters full of patterns.

One agent by itself. Latencies are of single questions asked one after the other, as a program asks that needs
an address; the flood comes from a process of its own, in bursts of a few milliseconds.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from statistics import quantiles
from urllib.parse import quote

from tests.bench.figure import Figure, at_most, limit, milliseconds
from tests.bench.side_by_side import HEALTH, register_services
from tests.system.agents import ROOT, Agent, AgentFailed, Program, running

WATCHED_S = 10.0
UNUSUAL_A_SECOND = 3_000
DNS_RATIO_MAX = 5.0
FILTERS_A_SECOND = 10
HTTP_P99_MS_MAX = 50.0
PAUSE_S = 0.002  # between two questions: a user, not a load
PATIENCE_S = 5.0
QUESTION = bytes.fromhex("1234 0100 0001 0000 0000 0000") + b"\x06svc-07\x07service\x06consul\0\0\x01\0\x01"
# As long as the target of a request may be: each pattern is small, and together they are not.
PATTERNS = " or ".join(f'Notes matches "a.{{{400 + number % 90}}}b"' for number in range(250))


def floods(ours: Program, _consul: Program) -> list[Figure]:
    with running(ours) as agent:
        register_services(agent)
        register_bait(agent)
        quiet_ms = dns_p99_ms(agent)
        with flood("dns", agent.ports.dns):
            flooded_ms = dns_p99_ms(agent)
        with flood("filters", agent.ports.http):
            http_ms = http_p99_ms(agent)
    dns = f"DNS p99, {UNUSUAL_A_SECOND:,} unusual packets a second"
    http = f"HTTP p99, a 7 KB filter {FILTERS_A_SECOND} times a second"
    return [
        at_most(dns, flooded_ms, quiet_ms, DNS_RATIO_MAX, milliseconds),
        limit(http, http_ms, HTTP_P99_MS_MAX, milliseconds),
    ]


def register_bait(agent: Agent) -> None:
    """A text that such a pattern may begin to match at each character, and never does."""
    status, body = agent.put(
        "/v1/agent/check/register", {"Name": "bait", "Notes": "a" * 300, "TTL": "1h", "Status": "passing"}
    )
    if status != http.client.OK:
        raise AgentFailed(f"{agent.program.name} refused a registration: {status} {body!r}")


@contextmanager
def flood(kind: str, port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.bench.flood", kind, str(port)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            time.sleep(1.0)  # until it runs
            yield
            if process.poll() is not None:
                raise AgentFailed(f"the flood of {kind} ended with {process.returncode}")
        finally:
            process.kill()


def dns_p99_ms(agent: Agent) -> float:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", agent.ports.dns))
        asker.settimeout(PATIENCE_S)

        def ask() -> None:
            asker.send(QUESTION)
            asker.recv(4_096)

        return p99_ms(ask)


def http_p99_ms(agent: Agent) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=PATIENCE_S)

    def ask() -> None:
        try:
            connection.request("GET", HEALTH)
            connection.getresponse().read()
        except OSError:
            connection.close()  # what comes late is no answer to the next
            raise

    try:
        return p99_ms(ask)
    finally:
        connection.close()


def p99_ms(ask: Callable[[], None]) -> float:
    """What is lost counts as long as it was waited for."""
    taken_ms = []
    end = time.monotonic() + WATCHED_S
    while (begun := time.monotonic()) < end:
        with suppress(OSError):
            ask()
        taken_ms.append((time.monotonic() - begun) * 1_000)
        time.sleep(PAUSE_S)
    return quantiles(taken_ms, n=100)[98]


# The process that floods.


def send_unusual(port: int) -> None:
    """Answers are left unread: the sender wants none."""
    packets = unusual_packets()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        begun, sent = time.monotonic(), 0
        while True:
            while sent < (time.monotonic() - begun) * UNUSUAL_A_SECOND:
                sender.send(packets[sent % len(packets)])
                sent += 1
            time.sleep(PAUSE_S)


def unusual_packets() -> list[bytes]:
    """Each of a kind that a parser of everything would take long over: names behind pointers, many strings,
    many options."""
    header = bytes.fromhex("1234 0100 0001 0000 0000 0008")
    long_name = b"\x01a" * 100 + b"\0"
    pointers = b"".join(b"\xc0\x0c" + bytes.fromhex("0005 0001 00000000 0002 c00c") for _ in range(8))
    strings = b"\0" + bytes.fromhex("0010 0001 00000000") + (200).to_bytes(2) + b"\x01x" * 100
    option = bytes.fromhex("fde90000")
    options = b"\0" + bytes.fromhex("0029 04d0 00000000") + (1_200).to_bytes(2) + option * 300
    question = bytes.fromhex("0001 0001")
    return [
        header + long_name + question + pointers,
        header + long_name + question + strings * 8,
        header[:10] + b"\0\x01" + long_name + question + options,
    ]


def ask_filters(port: int) -> None:
    number = 0
    while True:
        begun = time.monotonic()
        number += 1
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        filtered = quote(f'{PATTERNS} or Name == "{number}"')
        connection.request("GET", f"/v1/health/node/n1?filter={filtered}")
        connection.getresponse().read()
        connection.close()
        time.sleep(max(0.0, 1 / FILTERS_A_SECOND - (time.monotonic() - begun)))


FLOODS = {"dns": send_unusual, "filters": ask_filters}

if __name__ == "__main__":
    FLOODS[sys.argv[1]](int(sys.argv[2]))
