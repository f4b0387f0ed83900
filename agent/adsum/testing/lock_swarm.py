"""Sessions, locks, fences and transactions through client agents, while everything goes wrong that may: one
seed is one run of three servers and three agents, one mix of faults, and one verdict.

    python -m adsum.testing.lock_swarm --seeds 500

runs seeds on every processor and prints which fault met which operation how often, and the trace of the
first seed that fails. `--first` runs the same again.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from adsum.kv import StoreOutcome
from adsum.now import MILLISECOND, SECOND
from adsum.session import EndCause, SessionCreate
from adsum.testing.checkers import Violation, demand
from adsum.testing.client_swarm import ClientSwarmRun, SwarmReport, hold_ns, results_bytes_max
from adsum.testing.fault_table import Met
from adsum.testing.key_clients import KeyParticipant
from adsum.testing.key_nemesis import FAULTS as KEY_FAULTS
from adsum.testing.key_nemesis import KeyNemesis
from adsum.testing.key_world import SERVERS
from adsum.testing.lock_holders import holders
from adsum.testing.lock_requests import OPERATIONS
from adsum.testing.lock_transactions import transactions
from adsum.testing.lock_witness import LockStory, judge_locks
from adsum.testing.lock_world import LockWorld
from adsum.testing.seed_range import seed_range, seeds_parser

WORKLOADS: tuple[Callable[[LockWorld, Random], Sequence[KeyParticipant]], ...] = (holders, transactions)
FAULTS_S = 60
RECOVERY_S = 60
FAILED_NS = (3 * SECOND, 18 * SECOND)  # so long is a node failed
FAILED_LATELY_NS = 30 * SECOND  # before a session ends by it: what is heard and proposed comes late
WRONG_NS = (300 * MILLISECOND, 12 * SECOND)  # so long a server takes it for failed that is well

FAULTS = (*KEY_FAULTS, "node_failed", "called_failed")


class LockNemesis(KeyNemesis):
    """And the nodes to which sessions belong."""

    def __init__(self, world: LockWorld, random: Random) -> None:
        super().__init__(world, random)
        self._nodes = world

    def node_failed(self) -> int | None:
        duration_ns = self._random.choice(FAILED_NS)
        self._nodes.fail(self._agent().node_id, duration_ns)
        return duration_ns

    def called_failed(self) -> int | None:
        """By one server, wrongly; never by two at once, for two are believed."""
        if any(sight.called_failed for sight in self._nodes.sights):
            return None
        index = self._random.randrange(SERVERS)
        self._nodes.call_wrongly_failed(index, self._agent().node_id)
        duration_ns = self._random.choice(WRONG_NS)
        self._cluster.at(duration_ns, lambda: self._nodes.call_wrongly_failed(index, None))
        return duration_ns


@dataclass(frozen=True, slots=True)
class LockSwarmOutcome:
    seed: int
    kinds: tuple[str, ...]
    digest: int
    simulated_s: int
    answered: int
    grants: int
    fenced: int
    ends: int
    ends_by_node: int
    conflicts: int
    met: Met
    failure: str = ""
    trace: str = ""


class LockSwarmRun(ClientSwarmRun):
    def __init__(
        self, seed: int, *, kinds: Sequence[str] = (), faults_s: int = FAULTS_S, is_traced: bool = False
    ) -> None:
        """Without `kinds` the seed chooses them, too."""
        random = Random(f"locks {seed}")
        self.seed = seed
        self.world = LockWorld(
            seed=random.getrandbits(64),
            results_bytes_max=results_bytes_max(seed),
            hold_ns=hold_ns(seed),
            is_traced=is_traced,
        )
        chosen = kinds or random.sample(FAULTS, random.randint(3, 8))
        nemesis = LockNemesis(self.world, Random(random.getrandbits(64)))
        super().__init__(self.world, nemesis, chosen, random)
        self.seen: Counter[str] = Counter()
        self._faults_s = faults_s

    def through(self) -> None:
        """Raises `Violation`."""
        workloads = [partial(workload, self.world) for workload in WORKLOADS]
        self.go_through(workloads, faults_s=self._faults_s, recovery_s=RECOVERY_S)
        story = judge_locks(self.world.requests, self.world.written)
        self._judge_failures(story)
        self.seen["grants"] = sum(map(len, story.grants.values()))
        self.seen["ends"] = len(story.ends)
        for (_command, outcome), count in story.outcomes.items():
            self.seen[outcome.name] += count

    def _judge_failures(self, story: LockStory) -> None:
        """No session ended by a node that had not failed lately."""
        created = {
            each.asked.session.id: each.asked.session
            for each in self.world.requests
            if isinstance(each.asked, SessionCreate)
        }
        for id_, end in story.ends.items():
            if end.cause is EndCause.NODE_FAILED:
                end_ns, node_id = self.world.written.first_ns[end.at], created[id_].node_id
                over_ns = [each for failed, each in self.world.failures if failed == node_id]
                is_so = any(end_ns - FAILED_LATELY_NS <= each <= end_ns + FAILED_NS[-1] for each in over_ns)
                demand(is_so, f"{id_} ended at {end.at} by its node, which had not failed")
        self.seen["ends by node"] = sum(end.cause is EndCause.NODE_FAILED for end in story.ends.values())

    @property
    def answered(self) -> int:
        return sum(each.answer is not None for each in self.world.requests)

    def outcome(self, failure: str = "") -> LockSwarmOutcome:
        raft, seen = self.world.raft, self.seen
        return LockSwarmOutcome(
            seed=self.seed,
            kinds=self.kinds,
            digest=raft.told_digest ^ self.world.digest,
            simulated_s=self.world.now_ns // SECOND,
            answered=self.answered,
            grants=seen["grants"],
            fenced=seen[StoreOutcome.FENCED.name],
            ends=seen["ends"],
            ends_by_node=seen["ends by node"],
            conflicts=seen[StoreOutcome.CONFLICT.name],
            met=raft.table.met,
            failure=failure,
            trace="\n".join(raft.trace),
        )


def run(
    seed: int, *, kinds: Sequence[str] = (), faults_s: int = FAULTS_S, is_traced: bool = False
) -> LockSwarmOutcome:
    """Whatever is raised is a finding."""
    one = LockSwarmRun(seed, kinds=kinds, faults_s=faults_s, is_traced=is_traced)
    try:
        one.through()
    except Violation as found:
        return one.outcome(str(found))
    except Exception as found:  # the outcome says which
        return one.outcome(f"{type(found).__name__}: {found}")
    return one.outcome()


def outcomes(seeds: range, *, jobs: int) -> Iterator[LockSwarmOutcome]:
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=2)


def main() -> int:
    asked = seeds_parser("Run clusters that keep locks for clients, a seed each.", seeds=500).parse_args()
    began_s = time.monotonic()
    total = Counter[str]()
    report = SwarmReport[LockSwarmOutcome](FAULTS, OPERATIONS)
    for outcome in outcomes(seed_range(asked), jobs=asked.jobs):
        total.update(
            seeds=1,
            answers=outcome.answered,
            grants=outcome.grants,
            fenced=outcome.fenced,
            ends=outcome.ends,
            ends_by_node=outcome.ends_by_node,
            conflicts=outcome.conflicts,
        )
        report.add(outcome)
    rate = total["seeds"] / (time.monotonic() - began_s)
    told = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in total.items())
    return report.end(lambda seed: run(seed, is_traced=True).trace, f"{told}, {rate:.2f} seeds/s")


if __name__ == "__main__":
    sys.exit(main())
