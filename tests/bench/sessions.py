"""Sessions, locks and transactions: three servers and a client agent of each, up together, load by turns.

Then what ten thousand sessions that are renewed cost our leader, and whether any ends while writes flood it.
"""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import msgspec

from tests.bench.cluster import client_of, three_servers_and_a_client
from tests.bench.figure import Figure, at_least, limit, milliseconds, per_second, plain
from tests.bench.keys import fill, leader_of, wrk
from tests.bench.tools import WRK_RATE, LoadFailed, cpu_s, found, run
from tests.system.agents import Agent, Program
from tests.system.clusters import Cluster

SCRIPT = Path(__file__).parent / "sessions.lua"
ROUNDS, ROUND_S = 5, 3.0
CONNECTIONS = 64
HOLDERS = 64
OPERATIONS_MAX = {True: 128, False: 64}  # in one transaction: ours, and Consul's of this version
RENEWED, RENEWED_EVERY_S, RENEWALS_S = 10_000, 10.0, 30.0
RENEWERS = 256  # connections that keep on renewing, one after the other on each
CREATORS = 8
RENEWED_SHARE_MIN = 0.95  # of what was to be renewed: with less the figures would be of another load
CORE_SHARE_MAX, RENEWAL_P99_MS_MAX = 0.05, 1_000.0
FLOOD_CONNECTIONS, FLOOD_S = 640, 55.0
TTL_S = 30  # it ends after twice that; to create ten thousand beside other load takes some of it


def sessions_side_by_side(ours: Program, consul: Program) -> list[Figure]:
    with three_servers_and_a_client(ours) as mine, three_servers_and_a_client(consul) as theirs:
        pair = mine, theirs
        figures = [transactions(pair), locks(pair), creations(pair)]
    with three_servers_and_a_client(ours) as alone:
        return [*figures, *renewals(alone)]


def transactions(pair: tuple[Cluster, Cluster]) -> Figure:
    rates: tuple[list[float], list[float]] = ([], [])
    for which in _turns():
        operations = OPERATIONS_MAX[which == 0]
        rate = loaded(leader_of(pair[which]), "transactions", [str(operations)], ROUND_S)
        rates[which].append(rate * operations)
    return at_least(
        "operations in transactions, at the leader", median(rates[0]), median(rates[1]), 1.5, per_second
    )


def locks(pair: tuple[Cluster, Cluster]) -> Figure:
    """Of a key each: acquired and released, without a delay in between."""
    rates: tuple[list[float], list[float]] = ([], [])
    holders = [[created(leader_of(cluster)) for _ in range(HOLDERS)] for cluster in pair]
    for which in _turns():
        rates[which].append(loaded(leader_of(pair[which]), "locks", holders[which], ROUND_S))
    return at_least("acquire and release, 64 clients", median(rates[0]), median(rates[1]), 2.0, per_second)


def creations(pair: tuple[Cluster, Cluster]) -> Figure:
    rates: tuple[list[float], list[float]] = ([], [])
    for which in _turns():
        rates[which].append(loaded(leader_of(pair[which]), "creations", [""], ROUND_S))
    return at_least("create and destroy a session", median(rates[0]), median(rates[1]), 1.5, per_second)


def _turns() -> Iterator[int]:
    for number in range(ROUNDS):
        yield from (0, 1) if number % 2 == 0 else (1, 0)


def renewals(cluster: Cluster) -> list[Figure]:
    client, leader = client_of(cluster), leader_of(cluster)
    fill(leader, 1, 1)
    with ThreadPoolExecutor(CREATORS) as creating:
        ids = list(creating.map(lambda _: created(client, ttl_s=TTL_S), range(RENEWED)))
    with renewing(client, ids) as renewers:
        time.sleep(RENEWED_EVERY_S)
        renewers.latencies_s.clear()
        before_s, began_s = cpu_s(leader.pid), time.monotonic()
        time.sleep(RENEWALS_S)
        share = (cpu_s(leader.pid) - before_s) / (time.monotonic() - began_s)
        if len(renewers.latencies_s) < RENEWED_SHARE_MIN * RENEWED * RENEWALS_S / RENEWED_EVERY_S:
            raise LoadFailed(f"only {len(renewers.latencies_s)} sessions were renewed in {RENEWALS_S} s")
        renewers.latencies_s.clear()
        wrk(leader, FLOOD_CONNECTIONS, FLOOD_S, "PUT")
        late_s = quantiles(renewers.latencies_s, n=100)[98]
    return [
        limit("leader's core, 10,000 sessions renewed in 10 s", 100 * share, 100 * CORE_SHARE_MAX, percent),
        limit("renewal's p99 beside 640 writers", 1_000 * late_s, RENEWAL_P99_MS_MAX, milliseconds),
        limit("sessions that ended meanwhile", renewers.ended, 0, plain),
    ]


def percent(value: float) -> str:
    return f"{value:.1f} %"


class Renewers:
    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.ended = 0
        self.is_done = False

    def renew(self, agent: Agent, ids: list[str]) -> None:
        """Each once in the interval, evenly spread; what is late goes on at once."""
        connection = http.client.HTTPConnection("127.0.0.1", agent.ports.http, timeout=60)
        due_s = time.monotonic()
        while not self.is_done:
            for session in ids:
                due_s = max(due_s + RENEWED_EVERY_S / len(ids), time.monotonic() - RENEWED_EVERY_S)
                time.sleep(max(0.0, due_s - time.monotonic()))
                began_s = time.monotonic()
                connection.request("PUT", f"/v1/session/renew/{session}")
                answer = connection.getresponse()
                answer.read()
                self.latencies_s.append(time.monotonic() - began_s)
                self.ended += answer.status == 404
                if self.is_done:
                    return


@contextmanager
def renewing(agent: Agent, ids: list[str]) -> Iterator[Renewers]:
    renewers = Renewers()
    threads = [
        threading.Thread(target=renewers.renew, args=(agent, ids[number::RENEWERS]))
        for number in range(RENEWERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield renewers
    finally:
        renewers.is_done = True
        for thread in threads:
            thread.join()


def created(agent: Agent, *, ttl_s: int = 0) -> str:
    wanted = {"LockDelay": "0s", **({"TTL": f"{ttl_s}s"} if ttl_s else {})}
    status, body = agent.put("/v1/session/create", wanted)
    if status != 200:
        raise LoadFailed(f"no session was created: {body!r}")
    return str(msgspec.json.decode(body)["ID"])


def loaded(agent: Agent, what: str, lines: list[str], seconds: float) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        options = ["-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "-s", str(SCRIPT)]
        url = f"http://127.0.0.1:{agent.ports.http}"
        output = run("wrk", *options, url, "--", what, file.name)
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return float(found(WRK_RATE, output))
