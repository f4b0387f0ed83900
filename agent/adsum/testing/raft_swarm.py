"""Many small disasters: one seed is one cluster, one mix of faults, and one verdict.

First a phase in which anything may happen and nothing wrong may come of it; then the faults end for a
quorum, and the cluster has to come back by itself: elect, commit, and agree. At the end the clients'
histories are judged.

    python -m adsum.testing.raft_swarm --seeds 2000 --first 0

runs seeds on every processor, says how fast, and prints the trace of the first that fails. The same seed
gives the same run, whatever the process: `digest` is of everything that happened.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from adsum.consensus.settings import ServerSettings
from adsum.testing.checkers import check_witness, demand, log_digest
from adsum.testing.fault_table import Met, told_table
from adsum.testing.linearizability import HistoryVerdict, verdict
from adsum.testing.raft_clients import Clients
from adsum.testing.raft_cluster import SETTINGS, raft_cluster, seconds
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_nemesis import DISK_KINDS, KINDS, OPERATIONS, Nemesis
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.seed_range import seed_range, seeds_parser
from adsum.testing.server_limits import AWAITED_BYTES

# With all faults over: a few elections that find each other, snapshots to bring, and a joint change to leave.
RECOVERY_S = 30
# Of what happened, what says at a glance that the faults bite.
TOLD = ("crash", "power lost", "failed", "corrupt", "replace", "no room", "brought")
# What one server can live through without anybody's help.
ALONE = (
    *("crash", "power_loss", "stall_disk", "compact", "failing_sync", "full_disk", "flicker"),
    *("suspend", "large_values", "descriptors"),
)
# What no leader loses its place for; of so many seeds one meets nothing else.
HARMLESS = ("rumours", "large_values")
QUIET_ONE_IN = 16
BY_BYTES = replace(
    SETTINGS,
    snapshot_entries=100_000,
    snapshot_log_bytes=8_000,
    entries_kept=100_000,
    entries_kept_bytes=3_000,
)


@dataclass(frozen=True, slots=True)
class SwarmOutcome:
    seed: int
    kinds: tuple[str, ...]
    events: int
    operations: int  # acknowledged
    elections: int
    digest: int
    happened: dict[str, int]
    met: Met
    log_bytes: int  # the most that a server held in memory
    failure: str = ""
    trace: str = ""


class SwarmRun:
    def __init__(self, seed: int, *, kinds: Sequence[str] = (), is_traced: bool = False) -> None:
        """Without `kinds` the seed chooses them, too."""
        random = Random(seed)
        self.seed = seed
        self.voters = random.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
        cluster_seed, strangers = random.getrandbits(64), random.choice((0, 1, 2))
        # Of every second seed the disks do nothing worse than to forget what was not synced.
        known = KINDS if seed % 2 == 0 else [*KINDS, *DISK_KINDS]
        self.kinds = list(kinds) or random.sample(known, random.randint(2, 8))
        if self.voters + strangers < 2:
            self.kinds = [kind for kind in known if kind in ALONE]
        elif not kinds and seed % QUIET_ONE_IN == 0:
            self.kinds = list(HARMLESS)
        self.cluster = raft_cluster(
            cluster_seed,
            voters=self.voters,
            strangers=strangers,
            settings=self._settings(Random(f"settings {seed}")),
            is_traced=is_traced,
        )
        self.nemesis = Nemesis(self.cluster, Random(seed ^ cluster_seed))
        clients_random = Random(random.getrandbits(64))
        attacker = Random(seed) if seed % 4 == 3 else None
        count = random.randint(2, 5)
        self.clients = Clients(self.cluster, clients_random, count=count, attacker=attacker)
        self.safety_s = random.uniform(4, 12)
        self.spares = random.random() < 0.5

    def _settings(self, random: Random) -> ServerSettings:
        """With large values it is their bytes that count, and nothing is bounded by how many they are."""
        if "large_values" not in self.kinds:
            return SETTINGS
        return replace(BY_BYTES, entries_awaited_bytes=random.choice((6_000, AWAITED_BYTES)))

    def through(self) -> None:
        self.cluster.run_for(seconds(1.5))
        is_quiet = all(kind in HARMLESS for kind in self.kinds)
        if is_quiet:
            self.cluster.run_until(self._is_led_by_one, within_ns=seconds(RECOVERY_S))
        leaders = dict(self.cluster.invariants.leaders)
        self.nemesis.begin(self.kinds)
        self.cluster.run_for(seconds(self.safety_s))
        has_kept = not is_quiet or self.cluster.invariants.leaders == leaders
        demand(has_kept, "there is another leader, and nothing was wrong but what gossip says")
        self.clients.is_done = True
        self.nemesis.end()
        if self.spares:
            self.nemesis.spare()
        has_come_back = self.cluster.run_until(self._has_settled, within_ns=seconds(RECOVERY_S))
        demand(has_come_back, f"not back {RECOVERY_S} s after the faults ended")
        self._judge()

    def _is_led_by_one(self) -> bool:
        """All members know who leads."""
        leaders = self.cluster.leaders()
        members = leaders[0].raft.replica.configuration.members() if leaders else ()
        return bool(members) and all(
            server.raft.replica.leader == leaders[0].me
            for server in self.cluster.up()
            if server.me in members
        )

    def _has_settled(self) -> bool:
        """A leader has committed something new, and every member that is up stands where it stands."""
        leaders = self.cluster.leaders()
        if not leaders:
            return False
        replica = leaders[0].raft.replica
        if replica.log.last_index != replica.log.applied or replica.configuration.auto_leave:
            return False
        if not self._is_marked(leaders[0]):
            return False
        members = [server for server in self.cluster.up() if server.me in replica.configuration.members()]
        return all(server.machine.index == replica.log.applied for server in members)

    def _is_marked(self, server: SimulatedServer) -> bool:
        if server.machine.get("end") == "here":
            return True
        self.cluster.ask(server, ClientCall("set", "end", "here").encoded(), lambda _outcome: None)
        return False

    def _judge(self) -> None:
        for server in self.cluster.up():
            counts = server.raft.counts
            demand(counts.malformed == 0, f"{server.me} was sent the impossible")
        happened = check_witness(self.clients.history, self.cluster.invariants.log)
        demand(verdict(happened) is not HistoryVerdict.IMPOSSIBLE, "the answers fit no order of events")

    def outcome(self, failure: str = "") -> SwarmOutcome:
        cluster = self.cluster
        return SwarmOutcome(
            seed=self.seed,
            kinds=tuple(self.kinds),
            events=cluster.world.events,
            operations=sum(operation.answer is not None for operation in self.clients.history),
            elections=len(cluster.invariants.leaders),
            digest=cluster.told_digest ^ cluster.world.digest ^ log_digest(cluster.invariants.log),
            happened=dict(cluster.happened),
            met=cluster.table.met,
            log_bytes=cluster.limits.log_bytes_seen,
            failure=failure,
            trace="\n".join(cluster.trace),
        )


def run(seed: int, *, kinds: Sequence[str] = (), is_traced: bool = False) -> SwarmOutcome:
    """Whatever is raised is a finding, not a crash of the swarm."""
    one = SwarmRun(seed, kinds=kinds, is_traced=is_traced)
    try:
        one.through()
    except Exception as found:  # the outcome says which
        return one.outcome(f"{type(found).__name__}: {found}")
    return one.outcome()


def first_failure(seeds: range) -> SwarmOutcome | None:
    """With its trace."""
    for seed in seeds:
        if run(seed).failure:
            return run(seed, is_traced=True)
    return None


def outcomes(seeds: range, *, jobs: int) -> Iterator[SwarmOutcome]:
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def main() -> int:
    asked = seeds_parser("Run simulated clusters, a seed each.", seeds=2000).parse_args()
    seeds = seed_range(asked)
    began = time.monotonic()
    done = operations = elections = 0
    happened: Counter[str] = Counter()
    met, log_bytes = Met(), 0
    failed: list[SwarmOutcome] = []
    for outcome in outcomes(seeds, jobs=asked.jobs):
        done += 1
        operations += outcome.operations
        elections += outcome.elections
        happened.update(outcome.happened)
        met.update(outcome.met)
        log_bytes = max(log_bytes, outcome.log_bytes)
        if outcome.failure:
            failed.append(outcome)
            sys.stdout.write(f"seed {outcome.seed} ({' '.join(outcome.kinds)}): {outcome.failure}\n")
            sys.stdout.flush()
    rate = done / (time.monotonic() - began)
    if failed:
        worst = min(failed, key=lambda outcome: outcome.seed)
        sys.stdout.write(run(worst.seed, is_traced=True).trace + "\n")
    sys.stdout.write(told_table(met, [*KINDS, *DISK_KINDS], OPERATIONS) + "\n")
    told = (f"{happened[what]} times {what}" for what in TOLD)
    sys.stdout.write(f"Among much else: {', '.join(told)}.\n")
    sys.stdout.write(f"At most {log_bytes} bytes of log in one server's memory.\n")
    sys.stdout.write(
        f"{done} seeds, {operations} operations, {elections} leaders, {rate:.1f} seeds/s:"
        f" {len(failed)} failed{f', first {worst.seed}' if failed else ''}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
