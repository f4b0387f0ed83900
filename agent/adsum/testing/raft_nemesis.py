"""What goes wrong in a simulated cluster. One seed mixes a few kinds, each at its own pace; then all of it
ends.

Nothing here destroys what was synced: what disks do beside forgetting is in `block_nemesis`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from adsum.now import MILLISECOND, SECOND
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step, Transition, changed
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Configuration, MemberId
from adsum.testing.raft_cluster import CONDITIONS, RaftCluster
from adsum.testing.raft_server import SimulatedServer


class Nemesis:
    """Each method named like a fault makes it happen once."""

    def __init__(self, cluster: RaftCluster, random: Random) -> None:
        self.kinds: list[str] = []
        self._cluster = cluster
        self._random = random
        self._has_ended = False

    def begin(self, kinds: list[str]) -> None:
        self.kinds = kinds
        for kind in kinds:
            pace_ns = int(self._random.uniform(0.15, 2.0) * SECOND)
            self._repeat(getattr(self, kind), pace_ns)

    def _repeat(self, fault: Callable[[], None], pace_ns: int) -> None:
        def act() -> None:
            if not self._has_ended:
                fault()
                self._repeat(fault, pace_ns)

        self._cluster.at(self._random.randrange(2 * pace_ns), act)

    def end(self) -> None:
        """Everything heals; whoever is down comes back."""
        self._has_ended = True
        cluster = self._cluster
        cluster.network.heal()
        cluster.network.conditions = CONDITIONS
        for me, host in list(cluster.servers.items()):
            cluster.world.resume(host.host.index)
            host.disk_stalled_until_ns = 0
            host.disk_ns_max = 2 * MILLISECOND
            cluster.boot(me)

    def spare(self) -> None:
        """Somebody stays down for good, as long as no quorum that may be in force misses him."""
        hosts = self._living()
        self._random.shuffle(hosts)
        down: list[MemberId] = []
        for host in hosts:
            if self._cluster.atlas.may_miss([*down, host.me]):
                down.append(host.me)
        for me in down:
            self._cluster.retire(me)

    # Conditions.

    def loss(self) -> None:
        self._become(loss=self._random.choice((0.0, 0.02, 0.1, 0.3)))

    def repeat(self) -> None:
        self._become(duplicated=self._random.choice((0.0, 0.1, 0.5)))

    def delay(self) -> None:
        self._become(held_back=self._random.choice((0.0, 0.02, 0.1)))

    def slow_network(self) -> None:
        self._become(jitter_ns=self._random.choice((2, 20, 100)) * MILLISECOND)

    def _become(self, **changed: Any) -> None:
        network = self._cluster.network
        network.conditions = replace(network.conditions, **changed)

    # Links.

    def split(self) -> None:
        hosts = list(self._cluster.servers)
        self._random.shuffle(hosts)
        count = self._random.randrange(1, len(hosts))
        self._cluster.told("split", *(me.node for me in hosts[:count]))
        self._cluster.network.heal()
        self._cluster.split(hosts[:count], hosts[count:])
        self._cluster.at(self._while(), self._cluster.network.heal)

    def split_leader(self) -> None:
        for host in self._cluster.leaders()[:1]:
            rest = [me for me in self._cluster.servers if me != host.me]
            companions = self._random.sample(rest, min(len(rest), self._random.randrange(2)))
            self._cluster.told("split leader", host.me.node)
            self._cluster.split([host.me, *companions], [me for me in rest if me not in companions])
            self._cluster.at(self._while(), self._cluster.network.heal)

    def one_way(self) -> None:
        source, target = self._random.sample(list(self._cluster.servers), 2)
        self._cluster.told("one way", source.node, target.node)
        self._cluster.cut(source, target)
        self._cluster.at(self._while(), self._cluster.network.heal)

    # Servers.

    def crash(self) -> None:
        self._crash(self._any())

    def crash_leader(self) -> None:
        for host in self._cluster.leaders()[:1]:
            self._crash(host)

    def power_loss(self) -> None:
        """All at once, in the middle of whatever they write."""
        for host in list(self._cluster.servers.values()):
            self._crash(host)

    def pause(self) -> None:
        leaders = self._cluster.leaders()
        host = leaders[0] if leaders and self._random.random() < 0.6 else self._any()
        self._cluster.pause(host.me, self._while())

    def stall_disk(self) -> None:
        self._any().disk_stalled_until_ns = self._cluster.now_ns + self._while()

    def slow_disk(self) -> None:
        self._any().disk_ns_max = self._random.choice((2, 20, 200)) * MILLISECOND

    def _crash(self, host: SimulatedServer) -> None:
        me = host.me
        self._cluster.crash(me)
        self._cluster.at(self._while(), lambda: self._cluster.boot(me))

    # What operators do.

    def compact(self) -> None:
        host = self._any()
        keep = self._random.choice((0, 0, 3, 20))
        self._cluster.later(host, 0, partial(self._cluster.compact, host, keep))

    def leave_behind(self) -> None:
        """Somebody is away while the others drop what he would need: only a snapshot can bring him back."""
        self._crash(self._any())
        self._cluster.at(300 * MILLISECOND, self._compact_all)

    def _compact_all(self) -> None:
        for host in self._cluster.up():
            self._cluster.later(host, 0, partial(self._cluster.compact, host, 0))

    def transfer(self) -> None:
        target = self._any().me
        for host in self._cluster.leaders()[:1]:
            self._ask(host, partial(host.raft.transfer, target))

    def campaign(self) -> None:
        host = self._any()
        if host.is_up:
            self._ask(host, host.raft.campaign)

    def change(self) -> None:
        """Anything at all, sometimes twice at once, sometimes just as the network breaks. Most of it is
        refused, and that is fine.
        """
        leaders = self._cluster.leaders()
        if not leaders:
            return
        host = self._random.choice(leaders)
        for _ in range(self._random.choice((1, 1, 3))):
            change = self._a_change(host.raft.replica.configuration)
            if self._is_sane(host, change):
                steps = (f"{step.verb.value} {step.member.node}" for step in change.steps)
                self._cluster.told("change", *steps)
                self._ask(host, partial(host.raft.propose_conf, change))
        if len(self._cluster.servers) > 1 and self._random.random() < 0.3:
            self._cluster.at(self._random.randrange(15 * MILLISECOND), self.split)

    def move_votes(self) -> None:
        """Most voters become learners, or all learners voters, and the network breaks in the middle of it:
        one half of a joint membership must never be enough.
        """
        for host in self._cluster.leaders()[:1]:
            change = self._a_move(host)
            if self._is_sane(host, change):
                self._cluster.told(
                    "move", *(f"{step.verb.value} {step.member.node}" for step in change.steps)
                )
                self._ask(host, partial(host.raft.propose_conf, change))
            self._cluster.at(self._random.randrange(15 * MILLISECOND), self.split_leader)

    def _a_move(self, host: SimulatedServer) -> ConfigurationChange:
        configuration = host.raft.replica.configuration
        if configuration.is_joint:
            return ConfigurationChange()
        if configuration.learners:
            steps = [Step(ChangeVerb.VOTE, learner) for learner in configuration.learners]
        else:
            others = [voter for voter in configuration.voters if voter != host.me]
            count = min(len(others), len(configuration.voters) // 2 + 1)
            steps = [Step(ChangeVerb.LEARN, voter) for voter in self._random.sample(others, count)]
        return ConfigurationChange(
            tuple(steps), self._random.choice((Transition.JOINT, Transition.JOINT_EXPLICIT))
        )

    def _is_sane(self, host: SimulatedServer, change: ConfigurationChange) -> bool:
        """No operator hands the votes to disks that are known, or about to be known, to be broken."""
        try:
            after = changed(host.raft.replica.configuration, change)
        except RaftRefused:
            return True  # the server will say so
        return self._cluster.atlas.allows(after)

    def _a_change(self, configuration: Configuration) -> ConfigurationChange:
        if configuration.is_joint and not configuration.auto_leave:
            return ConfigurationChange()
        count = self._random.choice((1, 1, 2, 4))
        steps = tuple(self._a_step(configuration) for _ in range(count))
        return ConfigurationChange(steps, self._random.choice(list(Transition)))

    def _a_step(self, configuration: Configuration) -> Step:
        member = self._any().me
        if member not in configuration.members():
            return Step(ChangeVerb.LEARN, member)
        if configuration.is_learner(member):
            return Step(self._random.choice((ChangeVerb.VOTE, ChangeVerb.VOTE, ChangeVerb.LEAVE)), member)
        return Step(self._random.choice((ChangeVerb.LEARN, ChangeVerb.LEAVE)), member)

    def _ask(self, host: SimulatedServer, action: Callable[[], object]) -> None:
        def ask() -> None:
            try:
                action()
            except RaftRefused as refused:
                self._cluster.told("refused", refused)

        self._cluster.act(host, ask)

    def _any(self) -> SimulatedServer:
        return self._random.choice(self._living())

    def _living(self) -> list[SimulatedServer]:
        """Up, or down for a while."""
        return [host for me, host in self._cluster.servers.items() if me not in self._cluster.lost]

    def _while(self) -> int:
        return int(self._random.expovariate(1.2) * SECOND) + 20 * MILLISECOND


KINDS = [
    *("loss", "repeat", "delay", "slow_network", "split", "split_leader", "one_way"),
    *("crash", "crash_leader", "power_loss", "pause", "stall_disk", "slow_disk"),
    *("compact", "leave_behind", "transfer", "campaign", "change", "move_votes"),
]
