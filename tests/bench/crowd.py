"""5,000 clients blocked on one service at one client agent, woken by a change that another agent makes; and
10,000 blocked on keys at one client agent, half of them with a read of their own, woken by one write.

The clients are one loop over raw sockets, because they share two cores with what they measure: whatever a
client costs would be counted as waiting. A client has its answer with the first bytes of it.
"""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from statistics import median

from tests.bench.cluster import client_of, three_servers_and_a_client
from tests.bench.figure import Figure, informs, kilobytes, limit, microseconds, milliseconds
from tests.bench.tools import cpu_s, resident_mb
from tests.bench.watchers import CONNECTIONS_ALLOWED, blocking_get
from tests.system.agents import Agent, AgentFailed, Program

CLIENTS = 5_000
KEY_CLIENTS = 10_000
ROUNDS = 5
KEY_ROUNDS = 3
WATCHED = "/v1/health/service/svc-07"
CHANGED = "service:svc-07-0"
WATCHED_KEYS = "/v1/kv/crowd/?recurse"
CHANGED_KEY = "/v1/kv/crowd/one"
# Longer than an owner rests between two changes of one thing (a second), and for all to be parked.
REST_S = 3.0
ANSWER_S_MAX = 30.0
LAST_MS_MAX = 250.0
EACH_KEY_US_MAX = 200.0
EACH_KB_MAX = 10.0
ANSWER_BYTES_MAX = 64 * 1024


class Crowd:
    def __init__(self, agent: Agent, made: ExitStack, watched: Sequence[str]) -> None:
        """What each of them watches."""
        self._agent = agent
        self._watched = watched
        self._poll = select.epoll()
        made.callback(self._poll.close)
        self._clients = [made.enter_context(self._client()) for _ in watched]
        self._by_number = {client.fileno(): client for client in self._clients}

    def _client(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self._agent.ports.http))
        self._poll.register(client, select.EPOLLIN)
        return client

    def block(self) -> None:
        """All ask what changes after now; whoever is answered before the change makes it worthless."""
        _, index = blocking_get(self._agent, self._watched[0])
        for client, target in zip(self._clients, self._watched, strict=True):
            asked = f"{target}{'&' if '?' in target else '?'}index={index}&wait=60s"
            client.sendall(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(REST_S)
        if self._poll.poll(0):
            raise AgentFailed(f"{self._agent.program.name} answered a watcher before anything changed")

    def delays_s(self, since_s: float) -> list[float]:
        """How long after that each had its answer. What is left of an answer is read and thrown away."""
        answered: dict[int, float] = {}
        for number, received, at_s in self._arrivals(since_s + ANSWER_S_MAX):
            if number in answered:
                continue
            if not received.startswith(b"HTTP/1.1 200"):
                raise AgentFailed(f"{self._agent.program.name}: a watcher got {received[:80]!r}")
            answered[number] = at_s - since_s
            if len(answered) == len(self._clients):
                return list(answered.values())
        raise AgentFailed(
            f"{self._agent.program.name}: {len(answered)} of {len(self._clients)} watchers were answered"
        )

    def drain(self) -> None:
        for _ in self._arrivals(time.monotonic() + REST_S):
            pass

    def _arrivals(self, until_s: float) -> Iterator[tuple[int, bytes, float]]:
        while (left_s := until_s - time.monotonic()) > 0:
            for number, _ in self._poll.poll(left_s):
                received = self._by_number[number].recv(ANSWER_BYTES_MAX)
                if not received:
                    raise AgentFailed(f"{self._agent.program.name} closed the connection of a watcher")
                yield number, received, time.monotonic()


def crowds(ours: Program, consul: Program) -> list[Figure]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * KEY_CLIENTS)), hard))
    mine, theirs = (one_crowd(program) for program in (ours, consul))
    return [
        limit(f"change elsewhere to the last of {CLIENTS:,} watchers", mine[0], LAST_MS_MAX, milliseconds),
        informs("  median round", mine[1], theirs[1], milliseconds),
        informs("  slowest round", mine[0], theirs[0], milliseconds),
        informs("  change to the median watcher's answer", mine[2], theirs[2], milliseconds),
        limit("memory of each of them", mine[3], EACH_KB_MAX, kilobytes),
        informs("  beside Consul's", mine[3], theirs[3], kilobytes),
    ]


def one_crowd(program: Program) -> tuple[float, float, float, float]:
    """The last answer in the slowest and in the median round, the median answer, and memory of each."""
    last_ms: list[float] = []
    median_ms: list[float] = []
    with three_servers_and_a_client(program, CONNECTIONS_ALLOWED) as cluster, ExitStack() as made:
        agent, owner = client_of(cluster), cluster.members[0].agent
        before_mb = resident_mb(agent.pid)
        crowd = Crowd(agent, made, [WATCHED] * CLIENTS)
        crowd.block()
        each_kb = (resident_mb(agent.pid) - before_mb) * 1024 / CLIENTS
        for number in count(1):
            changed_s = time.monotonic()
            owner.put(f"/v1/agent/check/{'fail' if number % 2 else 'pass'}/{CHANGED}")
            delays_s = crowd.delays_s(changed_s)
            last_ms.append(max(delays_s) * 1000)
            median_ms.append(median(delays_s) * 1000)
            if number == ROUNDS:
                break
            crowd.drain()
            crowd.block()
    return max(last_ms), median(last_ms), median(median_ms), each_kb


def crowd_of_keys(ours: Program, _consul: Program) -> list[Figure]:
    """All ask through one client agent. Equal reads are one to the server; the others are a call each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * KEY_CLIENTS)), hard))
    watched = [f"/v1/kv/crowd/?keys&separator={number}" for number in range(KEY_CLIENTS // 2)]
    watched += [WATCHED_KEYS] * (KEY_CLIENTS - len(watched))
    last_ms: list[float] = []
    each_us: list[float] = []
    with three_servers_and_a_client(ours, CONNECTIONS_ALLOWED) as cluster, ExitStack() as made:
        agent, writer = client_of(cluster), cluster.members[0].agent
        agent.call("PUT", CHANGED_KEY, b"0")
        before_mb = resident_mb(agent.pid)
        crowd = Crowd(agent, made, watched)
        for number in range(1, KEY_ROUNDS + 1):
            crowd.block()
            each_kb = (resident_mb(agent.pid) - before_mb) * 1024 / KEY_CLIENTS
            changed_s, used_s = time.monotonic(), cpu_s(agent.pid)
            writer.call("PUT", CHANGED_KEY, b"%d" % number)
            last_ms.append(max(crowd.delays_s(changed_s)) * 1000)
            each_us.append((cpu_s(agent.pid) - used_s) * 1e6 / KEY_CLIENTS)
            crowd.drain()
    name = f"{KEY_CLIENTS:,} blocked reads of keys answered: processor time for each"
    return [
        limit(name, median(each_us), EACH_KEY_US_MAX, microseconds),
        informs("  a write to the last of them, median round", median(last_ms), None, milliseconds),
        informs("  memory of each", each_kb, None, kilobytes),
    ]
