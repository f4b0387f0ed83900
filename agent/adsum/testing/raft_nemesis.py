"""What goes wrong in a simulated cluster. One seed mixes a few kinds, each at its own pace; then all of it
ends.

Nothing here destroys what was synced: that is for the disk of the shipped log to survive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from adsum.now import MILLISECOND, SECOND
from adsum.raft.changer import Change, Step, Transition, Verb, decode_configuration
from adsum.raft.errors import Refused
from adsum.raft.types import Configuration, EntryKind, MemberId
from adsum.testing.raft_cluster import Cluster, Host
from adsum.testing.raft_network import Weather


class Nemesis:
    """Each method named like a fault makes it happen once."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
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
        for me, host in cluster.hosts.items():
            host.paused_until_ns = min(host.paused_until_ns, cluster.now_ns)
            host.disk_stalled_until_ns = 0
            host.disk_ns_max = 2 * MILLISECOND
            cluster.boot(me)

    def spare(self) -> None:
        """Somebody stays down for good, as long as no quorum that may be in force misses him."""
        hosts = list(self._cluster.hosts)
        self._random.shuffle(hosts)
        down: list[MemberId] = []
        configurations = [each for host in self._cluster.hosts.values() for each in in_force(host)]
        for me in hosts:
            if all(has_quorum_without([*down, me], configuration) for configuration in configurations):
                down.append(me)
                self._cluster.crash(me)

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
            companions = self._random.sample(rest, self._random.randrange(2))
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

    def _crash(self, host: Host) -> None:
        me = host.server.me
        self._cluster.crash(me)
        self._cluster.at(self._while(), lambda: self._cluster.boot(me))

    # What operators do.

    def compact(self) -> None:
        host = self._any()
        if host.server.is_up:
            host.server.compact(self._random.choice((0, 0, 3, 20)))

    def transfer(self) -> None:
        target = self._any().server.me
        for host in self._cluster.leaders()[:1]:
            self._ask(host, partial(host.server.core.transfer, target))

    def campaign(self) -> None:
        host = self._any()
        if host.server.is_up:
            self._ask(host, host.server.core.campaign)

    def change(self) -> None:
        """Anything at all, sometimes twice at once, sometimes just as the network breaks. Most of it is
        refused, and that is fine.
        """
        leaders = self._cluster.leaders()
        if not leaders:
            return
        host = self._random.choice(leaders)
        for _ in range(self._random.choice((1, 1, 3))):
            change = self._a_change(host.server.core.replica.configuration)
            self._cluster.told("change", *(f"{step.verb.value} {step.member.node}" for step in change.steps))
            self._ask(host, partial(host.server.core.propose_conf, change))
        if len(self._cluster.hosts) > 1 and self._random.random() < 0.3:
            self._cluster.at(self._random.randrange(15 * MILLISECOND), self.split)

    def _a_change(self, configuration: Configuration) -> Change:
        if configuration.is_joint and not configuration.auto_leave:
            return Change()
        count = self._random.choice((1, 1, 2, 4))
        steps = tuple(self._a_step(configuration) for _ in range(count))
        return Change(steps, self._random.choice(list(Transition)))

    def _a_step(self, configuration: Configuration) -> Step:
        member = self._any().server.me
        if member not in configuration.members():
            return Step(Verb.LEARN, member)
        if configuration.is_learner(member):
            return Step(self._random.choice((Verb.VOTE, Verb.VOTE, Verb.LEAVE)), member)
        return Step(self._random.choice((Verb.LEARN, Verb.LEAVE)), member)

    def _ask(self, host: Host, action: Callable[[], object]) -> None:
        def ask() -> None:
            try:
                action()
            except Refused as refused:
                self._cluster.told("refused", refused)

        self._cluster.act(host, ask)

    def _any(self) -> Host:
        return self._random.choice(list(self._cluster.hosts.values()))

    def _while(self) -> int:
        return int(self._random.expovariate(1.2) * SECOND) + 20 * MILLISECOND


KINDS = [
    *("loss", "repeat", "delay", "slow_network", "split", "split_leader", "one_way"),
    *("crash", "crash_leader", "power_loss", "pause", "stall_disk", "slow_disk"),
    *("compact", "transfer", "campaign", "change"),
]


def in_force(host: Host) -> list[Configuration]:
    """What this server goes by, and what its log says comes next."""
    log = host.server.core.replica.log
    changes = [
        decode_configuration(entry.data)
        for entry in log.entries(log.first_index, log.last_index)
        if entry.kind is EntryKind.CONFIGURATION
    ]
    known = [host.server.core.replica.configuration, log.snapshot.configuration, *changes]
    return [configuration for configuration in known if configuration.voters]


def has_quorum_without(down: list[MemberId], configuration: Configuration) -> bool:
    halves = [half for half in (configuration.voters, configuration.voters_outgoing) if half]
    return all(2 * sum(voter not in down for voter in half) > len(half) for half in halves)
