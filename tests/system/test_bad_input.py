"""Noise on every port of a real agent: it answers afterwards, its log stays short and its memory small."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable

import dns.exception
import dns.message
import dns.query

from tests.bench.tools import resident_mb
from tests.system.agents import Agent, until

SEED = 20_261_118
DATAGRAMS = 3_000
STREAMS = 200
NOISE_BYTES_MAX = 1_500
LOG_LINES_MAX = 30
GROWTH_MB_MAX = 20.0
PATIENCE_S = 5.0
RETRY_S = 1.0


def test_noise_on_every_port_is_dropped(agent: Agent) -> None:
    answers(agent)
    before_mb, lines = resident_mb(agent.pid), len(agent.log().splitlines())
    noise = random.Random(SEED)
    for port in ports(agent):
        send_datagrams(port, noise)
        send_streams(port, noise)
    answers(agent)
    assert len(agent.log().splitlines()) - lines <= LOG_LINES_MAX
    assert resident_mb(agent.pid) - before_mb <= GROWTH_MB_MAX


def test_damaged_questions_do_not_stop_good_ones(agent: Agent) -> None:
    """Bytes of a real question, one or a few of them changed: past the first look, into the parser."""
    good = dns.message.make_query("n1.node.consul", "SRV", use_edns=0, payload=1232).to_wire()
    noise = random.Random(SEED)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", agent.ports.dns))
        for _ in range(DATAGRAMS):
            asker.send(damaged(good, noise))
    answers(agent)


def test_damaged_requests_do_not_stop_good_ones(agent: Agent) -> None:
    head = b"PUT /v1/agent/service/register HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n"
    good = head + b'{"Name":"web"}'
    noise = random.Random(SEED)
    for _ in range(STREAMS * 2):
        send_stream(agent.ports.http, damaged(good, noise))
    answers(agent)


def test_half_requests_do_not_keep_others_waiting(agent: Agent) -> None:
    halves = [socket.create_connection(("127.0.0.1", agent.ports.http)) for _ in range(STREAMS)]
    for half in halves:
        half.sendall(b"GET /v1/agent/self HTTP/1.1\r\nHost: loc")
    answers(agent)
    for half in halves:
        half.close()
    answers(agent)


def answers(agent: Agent) -> None:
    """DNS over both transports and HTTP, as a user would notice them."""
    assert agent.get_json("/v1/agent/self")["Config"]["NodeName"] == "n1"
    # A flood fills the socket's buffer and the question behind it may be lost, so ask as resolvers do.
    assert until(lambda: addresses(agent, dns.query.udp) == ["127.0.0.1"], within_s=PATIENCE_S)
    assert addresses(agent, dns.query.tcp) == ["127.0.0.1"]


def addresses(agent: Agent, ask: Callable[..., dns.message.Message]) -> list[str]:
    query = dns.message.make_query("n1.node.consul", "A")
    try:
        response = ask(query, "127.0.0.1", RETRY_S, agent.ports.dns)
    except dns.exception.Timeout:
        return []
    return [str(each[0]) for each in response.answer]


def ports(agent: Agent) -> list[int]:
    own = agent.ports
    return [own.http, own.dns, own.serf_lan, own.serf_wan, own.server]


def send_datagrams(port: int, noise: random.Random) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(DATAGRAMS):
            sender.sendto(noise.randbytes(noise.randrange(NOISE_BYTES_MAX)), ("127.0.0.1", port))


def send_streams(port: int, noise: random.Random) -> None:
    for _ in range(STREAMS):
        send_stream(port, noise.randbytes(noise.randrange(NOISE_BYTES_MAX)))


def send_stream(port: int, data: bytes) -> None:
    """Sends and leaves, without waiting for what the agent thinks of it."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stream:
            stream.sendall(data)
    except ConnectionError:
        return


def damaged(good: bytes, noise: random.Random) -> bytes:
    data = bytearray(good)
    for _ in range(noise.randint(1, 4)):
        data[noise.randrange(len(data))] = noise.randrange(256)
    return bytes(data[: noise.randint(1, len(data))]) if noise.random() < 0.2 else bytes(data)
