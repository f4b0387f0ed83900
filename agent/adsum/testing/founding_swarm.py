"""Many foundings: one seed is a handful of empty servers, a mix of accidents from the first moment on, and
one verdict.

First anything may happen and nothing wrong may come of it; then the accidents end, and the servers have to
be one cluster in which each has a vote. `python -m adsum.testing.founding_swarm --seeds 500` runs seeds and
prints the trace of the first that fails.

In its table two cells stay almost empty. `wipe` hardly meets `repair`, for nobody is wiped where a log is
lost. `join` hardly meets `founding`, for nobody joins before there is a leader: only a founder that comes
late founds after that.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from dataclasses import dataclass
from random import Random

from adsum.consensus import effects
from adsum.now import SECOND
from adsum.raft.types import MemberId
from adsum.storage.log_jobs import FoundingJob
from adsum.testing.checkers import check_witness, demand
from adsum.testing.fault_table import Met, told_table
from adsum.testing.founding_world import SERVERS_MAX, FoundingWorld
from adsum.testing.linearizability import HistoryVerdict, verdict
from adsum.testing.raft_clients import Clients
from adsum.testing.raft_cluster import seconds
from adsum.testing.raft_nemesis import BRIEF_NS, FOR_GOOD_NS, HARM_NS, Nemesis
from adsum.testing.raft_nemesis import OPERATIONS as RAFT_OPERATIONS
from adsum.testing.seed_range import seed_range, seeds_parser

# To be asked, elected, taught and given a vote, one server after the other, each a second a learner.
RECOVERY_S = 60
QUIET_S = 5  # after which all know of each other, so that nobody founds while an operator decides
WIPES_APART_NS = 8 * SECOND


CUTS: list[tuple[type[FoundingJob], ...]] = [
    (),
    (effects.WriteConsent,),
    (effects.StoreFirstSnapshot,),
    (effects.WriteClusterId,),
    (effects.WriteConsent, effects.StoreFirstSnapshot, effects.WriteClusterId),
]


class FoundingNemesis(Nemesis):
    """With accidents of its own, from the first moment on, and no operator who mends anything."""

    def __init__(self, world: FoundingWorld, random: Random) -> None:
        super().__init__(world.raft, random)
        self._world = world
        self._may_wipe_ns = 0

    def end(self) -> None:
        self._world.rumours, self._world.cuts = 0.0, ()
        super().end()

    def loss(self) -> int | None:
        return self._become("loss", loss=self._random.choice((0.0, 0.1, 0.3, 0.6)))

    def delay(self) -> int | None:
        return self._become("delay", held_back=self._random.choice((0.0, 0.05, 0.2)))

    def split(self) -> int | None:
        return super().split() if len(self._living()) > 1 else None

    def one_way(self) -> int | None:
        return super().one_way() if len(self._living()) > 1 else None

    def cut_power(self) -> int | None:
        """In the middle of a founding, which takes few operations."""
        self._disk(self._any()).faults.crash_before = self._random.randrange(30)
        return HARM_NS

    def rumour(self) -> int | None:
        self._world.rumours = self._random.choice((0.0, 0.1, 0.3))
        if self._world.rumours:
            return FOR_GOOD_NS
        self._cluster.table.lifted("rumour")
        return None

    def cut_writes(self) -> int | None:
        """The power goes at whatever operation of what a server without a cluster writes."""
        self._world.cuts = self._random.choice(CUTS)
        if self._world.cuts:
            return FOR_GOOD_NS
        self._cluster.table.lifted("cut_writes")
        return None

    def wipe(self) -> int | None:
        """Never so much that a majority of any membership is gone, also of one that is being founded: two
        founders cannot do without either. Nor two before there is one, nor where a log is lost: a server in
        doubt founds nothing, and whoever wipes it takes the doubt away by hand."""
        world, server = self._world, self._any()
        if world.now_ns < self._may_wipe_ns or world.expected < 3 or world.has_lost_logs:
            return None
        if world.raft.atlas.may_harm(server.me):
            self._may_wipe_ns = world.now_ns + WIPES_APART_NS
            world.wipe(server)
            me = world.raft.of_node(server.me.node).me
            down_ns = self._random.randrange(SECOND)
            self._cluster.at(down_ns, lambda: self._cluster.boot(me))
            return down_ns
        return None

    def join(self) -> int | None:
        """One more, once there is a cluster."""
        if self._cluster.invariants.leaders and len(self._world.there()) < SERVERS_MAX:
            self._cluster.told("join")
            self._world.add()
            return BRIEF_NS
        return None

    def _may_harm(self, member: MemberId) -> bool:
        """Also where there will be no leader then, or none again, for a server in doubt founds nothing: no
        second cluster is founded all the same."""
        atlas = self._cluster.atlas
        if not atlas.may_harm(member) or not self._cluster.invariants.leaders:
            atlas.harmed[member] = None
            self._world.has_lost_logs = True
        return True

    def _mend(self) -> None:
        """The leader takes in who comes."""


COUNTED = ("consent", "consent taken back", "taken away", "found", "member", "wipe", "join", "change")
KINDS = [
    *("loss", "delay", "split", "one_way", "rumour", "crash", "power_loss", "pause"),
    *("cut_power", "cut_writes", "failing_sync", "full_disk", "broken_repair"),
    *("wipe", "join", "surplus", "bystanders", "suspend"),
]
FROM_THE_START = ("surplus", "bystanders")  # how a seed begins
OF_OPERATORS = ("transfer", "change")
OPERATIONS = ["founding", "taking in", *(each for each in RAFT_OPERATIONS if each not in OF_OPERATORS)]
FAULTS = [kind for kind in KINDS if kind not in FROM_THE_START]


@dataclass(frozen=True, slots=True)
class FoundingOutcome:
    seed: int
    kinds: tuple[str, ...]
    digest: int
    happened: Counter[str]
    met: Met
    failure: str = ""
    trace: str = ""


class FoundingRun:
    def __init__(self, seed: int, *, kinds: tuple[str, ...] = (), is_traced: bool = False) -> None:
        """Without `kinds` the seed chooses them, too."""
        random = Random(f"founding {seed}")
        self.seed = seed
        self._random = Random(f"operator {seed}")
        servers = random.choice((1, 2, 3, 3, 3, 3, 4, 5))
        self.kinds = kinds or tuple(random.sample(KINDS, random.randint(1, 6)))
        surplus = 0
        if "surplus" in self.kinds:  # any two foundings have a server in common
            servers = max(servers, 2)
            surplus = random.randint(1, min(servers - 1, SERVERS_MAX - servers))
        bystanders = 0
        if "bystanders" in self.kinds:
            bystanders = random.randint(0, min(2, SERVERS_MAX - servers - surplus))
        self.world = FoundingWorld(
            random.getrandbits(64),
            servers=servers,
            surplus=surplus,
            bystanders=bystanders,
            is_traced=is_traced,
        )
        self.nemesis = FoundingNemesis(self.world, Random(random.getrandbits(64)))
        self.clients = Clients(self.world.raft, Random(random.getrandbits(64)), count=2)
        self.trouble_s = random.uniform(1, 12)
        late = Random(f"late {seed}")  # trouble may come when there is a cluster already
        self.calm_s = late.uniform(2, 8) if late.random() < 0.3 else 0.0
        self._surplus = surplus

    def through(self) -> None:
        world = self.world
        world.run_for(seconds(self.calm_s))
        self.nemesis.begin([kind for kind in self.kinds if kind not in FROM_THE_START])
        world.run_for(seconds(self.trouble_s))
        self.nemesis.end()
        if world.has_surplus:
            world.run_for(seconds(QUIET_S))
            if not any(world.clusters_held()):
                self._take_surplus_away()
        is_one = world.run_until_so(self._is_one_cluster, within_ns=seconds(RECOVERY_S))
        demand(
            is_one or self._is_for_the_operator,
            f"no cluster of all of them {RECOVERY_S} s after the accidents ended",
        )
        self.clients.is_done = True
        world.run_for(seconds(4))
        happened = check_witness(self.clients.history, world.raft.invariants.log)
        demand(verdict(happened) is not HistoryVerdict.IMPOSSIBLE, "the answers fit no order of events")

    def _is_one_cluster(self) -> bool:
        """Everybody who is there has a vote, and nobody else."""
        leaders = self.world.raft.leaders()
        if not leaders:
            return False
        configuration = leaders[0].raft.replica.configuration
        there = [server.me for server in self.world.there()]
        return list(configuration.voters) == sorted(there) and not configuration.is_joint

    def _take_surplus_away(self) -> None:
        """More servers than are expected wait as soon as all know of each other. What has agreed to found
        with one that is taken away says so."""
        for server in self._random.sample(self.world.founders_there(), self._surplus):
            self.world.take_away(server)
        self._follow_advice()

    def _follow_advice(self) -> None:
        self.world.follow_advice()
        self.world.call(self.world.now_ns + seconds(1), self._follow_advice)

    @property
    def _is_for_the_operator(self) -> bool:
        """More logs were damaged than any cluster can do without. Or, of more servers than are expected, two
        that were wiped in between founded clusters."""
        held = {each for each in self.world.clusters_held() if each}
        has_two = self.world.has_surplus and self.world.wipes > 0 and len(held) > 1
        return self.world.has_lost_logs or has_two

    def outcome(self, failure: str = "") -> FoundingOutcome:
        raft, trace = self.world.raft, "\n".join(self.world.raft.trace)
        digest = raft.told_digest ^ self.world.digest
        return FoundingOutcome(self.seed, self.kinds, digest, raft.happened, raft.table.met, failure, trace)


def found(seed: int, *, kinds: tuple[str, ...] = (), is_traced: bool = False) -> FoundingOutcome:
    """Whatever is raised is a finding."""
    one = FoundingRun(seed, kinds=kinds, is_traced=is_traced)
    try:
        one.through()
    except Exception as failure:  # the outcome says which
        return one.outcome(f"{type(failure).__name__}: {failure}")
    return one.outcome()


def main() -> int:
    asked = seeds_parser("Found simulated clusters, a seed each.", seeds=500).parse_args()
    happened, met = Counter[str](), Met()
    failed: list[FoundingOutcome] = []
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        for outcome in pool.imap(found, seed_range(asked), chunksize=4):
            happened.update(outcome.happened)
            met.update(outcome.met)
            if outcome.failure:
                failed.append(outcome)
                sys.stdout.write(f"seed {outcome.seed} ({' '.join(outcome.kinds)}): {outcome.failure}\n")
                sys.stdout.flush()
    if failed:
        sys.stdout.write(found(failed[0].seed, is_traced=True).trace + "\n")
    told = (f"{happened[what]} times {what}" for what in COUNTED)
    sys.stdout.write(told_table(met, FAULTS, OPERATIONS) + "\n")
    sys.stdout.write(f"Among much else: {', '.join(told)}.\n")
    sys.stdout.write(f"{asked.seeds} seeds: {len(failed)} failed.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
