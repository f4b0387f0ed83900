"""What membership would do to your cluster, before you run it: `adsum simulate`.

Runs the shipped gossip core for as many members as asked, from one seed, through one kind of trouble, and
tells how long news and verdicts took, how many verdicts were false, and what it cost each member. A verdict
is false when its subject runs, can be reached, and is the very life that the verdict is about; every member
that holds one counts.

Members in trouble are replaced by what an operator would do: a crashed one is started again after a minute,
and joins."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from adsum.gossip.commands import Describe, Join, Restart
from adsum.gossip.effects import Effect, LeaveDone, MemberChanged
from adsum.gossip.evidence import Cause
from adsum.gossip.order import Status
from adsum.gossip.settings import GossipSettings
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.testing.gossip_world import GossipWorld, State
from adsum.testing.network import Conditions

UPDATE_EVERY_NS = 10 * SECOND
TROUBLE_EVERY_NS = 5 * SECOND
BACK_AFTER_NS = MINUTE
PAUSE_NS_MIN, PAUSE_NS_MAX = 2 * SECOND, 4 * SECOND
RESTART_NS = 3 * SECOND
HELD_NS, FREE_NS = 32 * SECOND, 2 * SECOND  # Lifeguard's interval experiment at its worst
SLOW_SHARE = 8  # one member in so many
PARTITION_NS = MINUTE
VIEW_CHECK_NS = SECOND


LAN = GossipSettings()


class Scenario(enum.Enum):
    QUIET = "quiet"
    CRASH = "crash"  # the process; its host resets connections
    HOST_LOSS = "host-loss"
    PAUSE = "pause"
    PARTITION = "partition"
    RESTART = "restart"  # announced, and back within seconds
    SLOW_MEMBERS = "slow-members"


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: int
    scenario: Scenario = Scenario.QUIET
    loss: float = 0.05
    duration_ns: int = 10 * MINUTE
    seed: int = 1
    settings: GossipSettings = LAN


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one kind of durations, in seconds; zeros when there were none."""

    count: int
    mean_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Figures:
    plan: Plan
    update_99: Spread  # until 99 in 100 members had an update
    update_all: Spread
    first_verdict: Spread
    last_verdict: Spread  # until every member had it
    undetected: int
    false_verdicts: int
    one_view_after_s: float | None  # of a partition's end, or None when views still differ at the end
    messages_per_s: float  # a member, sent
    bytes_per_s: float
    events: int
    digest: int


def simulate(plan: Plan) -> Figures:
    return Simulation(plan).run()


class Watch:
    """One thing that everybody who runs should come to know; who goes down meanwhile need not."""

    __slots__ = ("began_ns", "few", "first_ns", "last_ns", "most_ns", "waiting")

    def __init__(self, began_ns: int, waiting: dict[int, None]) -> None:
        self.began_ns = began_ns
        self.waiting = waiting
        self.few = len(waiting) // 100
        self.first_ns = self.most_ns = self.last_ns = 0

    def hear(self, time_ns: int, observer: int) -> None:
        if observer not in self.waiting:
            return
        del self.waiting[observer]
        self.first_ns = self.first_ns or time_ns
        if len(self.waiting) <= self.few:
            self.most_ns = self.most_ns or time_ns
        if not self.waiting:
            self.last_ns = time_ns


class Simulation:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.world = GossipWorld(
            plan.nodes,
            seed=self.random.getrandbits(64),
            settings=plan.settings,
            conditions=Conditions(loss=plan.loss),
        )
        self._by_id = {host.profile.node_id: host.index for host in self.world.hosts}
        self._updates: dict[tuple[int, int], Watch] = {}  # by subject and incarnation
        self._deaths: dict[tuple[int, int], Watch] = {}  # by subject and generation
        self._in_trouble: dict[int, None] = {}
        self._false = 0
        self._healed_ns = 0
        self._one_view_s: float | None = None
        self._sent = (0, 0)

    def run(self) -> Figures:
        world = self.world
        world.form()
        world.watchers.append(self._watch)
        self._arrange()
        world.run_for(self.plan.duration_ns)
        return self._figures()

    # What happens.

    def _arrange(self) -> None:
        world = self.world
        self._every(UPDATE_EVERY_NS, self._update)
        match self.plan.scenario:
            case Scenario.CRASH | Scenario.HOST_LOSS:
                self._every(TROUBLE_EVERY_NS, lambda: self._while_most_are_well(self._crash))
            case Scenario.PAUSE:
                self._every(TROUBLE_EVERY_NS, lambda: self._while_most_are_well(self._pause))
            case Scenario.RESTART:
                self._every(TROUBLE_EVERY_NS, lambda: self._while_most_are_well(self._restart))
            case Scenario.PARTITION:
                world.call(world.now_ns + TROUBLE_EVERY_NS, self._cut)
            case Scenario.SLOW_MEMBERS:
                slow = max(1, self.plan.nodes // SLOW_SHARE)
                for index in self.random.sample(range(self.plan.nodes), slow):
                    self._in_trouble[index] = None
                    self._hold(index)
            case Scenario.QUIET:
                pass

    def _every(self, interval_ns: int, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self.world.call(self.world.now_ns + interval_ns, again)

        self.world.call(self.world.now_ns + interval_ns, again)

    def _while_most_are_well(self, trouble: Callable[[], None]) -> None:
        """Half of the members stay up: below that there is no cluster left to measure."""
        if 2 * len(self._in_trouble) < self.plan.nodes:
            trouble()

    def _update(self) -> None:
        index = self._any_healthy()
        host = self.world.hosts[index]
        key = (index, host.core.commons.me.incarnation + 1)
        self._updates[key] = Watch(self.world.now_ns, self._others(index))
        self.world.command(index, Describe(len(self._updates).to_bytes(4, "big")))

    def _crash(self) -> None:
        world, index = self.world, self._any_healthy()
        self._goes_down(index)
        self._deaths[index, world.hosts[index].generation] = Watch(world.now_ns, self._others(index))
        if self.plan.scenario is Scenario.CRASH:
            world.kill(index)
        else:
            world.lose(index)
        world.call(world.now_ns + BACK_AFTER_NS, lambda: self._bring_back(index))

    def _bring_back(self, index: int) -> None:
        world = self.world
        seeds = tuple(world.hosts[self._any_healthy()].address for _ in range(3))
        world.start(index)
        world.command(index, Join(seeds))
        del self._in_trouble[index]

    def _pause(self) -> None:
        world, index = self.world, self._any_healthy()
        self._in_trouble[index] = None
        world.pause(index)
        world.call(
            world.now_ns + self.random.randrange(PAUSE_NS_MIN, PAUSE_NS_MAX),
            lambda: self._wake(index),
        )

    def _wake(self, index: int) -> None:
        self.world.resume(index)
        del self._in_trouble[index]

    def _restart(self) -> None:
        index = self._any_healthy()
        self._goes_down(index)
        self.world.command(index, Restart(int(2 * RESTART_NS / MILLISECOND)))

    def _go_down(self, index: int) -> None:
        self.world.kill(index)
        self.world.call(self.world.now_ns + RESTART_NS, lambda: self._bring_back(index))

    def _cut(self) -> None:
        world, half = self.world, self.plan.nodes // 2
        world.network.partition(range(half), range(half, self.plan.nodes))
        world.call(world.now_ns + PARTITION_NS, self._heal)

    def _heal(self) -> None:
        self.world.network.heal()
        self._healed_ns = self.world.now_ns
        self._every(VIEW_CHECK_NS, self._look_at_views)

    def _look_at_views(self) -> None:
        if self._one_view_s is None and self._all_alive_everywhere():
            self._one_view_s = (self.world.now_ns - self._healed_ns) / SECOND

    def _all_alive_everywhere(self) -> bool:
        """Of one mind, but for updates under way, means that nobody is missed by anybody."""
        present = self.plan.nodes - 1
        return all(host.core.commons.roster.counts[Status.ALIVE] == present for host in self.world.hosts)

    def _hold(self, index: int) -> None:
        self.world.hold(index)
        self.world.call(self.world.now_ns + HELD_NS, lambda: self._free(index))

    def _free(self, index: int) -> None:
        self.world.resume(index)
        self.world.call(self.world.now_ns + FREE_NS, lambda: self._hold(index))

    def _goes_down(self, index: int) -> None:
        self._in_trouble[index] = None
        for watch in (*self._updates.values(), *self._deaths.values()):
            watch.waiting.pop(index, None)

    def _others(self, index: int) -> dict[int, None]:
        hosts = self.world.hosts
        healthy = [each.index for each in hosts if each.state is State.RUNNING]
        return dict.fromkeys(each for each in healthy if each != index and each not in self._in_trouble)

    def _any_healthy(self) -> int:
        while True:
            index = int(self.random.random() * self.plan.nodes)
            if index not in self._in_trouble and self.world.hosts[index].state is State.RUNNING:
                return index

    # What is seen.

    def _watch(self, time_ns: int, observer: int, effect: Effect) -> None:
        match effect:
            case MemberChanged(member, _before, after, evidence) if after is not None:
                subject = self._by_id[member.node_id]
                if after.status is Status.FAILED:
                    self._see_death(time_ns, observer, subject, after.generation)
                elif evidence.cause is Cause.CHANGED:
                    watch = self._updates.get((subject, after.incarnation))
                    if watch is not None:
                        watch.hear(time_ns, observer)
            case LeaveDone():
                self._go_down(observer)

    def _see_death(self, time_ns: int, observer: int, subject: int, generation: int) -> None:
        death = self._deaths.get((subject, generation))
        if death is not None:
            death.hear(time_ns, observer)
        elif self._is_fine(observer, subject, generation):
            self._false += 1

    def _is_fine(self, observer: int, subject: int, generation: int) -> bool:
        host = self.world.hosts[subject]
        is_same_life = host.state is State.RUNNING and host.generation == generation
        is_healthy = subject not in self._in_trouble or self.plan.scenario is Scenario.PAUSE
        return is_same_life and is_healthy and not self.world.network.is_cut(observer, subject)

    def _figures(self) -> Figures:
        plan, world = self.plan, self.world
        updates, deaths = list(self._updates.values()), list(self._deaths.values())
        seconds = plan.duration_ns / SECOND * plan.nodes
        tallies = [host.core.tally for host in world.hosts]
        due = [death for death in deaths if world.now_ns - death.began_ns >= MINUTE // 2]
        return Figures(
            plan=plan,
            update_99=_spread([each.most_ns - each.began_ns for each in updates if each.most_ns]),
            update_all=_spread([each.last_ns - each.began_ns for each in updates if each.last_ns]),
            first_verdict=_spread([each.first_ns - each.began_ns for each in deaths if each.first_ns]),
            last_verdict=_spread([each.most_ns - each.began_ns for each in deaths if each.most_ns]),
            undetected=sum(not death.first_ns for death in due),
            false_verdicts=self._false,
            one_view_after_s=self._one_view_s,
            messages_per_s=sum(sum(tally.packets_out) for tally in tallies) / seconds,
            bytes_per_s=sum(sum(tally.bytes_out) for tally in tallies) / seconds,
            events=world.events,
            digest=world.digest,
        )


def _spread(durations_ns: list[int]) -> Spread:
    if not durations_ns:
        return Spread(0, 0.0, 0.0, 0.0)
    ordered = sorted(duration_ns / SECOND for duration_ns in durations_ns)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return Spread(len(ordered), sum(ordered) / len(ordered), p95, ordered[-1])


def told(figures: Figures) -> list[str]:
    """For people; one fact a line."""
    plan = figures.plan
    minutes = f"{plan.duration_ns / MINUTE:g} minutes of {plan.scenario.value}"
    lines = [
        f"{plan.nodes} members, {plan.loss:.0%} loss, {minutes}, seed {plan.seed}",
        _line("an update has reached 99 of 100 members after", figures.update_99),
        _line("an update has reached all members after", figures.update_all),
    ]
    if figures.first_verdict.count or figures.undetected:
        lines += [
            _line("the first verdict on a lost member came after", figures.first_verdict),
            _line("99 of 100 members had it after", figures.last_verdict),
            f"lost members not found out: {figures.undetected}",
        ]
    lines.append(f"false verdicts: {figures.false_verdicts}")
    if plan.scenario is Scenario.PARTITION:
        after = figures.one_view_after_s
        lines.append(
            f"one view {after:.0f} s after it healed" if after is not None else "no view in common yet"
        )
    lines.append(
        f"each member sent {figures.messages_per_s:.1f} messages, {figures.bytes_per_s:.0f} bytes a second"
    )
    return lines


def _line(what: str, spread: Spread) -> str:
    if not spread.count:
        return f"{what}: none seen"
    return f"{what}: mean {spread.mean_s:.2f} s, p95 {spread.p95_s:.2f} s, at most {spread.max_s:.2f} s"
