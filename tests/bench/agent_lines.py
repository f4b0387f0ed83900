"""What client agents cost a server: 5,000 connections to the servers' port, each of another agent that has
asked for a key; and 640 connections to the API of three client agents, whose writes all go to one leader.

The 5,000 are stand-ins in this process. They hold the cluster's key, as any agent would, and come from five
addresses, for a server lets in so many from one.
"""

from __future__ import annotations

import resource
import secrets
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from statistics import mean

import trio

from adsum import forwarded
from adsum.address import Address
from adsum.kv import KeyRead, ReadMode, ReadShape
from adsum.net import call_frames
from adsum.net.calls import CallConnection, NotSent
from adsum.net.gate import Gate, Security
from adsum.net.introduction import PeerIdentity, Purpose
from adsum.net.keyring import load
from adsum.storage.memory import MemoryDisk
from tests.bench.cluster import SERVERS, three_servers_and_clients
from tests.bench.figure import Figure, at_least, informs, kilobytes, limit, megabytes, per_second, plain
from tests.bench.keys import CONNECTIONS, SCRIPT
from tests.bench.tools import WRK_RATE, LoadFailed, found, resident_mb, run
from tests.system.agents import Agent, Program, running
from tests.system.clusters import Cluster, loopbacks

AGENTS = 5_000
SOURCES = 5
DIALLED_AT_ONCE = 10
ANSWER_S_MAX = 30.0
REST_S = 3.0
LINES_MB_MAX = 100.0

CLIENTS = 3
CROWD = 640
PEAK_S, PEAK_ROUNDS = 5.0, 3
CROWD_S = 20.0
CROWD_ROUNDS = 3
SERVED_MIN = 0.7


def agent_lines(ours: Program, _consul: Program) -> list[Figure]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * AGENTS)), hard))
    key = b64encode(secrets.token_bytes(32)).decode()
    with running(ours, {"encrypt": key}) as agent:
        before_mb = resident_mb(agent.pid)
        after_mb = trio.run(with_all_connected, agent, key)
    added_mb = after_mb - before_mb
    return [
        limit(f"{AGENTS:,} agents' connections to a server", added_mb, LINES_MB_MAX, megabytes),
        informs("  each", added_mb * 1024 / AGENTS, None, kilobytes),
    ]


async def with_all_connected(agent: Agent, key: str) -> float:
    """What the server has in memory then."""
    may_dial = trio.CapacityLimiter(DIALLED_AT_ONCE)
    async with trio.open_nursery() as living:
        async with trio.open_nursery() as asking:
            for number in range(AGENTS):
                asking.start_soon(stand_in, number, agent, key, living, may_dial)
        await trio.sleep(REST_S)
        size_mb = resident_mb(agent.pid)
        living.cancel_scope.cancel()
    return size_mb


async def stand_in(
    number: int, agent: Agent, key: str, living: trio.Nursery, may_dial: trio.CapacityLimiter
) -> None:
    identity = PeerIdentity(number.to_bytes(16, "big"))
    source = f"127.0.1.{1 + number % SOURCES}"
    gate = Gate(lambda: identity, Security(load(MemoryDisk(), key), "dc1", from_host=source))
    to = Address("127.0.0.1", agent.ports.server)
    payload_bytes_max = call_frames.PAYLOAD_BYTES_MAX
    line = CallConnection(
        partial(gate.dial, to, Purpose.KEYS, payload_bytes_max=payload_bytes_max), Random(number)
    )
    question = forwarded.encode(KeyRead(ReadShape.KEY, b"nothing", mode=ReadMode.STALE))
    async with may_dial:
        living.start_soon(line.run)
        with trio.fail_after(ANSWER_S_MAX):
            while not await is_answered(line, question):
                pass  # the line waits before it dials again


async def is_answered(line: CallConnection, question: bytes) -> bool:
    """A server that is busy lets nobody in who is slow to say hello: an agent asks again, and so do these."""
    try:
        await line.ask(forwarded.READ, question, timeout_s=ANSWER_S_MAX)
    except NotSent:
        return False
    return True


def crowd_of_writers(ours: Program, _consul: Program) -> list[Figure]:
    with three_servers_and_clients(ours, loopbacks(SERVERS + CLIENTS)) as cluster:
        clients = [member.agent for member in cluster.members[SERVERS:]]
        while not (leader := clients[0].get_json("/v1/status/leader")):
            time.sleep(REST_S)
        written(clients, CONNECTIONS, PEAK_S)
        before = term_of(cluster)
        peak = max(written(clients, CONNECTIONS, PEAK_S) for _ in range(PEAK_ROUNDS))
        served = mean(written(clients, CROWD, CROWD_S) for _ in range(CROWD_ROUNDS))
        lost = term_of(cluster) - before + (clients[0].get_json("/v1/status/leader") != leader)
    seconds = CROWD_S * CROWD_ROUNDS
    return [
        at_least(f"puts of {CROWD} connections, of {CONNECTIONS}'s", served, peak, SERVED_MIN, per_second),
        limit(f"  leaders lost in those {seconds:.0f} s", lost, 0, plain),
    ]


def written(clients: list[Agent], connections: int, seconds: float) -> float:
    """A second. Each client agent has its part of the connections, and a process that writes through them."""
    each = partial(written_through, connections=connections // len(clients), seconds=seconds)
    with ThreadPoolExecutor(len(clients)) as pool:
        return sum(pool.map(each, clients))


def written_through(agent: Agent, connections: int, seconds: float) -> float:
    url = f"http://127.0.0.1:{agent.ports.http}"
    options = ["-t1", f"-c{connections}", f"-d{seconds:.0f}s", f"--timeout={ANSWER_S_MAX:.0f}s"]
    output = run("wrk", *options, "-s", str(SCRIPT), url, "--", "PUT")
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return float(found(WRK_RATE, output))


def term_of(cluster: Cluster) -> int:
    servers = [member.agent for member in cluster.members[:SERVERS]]
    return max(int(server.get_json("/v1/agent/self")["Stats"]["raft"]["term"]) for server in servers)
