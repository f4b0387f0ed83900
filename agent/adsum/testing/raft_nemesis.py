"""What goes wrong in a simulated cluster. One seed mixes a few kinds, each at its own pace; then all of it
ends.

Nothing here destroys what was synced: what disks do beside forgetting is in `block_nemesis`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from adsum.now import MILLISECOND, SECOND
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step, Transition, changed
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Configuration, MemberId
from adsum.testing.raft_cluster import RaftCluster, ServerHost
from adsum.testing.raft_network import Weather


class Nemesis:
    """Each method named like a fault makes it happen once."""

    def __init__(self, cluster: RaftCluster, random: Random) -> None:
        self.kinds: list[str] = []
        self._cluster = cluster
        self._random = random
        self._has_ended = False
        self._weather = Weather()

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
        cluster.network.weather = Weather()
        for me, host in list(cluster.hosts.items()):
            host.paused_until_ns = min(host.paused_until_ns, cluster.now_ns)
            host.disk_stalled_until_ns = 0
            host.disk_ns_max = 2 * MILLISECOND
            cluster.boot(me)

    def spare(self) -> None:
        """Somebody stays down for good, as long as no quorum that may be in force misses him."""
        hosts = self._living()
        self._random.shuffle(hosts)
        down: list[MemberId] = []
        for host in hosts:
            if self._cluster.atlas.may_miss([*down, host.server.me]):
                down.append(host.server.me)
        for me in down:
            self._cluster.retire(me)

    # Weather.

    def loss(self) -> None:
        self._cluster.network.weather.loss = self._random.choice((0.0, 0.02, 0.1, 0.3))

    def repeat(self) -> None:
        self._cluster.network.weather.repeat = self._random.choice((0.0, 0.1, 0.5))

    def delay(self) -> None:
        self._cluster.network.weather.delay = self._random.choice((0.0, 0.02, 0.1))

    def slow_network(self) -> None:
        self._cluster.network.weather.latency_ns_max = self._random.choice((2, 20, 100)) * MILLISECOND

    # Links.

    def split(self) -> None:
        hosts = list(self._cluster.hosts)
        self._random.shuffle(hosts)
        count = self._random.randrange(1, len(hosts))
        self._cluster.told("split", *(me.node for me in hosts[:count]))
        self._cluster.network.heal()
        self._cluster.network.split(hosts[:count], hosts[count:])
        self._cluster.at(self._while(), self._cluster.network.heal)

    def split_leader(self) -> None:
        for host in self._cluster.leaders()[:1]:
            rest = [me for me in self._cluster.hosts if me != host.server.me]
            companions = self._random.sample(rest, min(len(rest), self._random.randrange(2)))
            self._cluster.told("split leader", host.server.me.node)
            self._cluster.network.split(
                [host.server.me, *companions], [me for me in rest if me not in companions]
            )
            self._cluster.at(self._while(), self._cluster.network.heal)

    def one_way(self) -> None:
        source, target = self._random.sample(list(self._cluster.hosts), 2)
        self._cluster.told("one way", source.node, target.node)
        self._cluster.network.cut(source, target)
        self._cluster.at(self._while(), self._cluster.network.heal)

    # Servers.

    def crash(self) -> None:
        self._crash(self._any())

    def crash_leader(self) -> None:
        for host in self._cluster.leaders()[:1]:
            self._crash(host)

    def power_loss(self) -> None:
        """All at once, in the middle of whatever they write."""
        for host in list(self._cluster.hosts.values()):
            self._crash(host)

    def pause(self) -> None:
        leaders = self._cluster.leaders()
        host = leaders[0] if leaders and self._random.random() < 0.6 else self._any()
        self._cluster.pause(host.server.me, self._while())

    def stall_disk(self) -> None:
        self._any().disk_stalled_until_ns = self._cluster.now_ns + self._while()

    def slow_disk(self) -> None:
        self._any().disk_ns_max = self._random.choice((2, 20, 200)) * MILLISECOND

    def _crash(self, host: ServerHost) -> None:
        me = host.server.me
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
        target = self._any().server.me
        for host in self._cluster.leaders()[:1]:
            self._ask(host, partial(host.server.raft.transfer, target))

    def campaign(self) -> None:
        host = self._any()
        if host.server.is_up:
            self._ask(host, host.server.raft.campaign)

    def change(self) -> None:
        """Anything at all, sometimes twice at once, sometimes just as the network breaks. Most of it is
        refused, and that is fine.
        """
        leaders = self._cluster.leaders()
        if not leaders:
            return
        host = self._random.choice(leaders)
        for _ in range(self._random.choice((1, 1, 3))):
            change = self._a_change(host.server.raft.replica.configuration)
            if self._is_sane(host, change):
                steps = (f"{step.verb.value} {step.member.node}" for step in change.steps)
                self._cluster.told("change", *steps)
                self._ask(host, partial(host.server.raft.propose_conf, change))
        if len(self._cluster.hosts) > 1 and self._random.random() < 0.3:
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
                self._ask(host, partial(host.server.raft.propose_conf, change))
            self._cluster.at(self._random.randrange(15 * MILLISECOND), self.split_leader)

    def _a_move(self, host: ServerHost) -> ConfigurationChange:
        configuration = host.server.raft.replica.configuration
        if configuration.is_joint:
            return ConfigurationChange()
        if configuration.learners:
            steps = [Step(ChangeVerb.VOTE, learner) for learner in configuration.learners]
        else:
            others = [voter for voter in configuration.voters if voter != host.server.me]
            count = min(len(others), len(configuration.voters) // 2 + 1)
            steps = [Step(ChangeVerb.LEARN, voter) for voter in self._random.sample(others, count)]
        return ConfigurationChange(
            tuple(steps), self._random.choice((Transition.JOINT, Transition.JOINT_EXPLICIT))
        )

    def _is_sane(self, host: ServerHost, change: ConfigurationChange) -> bool:
        """No operator hands the votes to disks that are known, or about to be known, to be broken."""
        try:
            after = changed(host.server.raft.replica.configuration, change)
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
        member = self._any().server.me
        if member not in configuration.members():
            return Step(ChangeVerb.LEARN, member)
        if configuration.is_learner(member):
            return Step(self._random.choice((ChangeVerb.VOTE, ChangeVerb.VOTE, ChangeVerb.LEAVE)), member)
        return Step(self._random.choice((ChangeVerb.LEARN, ChangeVerb.LEAVE)), member)

    def _ask(self, host: ServerHost, action: Callable[[], object]) -> None:
        def ask() -> None:
            try:
                action()
            except RaftRefused as refused:
                self._cluster.told("refused", refused)

        self._cluster.act(host, ask)

    def _any(self) -> ServerHost:
        return self._random.choice(self._living())

    def _living(self) -> list[ServerHost]:
        """Up, or down for a while."""
        return [host for me, host in self._cluster.hosts.items() if me not in self._cluster.lost]

    def _while(self) -> int:
        return int(self._random.expovariate(1.2) * SECOND) + 20 * MILLISECOND


KINDS = [
    *("loss", "repeat", "delay", "slow_network", "split", "split_leader", "one_way"),
    *("crash", "crash_leader", "power_loss", "pause", "stall_disk", "slow_disk"),
    *("compact", "leave_behind", "transfer", "campaign", "change", "move_votes"),
]
