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
in a module of its own, called in `KeySwarmRun._judge`.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from adsum.kv import StoreAnswer
from adsum.now import SECOND
from adsum.testing.checkers import demand
from adsum.testing.fault_table import Met, never_met, told_table
from adsum.testing.judged_request import OPERATIONS, JudgedRequest
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_clients import KeyParticipant
from adsum.testing.key_compares import compares
from adsum.testing.key_judgement import judge_keys
from adsum.testing.key_nemesis import FAULTS, KeyNemesis
from adsum.testing.key_registers import registers
from adsum.testing.key_sets import sets
from adsum.testing.key_watches import KeyWatcher, watches
from adsum.testing.key_world import RESULTS_BYTES_MAX, KeyWorld
from adsum.testing.seed_range import seed_range, seeds_parser

WORKLOADS: tuple[Callable[[Sequence[KeyAgent], Random], Sequence[KeyParticipant]], ...] = (
    *(registers, compares, sets, watches),
)
CALM_S = 2  # until there is a leader
FAULTS_S = 60
RECOVERY_S = 40
OPERATIONS_MIN = 200  # answered, without those that wait for a change
BRIEF_ONE_IN = 3  # of the seeds hold requests for so short a time that many are refused
BRIEF_HOLD_NS = SECOND // 2
FORGETFUL_ONE_IN = 4  # of the seeds remember so few answers that a repeated request may find its own gone
FORGETFUL_BYTES = 600


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


class KeySwarmRun:
    def __init__(self, seed: int, *, kinds: Sequence[str] = (), is_traced: bool = False) -> None:
        """Without `kinds` the seed chooses them, too."""
        random = Random(f"keys {seed}")
        self.seed = seed
        is_forgetful = seed % FORGETFUL_ONE_IN == 2
        self.world = KeyWorld(
            seed=random.getrandbits(64),
            results_bytes_max=FORGETFUL_BYTES if is_forgetful else RESULTS_BYTES_MAX,
            hold_ns=BRIEF_HOLD_NS if seed % BRIEF_ONE_IN == 1 else None,
            is_traced=is_traced,
        )
        self.kinds = tuple(kinds) or tuple(random.sample(FAULTS, random.randint(3, 8)))
        self.nemesis = KeyNemesis(self.world, Random(random.getrandbits(64)))
        self.participants: list[KeyParticipant] = []
        self._random = random

    def through(self) -> None:
        """Raises `Violation`."""
        world = self.world
        world.run_for(CALM_S * SECOND)
        for workload in WORKLOADS:
            self.participants += workload(world.agents, Random(self._random.getrandbits(64)))
        self.nemesis.begin(list(self.kinds))
        world.run_for(FAULTS_S * SECOND)
        self.nemesis.end()
        is_enough = world.run_until_so(self._is_enough, within_ns=RECOVERY_S * SECOND)
        answered = len(self._answered())
        demand(is_enough, f"{answered} requests were answered, {RECOVERY_S} s after the faults ended")
        for participant in self.participants:
            participant.stop()
        has_settled = world.run_until_so(self._has_settled, within_ns=RECOVERY_S * SECOND)
        waiting = [type(each).__name__ for each in self.participants if not each.is_settled]
        demand(has_settled, f"{RECOVERY_S} s after the faults ended, these wait: {waiting}")
        self._judge()

    def _answered(self) -> list[JudgedRequest]:
        return [each for each in self.world.operations if each.outcome is not None and each.name != "watch"]

    def _is_enough(self) -> bool:
        return self.nemesis.has_mended() and len(self._answered()) >= OPERATIONS_MIN

    def _has_settled(self) -> bool:
        return all(participant.is_settled for participant in self.participants)

    def _judge(self) -> None:
        judge_keys(self.world.operations, self.world.written)

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
            answered=len(self._answered()),
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
    met = Met()
    failed: list[KeySwarmOutcome] = []
    for outcome in outcomes(seed_range(asked), jobs=asked.jobs):
        done += 1
        answered += outcome.answered
        doubtful += outcome.doubtful
        refused += outcome.refused
        met.update(outcome.met)
        if outcome.failure:
            failed.append(outcome)
            sys.stdout.write(f"seed {outcome.seed} ({' '.join(outcome.kinds)}): {outcome.failure}\n")
            sys.stdout.flush()
    rate = done / (time.monotonic() - began_s)
    if failed:
        worst = min(failed, key=lambda outcome: outcome.seed)
        sys.stdout.write(run(worst.seed, is_traced=True).trace + "\n")
    sys.stdout.write(told_table(met, FAULTS, OPERATIONS) + "\n")
    missing = never_met(met, FAULTS, OPERATIONS)
    sys.stdout.write(f"Never met: {', '.join(missing)}.\n" if missing else "Each fault met each operation.\n")
    sys.stdout.write(
        f"{done} seeds, {answered} answers, {doubtful} writes repeated in doubt, {refused} refused,"
        f" {rate:.2f} seeds/s: {len(failed)} failed{f', first {worst.seed}' if failed else ''}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
