"""A host that falls silent, cable and all: nothing answers, nothing is refused. Both sides live in network
namespaces of the same make, one switch each, and lose one host a round in turn.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median

from tests.bench.figure import Figure, at_most, informs, seconds
from tests.bench.sides import Sides, Trial
from tests.bench.verdicts import KNOWN_S_MAX, REST_S
from tests.system.agents import AgentFailed, Program
from tests.system.clusters import Cluster, Status, gathered, sweeping
from tests.system.namespaces import Host, network, why_no_namespaces

AGENTS = 15
# A round hangs on when somebody's turn comes to probe the silent one: a second more or less.
TIMES_THE_ROUNDS = 3


def pulled_cable(ours: Program, consul: Program, trial: Trial) -> list[Figure]:
    if sentence := why_no_namespaces():
        print(f"cable: skipped: {sentence}", flush=True)
        return []
    with ExitStack() as made:
        hosts = [made.enter_context(network(AGENTS)).hosts for _ in range(2)]
        clusters = [
            made.enter_context(gathered(program, places))
            for program, places in zip((ours, consul), hosts, strict=True)
        ]

        def one(cluster: Cluster) -> float:
            which = trial.random.randrange(1, AGENTS)
            return silence(cluster, which, hosts[clusters.index(cluster)][which])

        mine, theirs = Sides(*clusters).alternate(TIMES_THE_ROUNDS * trial.rounds, one)
    return [
        at_most("a pulled cable known to every other host", median(mine), median(theirs), 0.9, seconds),
        informs("  slowest round", max(mine), max(theirs), seconds),
    ]


def silence(cluster: Cluster, which: int, host: Host) -> float:
    cluster.wait_for_one_view(KNOWN_S_MAX)
    time.sleep(REST_S)
    name = cluster.members[which].name
    pending = [member for member in cluster.members if member.name != name]
    host.pull_cable()
    started = time.monotonic()

    def all_know() -> bool:
        pending[:] = [member for member in pending if member.view().get(name) is not Status.FAILED]
        return not pending

    if not sweeping(all_know, within_s=KNOWN_S_MAX):
        raise AgentFailed(f"{cluster.program.name}: {pending[0].name} never noticed that {name} is silent")
    elapsed_s = time.monotonic() - started
    host.plug_in()
    return elapsed_s
