"""What happens to hosts in any week, to whole agents on simulated time, and whether all is well afterwards.

Containers are restarted one by one without a volume, most of a cluster is killed at once and a third comes
back without its data folder, addresses go from host to host, names are swapped, clocks are wrong. Of each
there is one rule that must hold whatever the seed: some time after the last of it everybody who runs is alive
in everybody's eyes, nobody else is, and every registered service is visible everywhere, once.

    python -m adsum.testing.host_accidents --seeds 1000
"""

from __future__ import annotations

import enum
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from adsum.address import Address
from adsum.agent.commands import RegisterService
from adsum.catalog.definitions import CheckStatus, ServiceDefinition
from adsum.gossip.commands import Join, Leave, Restart
from adsum.gossip.order import MemberStatus as Standing
from adsum.gossip.settings import GossipSettings
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND
from adsum.process.joining import read_peers
from adsum.testing.cluster import AgentCluster
from adsum.testing.hosts import SimulatedHost
from adsum.testing.network import Conditions
from adsum.testing.seed_range import seed_range, seeds_parser
from adsum.testing.world import PORT

HOSTS_MIN, HOSTS_MAX = 4, 10
SEEDS_NAMED = 3  # hosts that retry_join of every agent names
FORMED_NS_MIN, FORMED_NS_MAX = 2 * SECOND, 40 * SECOND  # also less than it takes until names are settled
DOWN_NS_MIN, DOWN_NS_MAX = SECOND // 5, 5 * SECOND
DOWN_UNSEEN_NS = SECOND // 2  # nobody calls it failed before it is back
BETWEEN_NS_MIN, BETWEEN_NS_MAX = SECOND // 2, 8 * SECOND
REGISTERED_NS_MAX = 2 * SECOND  # after a start; clients register when they see that the agent is there
WELL_NS = 90 * SECOND  # after the last accident: the longest that real ones needed was a third of it
SLOW_GOSSIP_NS = SECOND // 2
LOOK_NS = SECOND
JOIN_LOOK_NS = 5 * SECOND
RUN_FOR_MS = 240 * HOUR // MILLISECOND
CLOCK_OFF_MS_MAX = 72 * HOUR // MILLISECOND
STORM_CLOCK_OFF_MS = 2 * HOUR // MILLISECOND
SILENT_NS = 30 * SECOND  # until a paused host is called failed, at the latest
REMEMBERED_NS = 10 * MINUTE  # 72 hours otherwise
STAYS_DOWN_SHARE = 8  # one host in so many is gone for good


class Accident(enum.Enum):
    ROLLING = "a rolling restart with new ids"
    STORM = "most are killed at once, a third loses its data folder, half of the clocks are off"
    ADDRESSES = "addresses go from host to host"
    NAMES = "names are swapped"
    ABSENCE = "hosts stand still for longer than the failed are remembered"
    CLOCKS = "clocks jump by up to three days"


@dataclass(frozen=True, slots=True)
class AccidentOutcome:
    accident: Accident
    seed: int
    settled_ns: int | None  # after the last accident; None: not within the time given
    problems: tuple[str, ...]  # that were left then
    digest: int

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.accident.name.lower()}: {'; '.join(self.problems[:4])}"


class HostAccidents:
    def __init__(self, accident: Accident, seed: int) -> None:
        self.accident = accident
        self.seed = seed
        self.random = Random(f"accidents {accident.name} {seed}")
        hosts = self.random.randint(HOSTS_MIN, HOSTS_MAX)
        loss = self.random.choice((0.0, 0.0, 0.02, 0.05))
        # News that is pushed at once hides what only slow news brings about.
        settings = GossipSettings(reconnect_timeout_ns=REMEMBERED_NS)
        if seed % 2 == 0:
            settings = replace(settings, push_nodes=0, gossip_interval_ns=SLOW_GOSSIP_NS)
        self.cluster = AgentCluster(hosts, seed=seed, conditions=Conditions(loss=loss), settings=settings)
        self._busy: dict[int, None] = {}  # that an accident is under way for
        self._gone: dict[int, None] = {}  # that do not come back
        # All clocks were wrong alike when their agents started; or right, and days have passed since.
        self._all_ahead_ms = self.random.choice((0, CLOCK_OFF_MS_MAX, -RUN_FOR_MS))

    def run(self) -> AccidentOutcome:
        cluster = self.cluster
        if self.accident is Accident.STORM:
            self._set_clocks(STORM_CLOCK_OFF_MS)
        elif self.accident is Accident.CLOCKS:
            for host in cluster.hosts:
                host.wall_ahead_ms = self._all_ahead_ms
        for host in cluster.hosts:
            self._start(host.index)
        cluster.run_for(self.random.randrange(FORMED_NS_MIN, FORMED_NS_MAX))
        {
            Accident.ROLLING: self._restart_one_by_one,
            Accident.STORM: self._storm,
            Accident.ADDRESSES: self._pass_addresses_on,
            Accident.NAMES: self._swap_names,
            Accident.ABSENCE: self._stand_still,
            Accident.CLOCKS: self._set_clocks_and_restart,
        }[self.accident]()
        while self._busy:
            cluster.run_for(LOOK_NS)
        return self._look_until_well()

    # Accidents.

    def _restart_one_by_one(self) -> None:
        off_ms = self.random.choice((0, -STORM_CLOCK_OFF_MS))
        has_new_addresses = self.random.random() < 0.3
        for host in self.cluster.hosts:
            self._take_down(host.index, is_orderly=self.random.random() < 0.5)
            host.wall_ahead_ms = off_ms
            address = self._new_address() if has_new_addresses else None
            self._back_later(host.index, is_reborn=True, address=address)
            self.cluster.run_for(self.random.randrange(BETWEEN_NS_MIN, BETWEEN_NS_MAX))

    def _stand_still(self) -> None:
        """As a suspended virtual machine does."""
        absent = self.random.sample(self.cluster.hosts, self.random.randint(1, len(self.cluster.hosts) // 2))
        for host in absent:
            self.cluster.pause(host.index)
        self.cluster.run_for(SILENT_NS + REMEMBERED_NS + 2 * MINUTE)
        for host in absent:
            self.cluster.resume(host.index)
            self.cluster.run_for(self.random.randrange(BETWEEN_NS_MIN, BETWEEN_NS_MAX))

    def _storm(self) -> None:
        hosts = list(range(len(self.cluster.hosts)))
        killed = self.random.sample(hosts, max(2, 3 * len(hosts) // 4))
        for place, index in enumerate(killed):
            self._take_down(index, is_orderly=False)
            self.cluster.run_for(self.random.randrange(SECOND // len(killed)))
            if self.random.random() < 0.5:
                self._turn_clock(index, STORM_CLOCK_OFF_MS)
            self._back_later(index, is_reborn=place % 3 == 0, stays_down=self._stays_down())

    def _pass_addresses_on(self) -> None:
        """Each that is down gets the address of another of them, or one that nobody had. At most half at a
        time: one whose peers all moved at once, and forgot it, would be known to nobody."""
        hosts = list(range(len(self.cluster.hosts)))
        for _round in range(2):
            moved = self.random.sample(hosts, self.random.randint(2, len(hosts) // 2))
            moved = [index for index in moved if index not in self._gone]
            for index in moved:
                self._take_down(index, is_orderly=self.random.random() < 0.3)
            addresses = [self.cluster.hosts[index].address for index in moved]
            self.random.shuffle(addresses)
            for index, address in zip(moved, addresses, strict=True):
                if self.random.random() < 0.2:
                    address = self._new_address()
                is_reborn, stays_down = self.random.random() < 0.5, self._stays_down()
                self._back_later(index, is_reborn=is_reborn, stays_down=stays_down, address=address)
            self.cluster.run_for(DOWN_NS_MAX + self.random.randrange(20 * SECOND))

    def _swap_names(self) -> None:
        hosts = list(range(len(self.cluster.hosts)))
        for _round in range(2):
            swapped = self.random.sample(hosts, self.random.randint(2, len(hosts) - 1))
            names = [self.cluster.hosts[index].profile.name for index in swapped]
            within_ns = self.random.choice((DOWN_UNSEEN_NS, DOWN_NS_MAX))
            for place, index in enumerate(swapped):
                self._take_down(index, is_orderly=self.random.random() < 0.3)
                is_reborn = self.random.random() < 0.3
                self._back_later(index, is_reborn=is_reborn, name=names[place - 1], within_ns=within_ns)
                if within_ns == DOWN_NS_MAX and self.random.random() < 0.5:
                    self.cluster.run_for(self.random.randrange(DOWN_NS_MAX))
            self.cluster.run_for(DOWN_NS_MAX + self.random.randrange(20 * SECOND))

    def _set_clocks_and_restart(self) -> None:
        """Some while the agent runs, some before it is started again; by now most clocks are right."""
        for host in self.cluster.hosts:
            host.wall_ahead_ms = 0
        for host in self.random.sample(self.cluster.hosts, len(self.cluster.hosts) // 3):
            if self._all_ahead_ms <= 0:
                self._turn_clock(host.index, CLOCK_OFF_MS_MAX)
            if self.random.random() < 0.7:
                self._take_down(host.index, is_orderly=self.random.random() < 0.3)
                self._back_later(host.index, is_reborn=self.random.random() < 0.4)
            self.cluster.run_for(self.random.randrange(BETWEEN_NS_MIN, BETWEEN_NS_MAX))

    # What accidents are made of.

    def _set_clocks(self, off_ms_max: int) -> None:
        for host in self.cluster.hosts:
            if self.random.random() < 0.5:
                self._turn_clock(host.index, off_ms_max)

    def _turn_clock(self, index: int, off_ms_max: int) -> None:
        off_ms = self.random.choice((-off_ms_max, off_ms_max, self.random.randint(-off_ms_max, off_ms_max)))
        self.cluster.hosts[index].wall_ahead_ms = off_ms

    def _stays_down(self) -> bool:
        return self.random.randrange(STAYS_DOWN_SHARE) == 0 and len(self._gone) < 2

    def _new_address(self) -> Address:
        return Address(f"10.9.{self.random.randrange(256)}.{self.random.randrange(1, 255)}", PORT)

    def _take_down(self, index: int, *, is_orderly: bool) -> None:
        if is_orderly:
            self.cluster.command(index, self.random.choice((Restart(30_000), Leave())))
            self.cluster.run_for(self.random.randrange(3 * SECOND))
        self.cluster.kill(index)

    def _back_later(
        self,
        index: int,
        *,
        is_reborn: bool,
        stays_down: bool = False,
        name: str | None = None,
        address: Address | None = None,
        within_ns: int = DOWN_NS_MAX,
    ) -> None:
        if stays_down:
            self._gone[index] = None
            return
        self._busy[index] = None
        wait_ns = self.random.randrange(DOWN_NS_MIN, within_ns)
        back = partial(self._back, index, is_reborn=is_reborn, name=name, address=address)
        self.cluster.call(self.cluster.now_ns + wait_ns, back)

    def _back(self, index: int, *, is_reborn: bool, name: str | None, address: Address | None) -> None:
        if is_reborn:
            self.cluster.lose_folder(index)
        self._start(index, name=name, address=address)
        del self._busy[index]

    def _start(self, index: int, *, name: str | None = None, address: Address | None = None) -> None:
        """As a supervisor and the clients of the host would: the agent joins, the service is registered."""
        cluster = self.cluster
        cluster.start(index, name=name, address=address)
        life = cluster.hosts[index].life
        self._join(index, life)
        wait_ns = self.random.randrange(REGISTERED_NS_MAX)
        cluster.call(cluster.now_ns + wait_ns, lambda: self._register(index, life))

    def _join(self, index: int, life: int) -> None:
        """By the peers that were saved and by retry_join, again until it works, and when others are lost."""
        cluster = self.cluster
        if not self._lives(index, life):
            return
        named = [host.address for host in cluster.hosts[:SEEDS_NAMED]]
        asked = dict.fromkeys([*read_peers(cluster.rejoin(index))[:SEEDS_NAMED], *named])
        request = cluster.give(index, Join(tuple(asked)))

        def look() -> None:
            if not self._lives(index, life):
                return
            player = cluster.agent(index)
            membership, now = player.membership, cluster.now_at(cluster.hosts[index])
            is_lost = membership.is_forgotten(now) or membership.misses_others()
            if player.replies.get(request) is not None or (is_lost and request in player.replies):
                self._join(index, life)
            else:
                cluster.call(cluster.now_ns + JOIN_LOOK_NS, look)

        cluster.call(cluster.now_ns + JOIN_LOOK_NS, look)

    def _register(self, index: int, life: int) -> None:
        if self._lives(index, life):
            self.cluster.give(index, RegisterService(_web(index)))

    def _lives(self, index: int, life: int) -> bool:
        host = self.cluster.hosts[index]
        return host.is_up and host.life == life

    # Whether all is well.

    def _look_until_well(self) -> AccidentOutcome:
        """The last look counts: who is well for a moment only is not well."""
        cluster, settled_ns = self.cluster, None
        began_ns = cluster.now_ns
        while cluster.now_ns < began_ns + WELL_NS:
            cluster.run_for(LOOK_NS)
            if next(self._problems(), None) is not None:
                settled_ns = None
            elif settled_ns is None:
                settled_ns = cluster.now_ns - began_ns
        problems = tuple(self._problems())
        return AccidentOutcome(self.accident, self.seed, settled_ns, problems, cluster.digest)

    def _problems(self) -> Iterator[str]:
        running = [host for host in self.cluster.hosts if host.is_up]
        wanted = sorted((host.profile.name, _service_id(host.index)) for host in running)
        for observer in running:
            yield from self._wrong_members(observer, running)
            view = self.cluster.agent(observer.index).core.view
            shown = sorted(
                (each.host.name, each.service.value.service_id)
                for each in view.instances("web")
                if each.status is CheckStatus.PASSING
            )
            if shown != wanted:
                missing = [name for name, _ in wanted if name not in dict(shown)]
                yield f"{observer.profile.name} lacks services of {missing}, shows {shown}"

    def _wrong_members(self, observer: SimulatedHost, running: Sequence[SimulatedHost]) -> Iterator[str]:
        membership = observer.core.membership
        for host in running:
            if host is observer:
                continue
            member = membership.member_by_id(host.profile.node_id)
            if member is None or member.status is not Standing.ALIVE:
                status = member.status.value if member is not None else "unknown"
                yield f"{observer.profile.name} calls {host.profile.name}, which runs, {status}"
            elif (member.profile.name, member.profile.address) != (host.profile.name, host.address):
                yield f"{observer.profile.name} knows {host.profile.name} by an old name or address"
        if membership.others_present != len(running) - 1:
            present = membership.others_present
            yield f"{observer.profile.name} lists {present} others, of {len(running) - 1}"


def _web(index: int) -> ServiceDefinition:
    return ServiceDefinition(service_id=_service_id(index), name="web", port=80)


def _service_id(index: int) -> str:
    return f"web-{index}"


def run(accident: Accident, seed: int) -> AccidentOutcome:
    return HostAccidents(accident, seed).run()


def _run(task: tuple[Accident, int]) -> AccidentOutcome:
    return run(*task)


def main() -> int:
    parser = seeds_parser("Simulate accidents of hosts, a seed each.", seeds=200)
    parser.add_argument("--accidents", default="", help="names, with commas between; all without")
    asked = parser.parse_args()
    named = [name.upper() for name in asked.accidents.split(",") if name]
    accidents = [each for each in Accident if not named or each.name in named]
    tasks = [(each, seed) for seed in seed_range(asked) for each in accidents]
    failed = 0
    slowest_ns = dict.fromkeys(accidents, 0)
    with multiprocessing.Pool(asked.jobs) as pool:
        for outcome in pool.imap(_run, tasks):
            if outcome.settled_ns is None:
                failed += 1
                sys.stdout.write(f"{outcome}\n")
                sys.stdout.flush()
            else:
                slowest = max(slowest_ns[outcome.accident], outcome.settled_ns)
                slowest_ns[outcome.accident] = slowest
    told = ", ".join(f"{each.name.lower()} {slowest_ns[each] / SECOND:.0f} s" for each in accidents)
    sys.stdout.write(f"All well after at most: {told}.\n")
    sys.stdout.write(f"{len(tasks)} runs of {len(accidents)} accidents, {failed} failed.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
