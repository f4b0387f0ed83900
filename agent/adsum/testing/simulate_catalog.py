"""What the catalog does in a large cluster, measured: how stale copies are while checks flip, how soon all
are equal again, what it costs each agent, and what partitions and lost racks do to it.

    python -m adsum.testing.simulate_catalog -nodes 1000 -scenario flips -minutes 1 -seed 1

Staleness is the time from the moment a check has flipped at its owner until a copy elsewhere shows it, one
figure for each flip and each other agent. Whoever never shows it counts with all the time there was.

The hour of a partition is not run through: while the sides are apart, everything that an hour of flips
changes is changed and given to everybody on its own side at once. That it heals is run through."""

from __future__ import annotations

import argparse
import enum
import resource
import time
from array import array
from dataclasses import dataclass
from random import Random

from adsum.catalog.replication.effects import OwnerChanged
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.testing.catalog_world import CatalogWorld
from adsum.testing.network import Conditions
from adsum.testing.world import uncollected

WARM_NS = 5 * SECOND
STEP_NS = 100 * MILLISECOND
EQUAL_WITHIN_NS = 30 * SECOND
PART_NS = 90 * SECOND  # until everybody has given up the other side
RACK_SHARE = 25  # one host in so many
RACK_NS = 90 * SECOND
JOINS = 5
AGAIN_NS = 1_100 * MILLISECOND


class CatalogScenario(enum.Enum):
    FLIPS = "flips"
    PARTITION = "partition"
    RACK_LOSS = "rack-loss"
    RESTART = "restart"  # of single agents: new generations, and copies that begin empty


@dataclass(frozen=True, slots=True)
class CatalogPlan:
    nodes: int
    scenario: CatalogScenario = CatalogScenario.FLIPS
    services: int = 20
    flips_per_s: int = 20
    loss: float = 0.05
    duration_ns: int = MINUTE
    seed: int = 1


@dataclass(frozen=True, slots=True)
class CatalogFigures:
    plan: CatalogPlan
    flips: int
    p50_s: float
    p99_s: float
    max_s: float
    unseen: int  # copies that never showed a flip
    equal_after_s: float | None  # of the last flip, of the partition's end, of a restart at the latest
    writes: int  # versions that owners got, besides the flips asked for
    changes: int  # of copies, in all
    carried: int  # payloads that were given to gossip
    gossip_bytes_per_s: float  # sent by each agent
    call_bytes_per_s: float
    exchanges: int
    useful: int
    dropped: int  # things that came in and were not used
    events: int
    digest: int


def simulate(plan: CatalogPlan, *, are_states_shared: bool = True) -> CatalogFigures:
    return CatalogSimulation(plan, are_states_shared=are_states_shared).run()


@dataclass(slots=True, eq=False)
class Flip:
    began_ns: int
    number: int
    version: int
    waiting: int  # a bit for each agent that does not show it yet


class CatalogSimulation:
    def __init__(self, plan: CatalogPlan, *, are_states_shared: bool = True) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.world = CatalogWorld(
            plan.nodes,
            services=plan.services,
            seed=self.random.getrandbits(64),
            conditions=Conditions(loss=plan.loss),
            are_states_shared=are_states_shared,
        )
        self.staleness_ms = array("I")
        self.flips = 0
        self.began_s = (0.0, 0.0)  # of our own time and of the processor's, when the cluster stood
        self._pending: dict[bytes, list[Flip]] = {}  # by owner
        self._failing: dict[tuple[int, int], bool] = {}
        self._flipped_ns: dict[tuple[int, int], int] = {}
        self._equal_s: float | None = None
        self._sent = (0, 0)
        self._measured_ns = 0
        self._before: tuple[int, int, int] = (0, 0, 0)

    def run(self) -> CatalogFigures:
        world = self.world
        with uncollected():
            world.form_whole()
            self.began_s = (time.monotonic(), time.process_time())
            world.copy_watchers.append(self._see)
            world.run_for(WARM_NS)
            self._begin_to_measure()
            {
                CatalogScenario.FLIPS: self._flip_on,
                CatalogScenario.PARTITION: self._part,
                CatalogScenario.RACK_LOSS: self._lose_rack,
                CatalogScenario.RESTART: self._restart_some,
            }[self.plan.scenario]()
        return self._figures()

    # What happens.

    def _flip_on(self) -> None:
        world, pause_ns = self.world, SECOND // self.plan.flips_per_s
        end_ns = world.now_ns + self.plan.duration_ns
        while world.now_ns < end_ns:
            self._flip_any()
            world.run_for(pause_ns)
        self._end_measuring()
        self._until_equal(world.now_ns - pause_ns)

    def _flip_any(self) -> None:
        world = self.world
        index, service = self._any_check()
        is_failing = not self._failing.get((index, service), False)
        number, version = world.flip(index, service, is_failing=is_failing)
        self._failing[index, service] = is_failing
        self._flipped_ns[index, service] = world.now_ns
        self.flips += 1
        everybody_else = ((1 << self.plan.nodes) - 1) & ~(1 << index)
        flip = Flip(world.now_ns, number, version, everybody_else)
        self._pending.setdefault(world.shorts[index], []).append(flip)

    def _any_check(self) -> tuple[int, int]:
        """Not the same one twice within a second, for that would be told late on purpose."""
        while True:
            check = (self.random.randrange(self.plan.nodes), self.random.randrange(self.plan.services))
            if self.world.now_ns - self._flipped_ns.get(check, -AGAIN_NS) >= AGAIN_NS:
                return check

    def _part(self) -> None:
        world, nodes = self.world, self.plan.nodes
        few, many = list(range(nodes // 10)), list(range(nodes // 10, nodes))
        world.network.partition(few, many)
        world.run_for(PART_NS)
        world.live_through(few)
        world.live_through(many)
        world.run_for(WARM_NS)
        self._begin_to_measure()
        world.network.heal()
        self._until_equal(world.now_ns)
        self._end_measuring()

    def _lose_rack(self) -> None:
        rack = range(0, self.plan.nodes, RACK_SHARE)
        for index in rack:
            self.world.lose(index)
        self.world.run_for(RACK_NS)
        self._end_measuring()
        self._until_equal(self.world.now_ns)

    def _restart_some(self) -> None:
        """One after the other; how long the slowest took to have everything, and everybody to have its."""
        world, longest_s = self.world, 0.0
        for _ in range(JOINS):
            index = self.random.randrange(self.plan.nodes)
            world.kill(index)
            world.run_for(SECOND)
            world.start(index)
            world.join(index, by=(index + 1) % self.plan.nodes)
            self._until_equal(world.now_ns)
            if self._equal_s is None:
                return
            longest_s = max(longest_s, self._equal_s)
        self._equal_s = longest_s
        self._end_measuring()

    def _until_equal(self, since_ns: int) -> None:
        world, self._equal_s = self.world, None
        while world.now_ns - since_ns < EQUAL_WITHIN_NS:
            if world.is_one_catalog():
                self._equal_s = (world.now_ns - since_ns) / SECOND
                return
            world.run_for(STEP_NS)

    # What is seen.

    def _see(self, time_ns: int, observer: int, change: OwnerChanged) -> None:
        pending, after = self._pending.get(change.owner), change.after
        if not pending or after is None:
            return
        bit = 1 << observer
        for flip in pending:
            if flip.waiting & bit and after.items[flip.number].version >= flip.version:
                flip.waiting &= ~bit
                self.staleness_ms.append((time_ns - flip.began_ns) // MILLISECOND)
        if not pending[0].waiting:
            del pending[0]

    def _sums(self) -> tuple[int, int]:
        gossip = sum(sum(host.core.tally.bytes_out) for host in self.world.hosts)
        return gossip, sum(self.world.call_bytes)

    def _written(self) -> int:
        return sum(self.world.replica(index).publisher.state.version for index in range(self.plan.nodes))

    def _begin_to_measure(self) -> None:
        world = self.world
        self._sent, self._measured_ns = self._sums(), world.now_ns
        self._before = (self._written(), world.changes, world.carried)

    def _end_measuring(self) -> None:
        gossip, calls = self._sums()
        self._sent = (gossip - self._sent[0], calls - self._sent[1])
        self._measured_ns = self.world.now_ns - self._measured_ns

    def _figures(self) -> CatalogFigures:
        world, plan = self.world, self.plan
        unseen = [flip for flips in self._pending.values() for flip in flips]
        for flip in unseen:
            for _ in range(flip.waiting.bit_count()):
                self.staleness_ms.append((world.now_ns - flip.began_ns) // MILLISECOND)
        ordered = sorted(self.staleness_ms) or [0]
        seconds = self._measured_ns / SECOND * plan.nodes
        tallies = [world.replica(index).tally for index in range(plan.nodes)]
        written, changes, carried = self._before
        return CatalogFigures(
            plan=plan,
            flips=self.flips,
            p50_s=ordered[len(ordered) // 2] / 1_000,
            p99_s=ordered[int(len(ordered) * 0.99)] / 1_000,
            max_s=ordered[-1] / 1_000,
            unseen=sum(flip.waiting.bit_count() for flip in unseen),
            equal_after_s=self._equal_s,
            writes=self._written() - written - self.flips,
            changes=world.changes - changes,
            carried=world.carried - carried,
            gossip_bytes_per_s=self._sent[0] / seconds,
            call_bytes_per_s=self._sent[1] / seconds,
            exchanges=sum(tally.exchanges_begun for tally in tallies),
            useful=sum(tally.exchanges_useful for tally in tallies),
            dropped=sum(sum(tally.dropped.values()) for tally in tallies),
            events=world.events,
            digest=world.digest,
        )


def told(figures: CatalogFigures) -> list[str]:
    """For people; one fact a line."""
    plan, after = figures.plan, figures.equal_after_s
    cluster = f"{plan.nodes} agents × {plan.services} services, {plan.loss:.0%} loss"
    lines = [f"{cluster}, {plan.scenario.value}, seed {plan.seed}"]
    if figures.flips:
        ages = f"p50 {figures.p50_s:.2f} s, p99 {figures.p99_s:.2f} s, at most {figures.max_s:.2f} s"
        lines.append(f"{figures.flips} flips shown by copies after {ages}; never: {figures.unseen}")
    lines.append(f"all copies equal after {after:.1f} s" if after is not None else "copies still differ")
    changes = f"copies changed {figures.changes} times; {figures.carried} payloads given to gossip"
    lines.append(f"writes besides flips: {figures.writes}; {changes}")
    sent = f"{figures.gossip_bytes_per_s:.0f} bytes of gossip and {figures.call_bytes_per_s:.0f} of exchanges"
    lines.append(f"each agent sent {sent} a second")
    exchanges = f"{figures.exchanges} exchanges, {figures.useful} useful; {figures.dropped} things dropped"
    lines.append(f"{exchanges}; {figures.events} events, digest {figures.digest:08x}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m adsum.testing.simulate_catalog")
    parser.add_argument("-nodes", type=int, default=1_000)
    parser.add_argument("-services", type=int, default=20)
    parser.add_argument("-flips", type=int, default=20, help="a second")
    parser.add_argument("-loss", type=float, default=0.05)
    parser.add_argument("-minutes", type=float, default=1.0)
    parser.add_argument("-scenario", choices=[each.value for each in CatalogScenario], default="flips")
    parser.add_argument("-seed", type=int, default=1)
    given = parser.parse_args()
    plan = CatalogPlan(
        given.nodes,
        CatalogScenario(given.scenario),
        given.services,
        given.flips,
        given.loss,
        int(given.minutes * MINUTE),
        given.seed,
    )
    simulation = CatalogSimulation(plan)
    figures = simulation.run()
    began_s, began_work_s = simulation.began_s
    took_s, worked_s = time.monotonic() - began_s, time.process_time() - began_work_s
    virtual_s = simulation.world.now_ns / SECOND
    resident_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    work = f"{worked_s:.1f} s of them at work: {virtual_s / worked_s:.2f} s simulated in one of work"
    speed = f"{virtual_s:.1f} s simulated in {took_s:.1f} s, {work}; {resident_mb} MB"
    print("\n".join([*told(figures), speed]))


if __name__ == "__main__":
    main()
