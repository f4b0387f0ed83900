"""What many changes at once, and a bad line, do to a cluster: how long until all know, and what an
agent sends in its worst second.

    python -m adsum.testing.simulate_strain -strain flips -nodes 1000 -seed 1

    flips    all checks of one host in ten change their mind within a second
    joins    so many start at once beside a tenth as many that are there, and are told three to ask
    loss     one agent loses 30 % of what it sends and gets, while 20 checks flip a second, a tenth its own

`python -m tests.bench.simulated` of a checkout runs this on the cores of two builds."""

from __future__ import annotations

import argparse
import enum
import time
from collections.abc import Sequence
from random import Random

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.gossip.broadcasts import Class
from adsum.gossip.commands import Join
from adsum.gossip.order import MemberStatus
from adsum.now import MILLISECOND, SECOND
from adsum.testing.catalog_flips import CatalogFlips
from adsum.testing.catalog_world import CatalogWorld
from adsum.testing.hosts import SimulatedHost
from adsum.testing.network import Conditions
from adsum.testing.world import uncollected

WARM_NS = 5 * SECOND
FORMED_NS = 30 * SECOND
WATCHED_NS = 30 * SECOND
SLOT_NS = 100 * MILLISECOND
SLOTS_A_SECOND = SECOND // SLOT_NS
SLOTS = 1 + WATCHED_NS // SLOT_NS
FLIPPING_SHARE = 10  # one host in so many
FLIPPING_NS = SECOND
FOUNDERS_SHARE = 10  # one is there for so many who join
JOIN_SEEDS = 3
BAD_LOSS = 0.3
BAD = 0  # the host with the bad line
BAD_LINE_NS = 20 * SECOND
FLIP_EVERY_NS = SECOND // 20
OWN_SHARE = 10  # one flip in so many is its own


class Strain(enum.Enum):
    FLIPS = "flips"
    JOINS = "joins"
    LOSS = "loss"


@dataclass(frozen=True, slots=True)
class StrainPlan:
    strain: Strain
    nodes: int
    services: int = 20
    loss: float = 0.05
    seed: int = 1


@dataclass(frozen=True, slots=True)
class StrainFigures:
    plan: StrainPlan
    p50_s: float  # of a flip, until a copy shows it
    p99_s: float
    max_s: float
    unseen: int
    equal_after_s: float | None  # all copies, and of joins all members too
    datagrams_per_s: float  # sent by an agent, of all the time that was watched
    bytes_per_s: float
    call_bytes_per_s: float
    second_datagrams: int  # the most that one agent sent in one second
    second_bytes: int
    queue_drops: int  # news that a full queue pushed out
    digest: int


class StrainWorld(CatalogWorld):
    """Counts what each host sends, by tenths of a second."""

    def __init__(self, members: int, *, services: int, seed: int, loss: float) -> None:
        super().__init__(members, services=services, seed=seed, conditions=Conditions(loss=loss))
        self.since_ns: int | None = None
        self.datagrams = [[0] * SLOTS for _ in range(members)]
        self.sent_bytes = [[0] * SLOTS for _ in range(members)]

    def _deliver(self, host: SimulatedHost, to: Address, message: bytes) -> None:
        if self.since_ns is not None:
            slot = (self.now_ns - self.since_ns) // SLOT_NS
            self.datagrams[host.index][slot] += 1
            self.sent_bytes[host.index][slot] += len(message)
        super()._deliver(host, to, message)


def simulate(plan: StrainPlan) -> StrainFigures:
    with uncollected():
        return StrainSimulation(plan).run()


class StrainSimulation:
    def __init__(self, plan: StrainPlan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.founders = max(JOIN_SEEDS, plan.nodes // FOUNDERS_SHARE)
        self.members = self.founders + plan.nodes if plan.strain is Strain.JOINS else plan.nodes
        seed = self.random.getrandbits(64)
        self.world = StrainWorld(self.members, services=plan.services, seed=seed, loss=plan.loss)
        self.flips = CatalogFlips(self.world, self.random)

    def run(self) -> StrainFigures:
        world, strain = self.world, self.plan.strain
        if strain is Strain.JOINS:
            self._join(0, self.founders)
            world.run_for(FORMED_NS)
        else:
            world.form_whole()
            world.run_for(WARM_NS)
        calls_before = sum(world.call_bytes)
        world.since_ns = world.now_ns
        end_ns = world.now_ns + WATCHED_NS
        match strain:
            case Strain.FLIPS:
                self._flip_some_hosts()
            case Strain.JOINS:
                self._join(self.founders, self.members)
            case Strain.LOSS:
                self._flip_beside_a_bad_line()
        equal_after_s = self._equal_after_s(end_ns)
        world.run_until(end_ns)
        return self._figures(equal_after_s, sum(world.call_bytes) - calls_before)

    # What happens.

    def _join(self, first: int, end: int) -> None:
        world = self.world
        for index in range(first, end):
            world.start(index)
        for index in range(first, end):
            peers = self.random.sample(world.hosts[: self.founders], JOIN_SEEDS)
            world.command(index, Join(tuple(peer.address for peer in peers)))

    def _flip_some_hosts(self) -> None:
        hosts = self.random.sample(range(self.members), max(1, self.members // FLIPPING_SHARE))
        checks = [(index, service) for index in hosts for service in range(self.plan.services)]
        self.random.shuffle(checks)
        for index, service in checks:
            self.flips.flip(index, service)
            self.world.run_for(FLIPPING_NS // len(checks))

    def _flip_beside_a_bad_line(self) -> None:
        world, turns = self.world, BAD_LINE_NS // FLIP_EVERY_NS
        world.network.lose_at(BAD, BAD_LOSS)
        for turn in range(turns):
            if turn % OWN_SHARE:
                self.flips.flip_any()
            else:
                self.flips.flip(BAD, turn // OWN_SHARE % self.plan.services)
            world.run_for(FLIP_EVERY_NS)

    def _equal_after_s(self, end_ns: int) -> float | None:
        world, since_ns = self.world, self.world.now_ns
        while world.now_ns < end_ns:
            if world.is_one_catalog() and self._all_see_all():
                return (world.now_ns - since_ns) / SECOND
            world.run_for(SLOT_NS)
        return None

    def _all_see_all(self) -> bool:
        present = self.members - 1
        return all(host.core.membership.counts()[MemberStatus.ALIVE] == present for host in self.world.hosts)

    # What is told.

    def _figures(self, equal_after_s: float | None, call_bytes: int) -> StrainFigures:
        world = self.world
        self.flips.end()
        p50_s, p99_s, max_s = self.flips.staleness_s(0.5, 0.99, 1)
        agent_seconds = self.members * WATCHED_NS / SECOND
        queues = [host.core.membership.queue(kind) for host in world.hosts for kind in Class]
        return StrainFigures(
            plan=self.plan,
            p50_s=p50_s,
            p99_s=p99_s,
            max_s=max_s,
            unseen=self.flips.unseen,
            equal_after_s=equal_after_s,
            datagrams_per_s=sum(map(sum, world.datagrams)) / agent_seconds,
            bytes_per_s=sum(map(sum, world.sent_bytes)) / agent_seconds,
            call_bytes_per_s=call_bytes / agent_seconds,
            second_datagrams=max(map(worst_second, world.datagrams)),
            second_bytes=max(map(worst_second, world.sent_bytes)),
            queue_drops=sum(queue.dropped for queue in queues),
            digest=world.digest,
        )


def worst_second(slots: Sequence[int]) -> int:
    """Of any that begins with a slot."""
    return max(sum(slots[first : first + SLOTS_A_SECOND]) for first in range(len(slots)))


def told(figures: StrainFigures) -> list[str]:
    """For people; one fact a line."""
    plan, after = figures.plan, figures.equal_after_s
    lines = [f"{plan.nodes} agents × {plan.services} services, {plan.loss:.0%} loss, {plan.strain.value}"]
    if plan.strain is not Strain.JOINS:
        ages = f"p50 {figures.p50_s:.3f} s, p99 {figures.p99_s:.3f} s, at most {figures.max_s:.3f} s"
        lines.append(f"a flip was shown by copies after {ages}; never: {figures.unseen}")
    lines.append(f"all equal after {after:.1f} s" if after is not None else "not all equal in the end")
    sent = f"{figures.datagrams_per_s:.1f} datagrams, {figures.bytes_per_s:.0f} bytes of gossip"
    lines.append(f"each agent sent {sent} and {figures.call_bytes_per_s:.0f} of exchanges a second")
    worst = f"{figures.second_datagrams} datagrams, {figures.second_bytes} bytes"
    lines.append(f"the most that one sent in one second: {worst}")
    lines.append(f"news dropped because a queue was full: {figures.queue_drops}; digest {figures.digest:08x}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m adsum.testing.simulate_strain")
    parser.add_argument("-strain", choices=[each.value for each in Strain], default="flips")
    parser.add_argument("-nodes", type=int, default=1_000)
    parser.add_argument("-services", type=int, default=20)
    parser.add_argument("-loss", type=float, default=0.05)
    parser.add_argument("-seed", type=int, default=1)
    given = parser.parse_args()
    plan = StrainPlan(Strain(given.strain), given.nodes, given.services, given.loss, given.seed)
    began_s = time.process_time()
    figures = simulate(plan)
    print("\n".join([*told(figures), f"{time.process_time() - began_s:.1f} s of work"]))


if __name__ == "__main__":
    main()
