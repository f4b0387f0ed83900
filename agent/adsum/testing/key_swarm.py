"""Keys through client agents, while servers are killed, paused and cut off: one seed is one run.

python -m adsum.testing.key_swarm --seeds 200 --first 0
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from random import Random

from adsum.agent.forwarding import HOLD_NS
from adsum.now import SECOND
from adsum.testing.checkers import demand
from adsum.testing.key_clients import KeyClient, KeyWatcher, KeyWriter
from adsum.testing.key_world import KeyAgent, KeyWorld
from adsum.testing.linearizability import HistoryVerdict, verdict
from adsum.testing.raft_nemesis import Nemesis
from adsum.testing.seed_range import seed_range, seeds_parser

AGENTS = 3
CLIENTS_EACH = 2
WATCHERS_EACH = 3
FAULTS_S = 30
RECOVERY_S = 40
# What harms no disk, and no membership.
KINDS = (
    *("loss", "delay", "slow_network", "split", "split_leader", "one_way", "crash", "crash_leader"),
    *("pause", "suspend", "stall_disk", "slow_disk", "compact", "transfer", "campaign"),
)
BRIEF_ONE_IN = 3  # of the seeds hold requests for so short a time that many are refused
BRIEF_HOLD_NS = SECOND // 2
REBORN_ONE_IN = 3  # of the seeds have a client agent that is started again


@dataclass(frozen=True, slots=True)
class KeyRun:
    seed: int
    digest: int
    operations: int
    unknown: int
    refused: int
    doubtful: int  # writes of which a try may have been done, when they were tried again
    joined: int  # watches that were asked once with others
    changes_seen: int
    is_decided: bool  # whether the answers fit an order of events; of some histories that takes too long


def run(seed: int) -> KeyRun:
    """Raises `Violation`."""
    random = Random(f"keys {seed}")
    world = KeyWorld(seed=random.getrandbits(64))
    hold_ns = BRIEF_HOLD_NS if seed % BRIEF_ONE_IN == 1 else HOLD_NS
    agents = [
        KeyAgent(world, number, Random(random.getrandbits(64)), hold_ns=hold_ns) for number in range(AGENTS)
    ]
    world.run_for(2 * SECOND)
    clients = [
        KeyClient(agent, number * CLIENTS_EACH + each, Random(random.getrandbits(64)))
        for number, agent in enumerate(agents)
        for each in range(CLIENTS_EACH)
    ]
    writer = KeyWriter(agents[0], Random(random.getrandbits(64)))
    watchers = [
        KeyWatcher(agent, Random(random.getrandbits(64))) for agent in agents for _ in range(WATCHERS_EACH)
    ]
    nemesis = Nemesis(world.raft, Random(random.getrandbits(64)))
    nemesis.begin(random.sample(KINDS, random.randint(2, 6)))
    doubtful = joined = 0
    if seed % REBORN_ONE_IN == 0:
        reborn = random.choice(agents)
        world.run_for(random.randrange(FAULTS_S * SECOND // 2))
        doubtful, joined = reborn.core.counters.doubtful, reborn.core.counters.joined
        reborn.begin()
    world.run_for(FAULTS_S * SECOND)
    nemesis.end()
    for client in clients:
        client.is_done = True
    writer.is_done = True

    def is_settled() -> bool:
        return writer.is_acknowledged and all(watcher.value == writer.last for watcher in watchers)

    has_come_back = world.run_until_so(is_settled, within_ns=RECOVERY_S * SECOND)
    seen = [watcher.value for watcher in watchers]
    demand(has_come_back, f"{writer.last} was written at last, and watchers saw {seen}")
    for client in clients:
        for value in client.refused:
            written = value.encode() in world.written.revision_of
            demand(not written, f"{value} was refused, and it is written")
    history = [operation for client in clients for operation in client.history]
    judged = [each for each in history if each.answer is not None or each.call.verb != "get"]
    judgement = verdict(judged)
    demand(judgement is not HistoryVerdict.IMPOSSIBLE, "the answers fit no order of events")
    counters = [agent.core.counters for agent in agents]
    return KeyRun(
        seed,
        world.digest,
        len(judged),
        sum(client.unknown for client in clients),
        sum(len(client.refused) for client in clients),
        doubtful + sum(each.doubtful for each in counters),
        joined + sum(each.joined for each in counters),
        sum(watcher.changes for watcher in watchers),
        is_decided=judgement is HistoryVerdict.LINEARIZABLE,
    )


def main(arguments: list[str]) -> int:
    chosen = seeds_parser(__doc__ or "", seeds=100).parse_args(arguments)
    began_s, runs, failed, undecided = time.monotonic(), 0, 0, 0
    for seed in seed_range(chosen):
        runs += 1
        try:
            undecided += not run(seed).is_decided
        except Exception as violation:  # whatever is raised is a finding
            failed += 1
            print(f"seed {seed}: {type(violation).__name__}: {violation}", flush=True)
    print(f"{runs} seeds in {time.monotonic() - began_s:.0f} s: {failed} failed, {undecided} undecided.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
