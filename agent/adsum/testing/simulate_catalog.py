"""What the catalog does in a large cluster, measured: how stale copies are while checks flip, how soon all
are equal again, what it costs each agent, and what partitions and lost racks do to it.

    python -m adsum.testing.simulate_catalog -nodes 1000 -scenario flips -minutes 1 -seed 1

Staleness is the time from the moment a check has flipped at its owner until a copy elsewhere shows it.

The hour of a partition is not run through: while the sides are apart, everything that an hour of flips
changes is changed and given to everybody on its own side at once. That it heals is run through."""

from __future__ import annotations

import argparse
import enum
import resource
import time
from dataclasses import dataclass
from random import Random

from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.testing.catalog_flips import CatalogFlips
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
        self.flips = CatalogFlips(self.world, self.random)
        self.began_s = (0.0, 0.0)  # of our own time and of the processor's, when the cluster stood
        self._equal_s: float | None = None
        self._sent = (0, 0)
        self._measured_ns = 0
        self._before: tuple[int, int, int] = (0, 0, 0)

    def run(self) -> CatalogFigures:
        world = self.world
        with uncollected():
            world.form_whole()
            self.began_s = (time.monotonic(), time.process_time())
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
            self.flips.flip_any()
            world.run_for(pause_ns)
        self._end_measuring()
        self._until_equal(world.now_ns - pause_ns)

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
        flips = self.flips
        flips.end()
        p50_s, p99_s, max_s = flips.staleness_s(0.5, 0.99, 1)
        seconds = self._measured_ns / SECOND * plan.nodes
        tallies = [world.replica(index).tally for index in range(plan.nodes)]
        written, changes, carried = self._before
        return CatalogFigures(
            plan=plan,
            flips=flips.count,
            p50_s=p50_s,
            p99_s=p99_s,
            max_s=max_s,
            unseen=flips.unseen,
            equal_after_s=self._equal_s,
            writes=self._written() - written - flips.count,
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
        ages = f"p50 {figures.p50_s:.3f} s, p99 {figures.p99_s:.3f} s, at most {figures.max_s:.3f} s"
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
