"""Keys through client agents, while everything goes wrong that may: one seed is one run of three servers and
three agents, one mix of faults, and one verdict.

For a minute faults happen, while the workloads go on; then they end, and all that is asked has to be
answered again. In the end every client was told what fits one order of events, by two checkers, and whoever
watches has seen the last change.

    python -m adsum.testing.key_swarm --seeds 1000

runs seeds on every processor, prints which fault met which operation how often, and the trace of the first
seed that fails. `--first` runs the same again.

**To add a workload**, write a module beside `key_registers.py`, with a function that takes the agents and a
`Random` and returns who takes part: clients that say what they ask (`KeyClient`), or anything that can stop
and settle (`KeyParticipant`). List it in `WORKLOADS`, with keys and a range of client numbers of its own.
Each request is a `KeyCall`, which records it for the judgement and for the table: a request of a new kind
gets a name in `JudgedRequest.name` and a column in its `OPERATIONS`. A new command gets its rule in
`key_model.py` and its words in `key_witness.py`, and what it means for each register in `key_judgement.py`.
What no register shows (who held a lock, when a session ended) is judged beside it, from the same operations:
in a module of its own, called in `KeySwarmRun.through`.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from adsum.kv import StoreAnswer
from adsum.now import SECOND
from adsum.testing.client_swarm import ClientSwarmRun, SwarmReport, hold_ns, results_bytes_max
from adsum.testing.fault_table import Met
from adsum.testing.judged_request import OPERATIONS
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_clients import KeyParticipant
from adsum.testing.key_compares import compares
from adsum.testing.key_judgement import judge_keys
from adsum.testing.key_nemesis import FAULTS, KeyNemesis
from adsum.testing.key_registers import registers
from adsum.testing.key_sets import sets
from adsum.testing.key_watches import KeyWatcher, watches
from adsum.testing.key_world import KeyWorld
from adsum.testing.seed_range import seed_range, seeds_parser

WORKLOADS: tuple[Callable[[Sequence[KeyAgent], Random], Sequence[KeyParticipant]], ...] = (
    *(registers, compares, sets, watches),
)
FAULTS_S = 60
RECOVERY_S = 40


@dataclass(frozen=True, slots=True)
class KeySwarmOutcome:
    seed: int
    kinds: tuple[str, ...]
    digest: int
    simulated_s: int
    answered: int
    unknown: int
    refused: int
    doubtful: int  # writes of which a try may have been done, when they were tried again
    joined: int  # watches that were asked once with others
    changes_seen: int
    met: Met
    failure: str = ""
    trace: str = ""


class KeySwarmRun(ClientSwarmRun):
    def __init__(self, seed: int, *, kinds: Sequence[str] = (), is_traced: bool = False) -> None:
        """Without `kinds` the seed chooses them, too."""
        random = Random(f"keys {seed}")
        self.seed = seed
        self.world = KeyWorld(
            seed=random.getrandbits(64),
            results_bytes_max=results_bytes_max(seed),
            hold_ns=hold_ns(seed),
            is_traced=is_traced,
        )
        chosen = kinds or random.sample(FAULTS, random.randint(3, 8))
        nemesis = KeyNemesis(self.world, Random(random.getrandbits(64)))
        super().__init__(self.world, nemesis, chosen, random)

    def through(self) -> None:
        """Raises `Violation`."""
        workloads = [partial(workload, self.world.agents) for workload in WORKLOADS]
        self.go_through(workloads, faults_s=FAULTS_S, recovery_s=RECOVERY_S)
        judge_keys(self.world.operations, self.world.written)

    @property
    def answered(self) -> int:
        return sum(each.outcome is not None and each.name != "watch" for each in self.world.operations)

    def outcome(self, failure: str = "") -> KeySwarmOutcome:
        world, raft = self.world, self.world.raft
        operations = world.operations
        writes = [each for each in operations if each.is_write]
        watchers = [each for each in self.participants if isinstance(each, KeyWatcher)]
        counters = [agent.core.counters for agent in world.agents]
        return KeySwarmOutcome(
            seed=self.seed,
            kinds=self.kinds,
            digest=raft.told_digest ^ world.digest,
            simulated_s=world.now_ns // SECOND,
            answered=self.answered,
            unknown=sum(not isinstance(each.outcome, StoreAnswer) and not each.is_refused for each in writes),
            refused=sum(each.is_refused for each in writes),
            doubtful=sum(agent.doubtful for agent in world.agents) + sum(each.doubtful for each in counters),
            joined=sum(agent.joined for agent in world.agents) + sum(each.joined for each in counters),
            changes_seen=sum(watcher.changes for watcher in watchers),
            met=raft.table.met,
            failure=failure,
            trace="\n".join(raft.trace),
        )


def run(seed: int, *, kinds: Sequence[str] = (), is_traced: bool = False) -> KeySwarmOutcome:
    """Whatever is raised is a finding."""
    one = KeySwarmRun(seed, kinds=kinds, is_traced=is_traced)
    try:
        one.through()
    except Exception as found:  # the outcome says which
        return one.outcome(f"{type(found).__name__}: {found}")
    return one.outcome()


def outcomes(seeds: range, *, jobs: int) -> Iterator[KeySwarmOutcome]:
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=2)


def main() -> int:
    asked = seeds_parser("Run clusters that keep keys for clients, a seed each.", seeds=500).parse_args()
    began_s = time.monotonic()
    done = answered = doubtful = refused = 0
    report = SwarmReport[KeySwarmOutcome](FAULTS, OPERATIONS)
    for outcome in outcomes(seed_range(asked), jobs=asked.jobs):
        done += 1
        answered += outcome.answered
        doubtful += outcome.doubtful
        refused += outcome.refused
        report.add(outcome)
    rate = done / (time.monotonic() - began_s)
    told = (
        f"{done} seeds, {answered} answers, {doubtful} writes repeated in doubt, {refused} refused,"
        f" {rate:.2f} seeds/s"
    )
    return report.end(lambda seed: run(seed, is_traced=True).trace, told)


if __name__ == "__main__":
    sys.exit(main())
