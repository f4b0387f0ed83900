"""Blocking queries in numbers: does a storm of changes hold the loop, and what do idle watchers cost?"""

from __future__ import annotations

import http.client
import json
import re
import resource
import time
from itertools import count
from statistics import median

import trio
import trio.testing

from tests.bench.figure import Figure, informs, kilobytes, limit, milliseconds
from tests.bench.tools import resident_mb
from tests.system.agents import Agent, AgentFailed, Program, running

SERVICES = 1_000
FLIPS_PER_SECOND = 20
WATCHERS = 4
FLIPPING_S = 12.0
LAG_MS_MAX = 20.0
LAG_SERIES = re.compile(r"^(adsum_\w*loop_lag\w*max\w*)(?:\{[^}]*\})? ([\d.eE+-]+)$", re.MULTILINE)

IDLE_WATCHERS = 5_000
IDLE_WATCHED = "/v1/health/service/svc-0"
ANSWER_S_MAX = 20.0
# Consul closes the door at 200 connections of one client; both are told not to.
CONNECTIONS_ALLOWED = {"limits": {"http_max_conns_per_client": 12_000}}


def flipping(ours: Program, _consul: Program) -> list[Figure]:
    with running(ours, CONNECTIONS_ALLOWED) as agent:
        register(agent, SERVICES)
        seen = trio.run(flip_while_watched, agent)
        lag_ms = longest_lag_s(agent) * 1000
    name = f"loop held at most, {FLIPS_PER_SECOND} flips/s, {SERVICES:,} services"
    return [
        limit(name, lag_ms, LAG_MS_MAX, milliseconds),
        informs("  answers each watcher got a second", seen / WATCHERS / FLIPPING_S, None, "{:.1f}/s".format),
    ]


def register(agent: Agent, services: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=20)
    for number in range(services):
        definition = {
            "Name": f"svc-{number}",
            "Port": 8000,
            "Address": f"10.0.{number // 250}.{number % 250 + 1}",
            "Check": {"TTL": "1h", "Status": "passing"},
        }
        connection.request("PUT", "/v1/agent/service/register", json.dumps(definition))
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise AgentFailed(f"{agent.program.name} refused a registration: {answer.read()!r}")
        answer.read()
    connection.close()


async def flip_while_watched(agent: Agent) -> int:
    """How many answers the watchers got. A watcher takes the whole state of 1,000 services each time."""
    counts = [0] * WATCHERS

    def watch(which: int) -> None:
        target = "/v1/health/state/any"
        index = 0
        while time.monotonic() < end:
            answer, index = blocking_get(agent, f"{target}?index={index}&wait=1s")
            counts[which] += answer

    end = time.monotonic() + FLIPPING_S
    async with trio.open_nursery() as nursery:
        for which in range(WATCHERS):
            nursery.start_soon(trio.to_thread.run_sync, watch, which)
        for number in count():
            if time.monotonic() > end:
                break
            verb = "fail" if number // SERVICES % 2 == 0 else "pass"
            flip = f"/v1/agent/check/{verb}/service:svc-{number * 7 % SERVICES}"
            await trio.to_thread.run_sync(agent.put, flip)
            await trio.sleep(1 / FLIPS_PER_SECOND)
    return sum(counts)


def blocking_get(agent: Agent, target: str) -> tuple[int, int]:
    connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=20)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        answer.read()
        return 1, int(answer.headers["X-Consul-Index"])
    finally:
        connection.close()


def longest_lag_s(agent: Agent) -> float:
    _, body = agent.call("GET", "/metrics")
    found = [float(match[2]) for match in LAG_SERIES.finditer(body.decode())]
    if not found:
        raise AgentFailed("no series on /metrics tells the longest hold of the event loop")
    return max(found)


def idle_watchers(ours: Program, consul: Program) -> list[Figure]:
    """Blocked on one service that does not change, then woken all at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * IDLE_WATCHERS)), hard))
    mine, theirs = (one_agent(program) for program in (ours, consul))
    return [
        informs(f"memory of each of {IDLE_WATCHERS:,} blocked watchers", mine[0], theirs[0], kilobytes),
        informs("  change to the median watcher's answer", mine[1], theirs[1], milliseconds),
        informs("  change to the last watcher's answer", mine[2], theirs[2], milliseconds),
    ]


def one_agent(program: Program) -> tuple[float, float, float]:
    with running(program, CONNECTIONS_ALLOWED) as agent:
        register(agent, 1)
        before_mb = resident_mb(agent.pid)
        return trio.run(block_and_wake, agent, before_mb)


async def block_and_wake(agent: Agent, before_mb: float) -> tuple[float, float, float]:
    _, index = blocking_get(agent, IDLE_WATCHED)
    woken: list[float] = []
    streams = [await opened(agent, index) for _ in range(IDLE_WATCHERS)]
    await trio.sleep(2)
    each_kb = (resident_mb(agent.pid) - before_mb) * 1024 / IDLE_WATCHERS
    with trio.fail_after(ANSWER_S_MAX):
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(note_answer, stream, woken)
            await trio.testing.wait_all_tasks_blocked()
            started = trio.current_time()
            await trio.to_thread.run_sync(agent.put, "/v1/agent/check/fail/service:svc-0")
    delays = [(each - started) * 1000 for each in woken]
    return each_kb, median(delays), max(delays)


async def opened(agent: Agent, index: int) -> trio.SocketStream:
    stream = await trio.open_tcp_stream("127.0.0.1", agent.ports.http)
    target = f"{IDLE_WATCHED}?index={index}&wait=60s"
    await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return stream


async def note_answer(stream: trio.SocketStream, woken: list[float]) -> None:
    async with stream:
        first = await stream.receive_some()
        if not first.startswith(b"HTTP/1.1 200"):
            raise AgentFailed(f"a watcher got {first[:80]!r}")
        woken.append(trio.current_time())
