"""What membership would do to your cluster, before you run it: `adsum simulate`.

Runs the shipped gossip core for as many members as asked, from one seed, through one kind of trouble, and
measures how long news and verdicts took, how many verdicts were false, and what it cost each member. A
verdict is false when its subject runs, can be reached, and is the very life that the verdict is about; every
member that holds one counts.

Members in trouble are replaced by what an operator would do: a crashed one is started again after a minute,
and joins."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from adsum.gossip.broadcasts import Class
from adsum.gossip.commands import Describe, Join, Restart
from adsum.gossip.effects import Effect, LeaveDone, MemberChanged
from adsum.gossip.evidence import Evidence
from adsum.gossip.order import MemberStatus
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.hosts import State
from adsum.testing.network import Conditions
from adsum.testing.simulate_figures import Figures, Measured, Plan, Scenario, Watch, figures_of

UPDATE_EVERY_NS = 10 * SECOND
UPDATE_TIME_NS = 5 * SECOND  # none is begun later before the end, so that one that is late is late indeed
TROUBLE_EVERY_NS = 5 * SECOND
BACK_AFTER_NS = MINUTE
DOWN_SHARE_MAX = 4  # one member in so many is down at a time: in small clusters fewer are lost a minute
PAUSE_NS_MIN, PAUSE_NS_MAX = 2 * SECOND, 4 * SECOND
RESTART_NS = 3 * SECOND
HELD_NS, FREE_NS = 32 * SECOND, 2 * SECOND  # Lifeguard's interval experiment at its worst
SLOW_SHARE = 8  # one member in so many
PARTITION_NS = MINUTE
FLIP_NS = 20 * SECOND  # cut off for so long, and there for as long
ODD_SHARE = 100  # one member in so many has a line that works one way only, or comes and goes
JOIN_SEEDS = 3
VIEW_CHECK_NS = 100 * MILLISECOND


def simulate(plan: Plan) -> Figures:
    return figures_of([measure(plan)])


def measure(plan: Plan) -> Measured:
    return Simulation(plan).run()


class Simulation:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.world = GossipWorld(
            plan.nodes,
            seed=self.random.getrandbits(64),
            settings=plan.settings,
            conditions=Conditions(latency_ns=plan.latency_ns, jitter_ns=plan.jitter_ns, loss=plan.loss),
        )
        self.measured = Measured(plan)
        self._by_id = {host.profile.node_id: host.index for host in self.world.hosts}
        self._by_short = {host.profile.short: host.index for host in self.world.hosts}
        self._updates: dict[tuple[int, int], list[tuple[int, Watch]]] = {}  # by subject and generation
        self._deaths: dict[tuple[int, int], Watch] = {}  # by subject and generation
        self._in_trouble: dict[int, None] = {}
        self._odd: list[int] = []  # whose line is bad, which is no reason to judge them
        self._sent = [[0, 0] for _ in self.world.hosts]  # messages and bytes of lives that are over
        self._views_from_ns: int | None = None

    def run(self) -> Measured:
        world = self.world
        if self.plan.scenario is Scenario.COLD_START:
            world.watchers.append(self._watch)
            world.join_all(seeds=JOIN_SEEDS)
            self._await_one_view()
        else:
            world.form()
            world.watchers.append(self._watch)
        self._arrange()
        world.run_for(self.plan.duration_ns)
        self._sum_up()
        return self.measured

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
                for index in self._some(SLOW_SHARE):
                    self._in_trouble[index] = None
                    self._hold(index)
            case Scenario.ALL_RESTART:
                world.call(world.now_ns + TROUBLE_EVERY_NS, self._kill_all)
            case Scenario.ONE_WAY:
                self._make_one_way()
            case Scenario.FLIP_FLOP:
                self._odd = self._some(ODD_SHARE)
                world.call(world.now_ns + TROUBLE_EVERY_NS, self._cut_off)
            case Scenario.QUIET | Scenario.COLD_START:
                pass

    def _every(self, interval_ns: int, what: Callable[[], None]) -> None:
        def again() -> None:
            what()
            self.world.call(self.world.now_ns + interval_ns, again)

        self.world.call(self.world.now_ns + interval_ns, again)

    def _some(self, share: int) -> list[int]:
        """One in so many, at least one."""
        return self.random.sample(range(self.plan.nodes), max(1, self.plan.nodes // share))

    def _while_most_are_well(self, trouble: Callable[[], None]) -> None:
        """With more of them down there is no cluster left to measure."""
        if DOWN_SHARE_MAX * len(self._in_trouble) < self.plan.nodes:
            trouble()

    def _update(self) -> None:
        world, index = self.world, self._any_healthy()
        if index is None or world.now_ns > self.plan.duration_ns - UPDATE_TIME_NS:
            return
        update = Watch(world.now_ns, self._others(index))
        self.measured.updates.append(update)
        key = (index, world.hosts[index].generation)
        incarnation = world.hosts[index].core.membership.own_standing.incarnation + 1
        self._updates.setdefault(key, []).append((incarnation, update))
        world.command(index, Describe(len(self.measured.updates).to_bytes(4, "big")))

    def _crash(self) -> None:
        world, index = self.world, self._any_healthy()
        if index is None:
            return
        self._goes_down(index)
        self._deaths[index, world.hosts[index].generation] = Watch(world.now_ns, self._others(index))
        if self.plan.scenario is Scenario.CRASH:
            world.kill(index)
        else:
            world.lose(index)
        world.call(world.now_ns + BACK_AFTER_NS, lambda: self._bring_back(index))

    def _bring_back(self, index: int) -> None:
        world = self.world
        self._bank(index)
        peers = [each for each in (self._any_healthy() for _ in range(JOIN_SEEDS)) if each is not None]
        world.start(index)
        world.command(index, Join(tuple(world.hosts[each].address for each in peers)))
        del self._in_trouble[index]

    def _pause(self) -> None:
        world, index = self.world, self._any_healthy()
        if index is None:
            return
        self._in_trouble[index] = None
        world.pause(index)
        world.call(
            world.now_ns + self.random.randrange(PAUSE_NS_MIN, PAUSE_NS_MAX), lambda: self._wake(index)
        )

    def _wake(self, index: int) -> None:
        self.world.resume(index)
        del self._in_trouble[index]

    def _restart(self) -> None:
        index = self._any_healthy()
        if index is None:
            return
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
        self._await_one_view()

    def _kill_all(self) -> None:
        for host in self.world.hosts:
            self._goes_down(host.index)
            self.world.kill(host.index)
        self.world.call(self.world.now_ns + RESTART_NS, self._start_all)

    def _start_all(self) -> None:
        """Each remembers a few that it knew in the life before."""
        world = self.world
        for host in world.hosts:
            self._bank(host.index)
            world.start(host.index)
        for host in world.hosts:
            peers = self.random.sample(world.hosts, min(JOIN_SEEDS, self.plan.nodes))
            world.command(host.index, Join(tuple(peer.address for peer in peers)))
        self._in_trouble.clear()
        self._await_one_view()

    def _make_one_way(self) -> None:
        """What a few members send never gets to half of the others, which they hear well."""
        nodes = self.plan.nodes
        self._odd = self._some(ODD_SHARE)
        for index in self._odd:
            for other in self.random.sample(range(nodes), nodes // 2):
                self.world.network.lose_one_way(index, other, 1.0)

    def _cut_off(self) -> None:
        """Each alone, on a side of its own."""
        self.world.network.partition(*([index] for index in self._odd))
        self.world.call(self.world.now_ns + FLIP_NS, self._let_in)

    def _let_in(self) -> None:
        self.world.network.heal()
        self.world.call(self.world.now_ns + FLIP_NS, self._cut_off)

    def _await_one_view(self) -> None:
        if self._views_from_ns is None:
            self._views_from_ns = self.world.now_ns
            self._look_at_views(self.world.now_ns)

    def _look_at_views(self, since_ns: int) -> None:
        world = self.world
        if self._all_alive_everywhere() and world.is_one_view():
            self.measured.one_view_s = (world.now_ns - since_ns) / SECOND
        else:
            world.call(world.now_ns + VIEW_CHECK_NS, lambda: self._look_at_views(since_ns))

    def _all_alive_everywhere(self) -> bool:
        """And nobody is missed by anybody."""
        present = self.plan.nodes - 1
        return all(host.core.membership.counts()[MemberStatus.ALIVE] == present for host in self.world.hosts)

    def _hold(self, index: int) -> None:
        self.world.hold(index)
        self.world.call(self.world.now_ns + HELD_NS, lambda: self._free(index))

    def _free(self, index: int) -> None:
        self.world.resume(index)
        self.world.call(self.world.now_ns + FREE_NS, lambda: self._hold(index))

    def _goes_down(self, index: int) -> None:
        self._in_trouble[index] = None
        for watch in (*self.measured.updates, *self._deaths.values()):
            watch.waiting.pop(index, None)
        for _incarnation, update in self._updates.get((index, self.world.hosts[index].generation), ()):
            if not update.heard_ns:  # gone with the only one who knew
                self.measured.updates.remove(update)

    def _others(self, index: int) -> dict[int, None]:
        hosts = self.world.hosts
        healthy = [each.index for each in hosts if each.state is State.RUNNING]
        return dict.fromkeys(each for each in healthy if each != index and each not in self._in_trouble)

    def _any_healthy(self) -> int | None:
        """None while all are down at once."""
        if len(self._in_trouble) == self.plan.nodes:
            return None
        while True:
            index = int(self.random.random() * self.plan.nodes)
            if index not in self._in_trouble and self.world.hosts[index].state is State.RUNNING:
                return index

    # What is seen.

    def _watch(self, time_ns: int, observer: int, effect: Effect) -> None:
        match effect:
            case MemberChanged(member, _before, after, evidence) if after is not None:
                subject = self._by_id[member.node_id]
                if after.status is MemberStatus.FAILED:
                    self._see_death(time_ns, observer, subject, after.generation, evidence)
                elif after.status is MemberStatus.ALIVE:
                    for incarnation, update in self._updates.get((subject, after.generation), ()):
                        if incarnation <= after.incarnation:  # a later one brings what the update said
                            update.hear(time_ns, observer)
            case LeaveDone():
                self._go_down(observer)

    def _see_death(
        self, time_ns: int, observer: int, subject: int, generation: int, evidence: Evidence
    ) -> None:
        death = self._deaths.get((subject, generation))
        if death is not None:
            death.hear(time_ns, observer)
        elif self._is_fine(observer, subject, generation):
            accuser = self._by_short.get(evidence.accusers[0]) if evidence.accusers else None
            if accuser in self._in_trouble or accuser in self._odd:
                self.measured.false_by_slow += 1
            else:
                self.measured.false_by_healthy += 1

    def _is_fine(self, observer: int, subject: int, generation: int) -> bool:
        host = self.world.hosts[subject]
        is_same_life = host.state is State.RUNNING and host.generation == generation
        is_healthy = subject not in self._in_trouble or self.plan.scenario is Scenario.PAUSE
        return is_same_life and is_healthy and not self.world.network.is_cut(observer, subject)

    def _bank(self, index: int) -> None:
        """A life is over, and its counts with it."""
        tally, sent = self.world.hosts[index].core.tally, self._sent[index]
        sent[0] += sum(tally.packets_out)
        sent[1] += sum(tally.bytes_out)
        self.measured.flaps += tally.flaps
        queue = self.world.hosts[index].core.membership.queue
        self.measured.queue_drops += sum(queue(kind).dropped for kind in Class)

    def _sum_up(self) -> None:
        world, measured = self.world, self.measured
        seconds = self.plan.duration_ns / SECOND
        for host in world.hosts:
            self._bank(host.index)
        measured.messages_per_s = [messages / seconds for messages, _ in self._sent]
        measured.bytes_per_s = [size / seconds for _, size in self._sent]
        measured.losses = list(self._deaths.values())
        due = [each for each in measured.losses if world.now_ns - each.began_ns >= BACK_AFTER_NS // 2]
        measured.undetected = sum(not each.heard_ns for each in due)
        measured.socket_drops = world.socket_drops
        measured.events, measured.digest = world.events, world.digest
