"""Seeded runs of the world of sessions: faults of servers and networks, nodes that move, clients that renew
or do not.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from adsum.now import MILLISECOND, SECOND
from adsum.session import Session
from adsum.sessions.judging import SERF_HEALTH
from adsum.sessions.sees import CheckSeen, HostVerdict
from adsum.testing.checkers import Violation, demand
from adsum.testing.raft_nemesis import Nemesis
from adsum.testing.seed_range import seed_range, seeds_parser
from adsum.testing.session_world import (
    CHECK,
    LAGS_NS,
    NODES,
    SERVERS,
    TTLS_MS,
    SessionWorld,
    SimulatedNode,
)

FAULTS = (
    *("loss", "repeat", "delay", "split", "split_leader", "one_way", "crash", "crash_leader", "pause"),
    *("suspend", "stall_disk", "transfer", "campaign", "compact"),
)
FAULTY_NS = 60 * SECOND
QUIET_NS = 60 * SECOND

CLIENTS = 14
LEADING_NS = (3 * SECOND, 13 * SECOND, 60 * SECOND)
WRONG_NS = (300 * MILLISECOND, 5 * SECOND, 25 * SECOND)
LATE_NS = (2 * MILLISECOND, 100 * MILLISECOND, 3 * SECOND, 15 * SECOND)


class SessionClient:
    """Creates a session where some agent sees its node well, renews it for a while, and dies."""

    def __init__(self, world: SessionWorld, number: int, random: Random) -> None:
        self.world = world
        self.random = random
        self.number = number
        self.rounds = 0
        self.session: Session | None = None
        self._begin_ns = 0
        world.call(world.now_ns + random.randrange(5 * SECOND), self._begin)

    def _begin(self) -> None:
        world, random = self.world, self.random
        node = world.nodes[random.randrange(NODES)]
        # The node's own agent, or another one with a copy.
        seen = (
            node.now if random.random() < 0.5 else world.sights[random.randrange(SERVERS)].heard[node.node_id]
        )
        if seen.verdict is not HostVerdict.PRESENT or seen.check is not CheckSeen.FINE or world.is_over:
            if not world.is_over:
                world.call(world.now_ns + SECOND, self._begin)
            return
        self.rounds += 1
        ttl_ms = random.choice((*TTLS_MS, 0))
        checks = random.choice(((), (SERF_HEALTH,), (SERF_HEALTH, CHECK), (CHECK,)))
        session = Session(
            *(f"{self.number}-{self.rounds}", node.name, node.node_id, seen.generation, seen.version),
            ttl_ms=ttl_ms,
            node_checks=checks,
        )
        self.session = session
        world.create(random.choice(list(world.servers.values())).server, session)
        until_ns = world.now_ns + random.choice((1, 5, 15, 80)) * SECOND
        self._go_on(session, until_ns)

    def _go_on(self, session: Session, until_ns: int) -> None:
        world, random = self.world, self.random
        if world.now_ns >= until_ns or (world.is_over and session.ttl_ms != TTLS_MS[0]):
            self._renew_at_the_last_moment(session)
            world.call(world.now_ns + random.randrange(20 * SECOND), self._begin)
            return
        if session.ttl_ms:
            for server in list(world.servers.values()):
                # To whoever it takes for the leader; some come late, some twice.
                if random.random() < 0.7:
                    delay_ns = random.choice(LATE_NS) if random.random() < 0.2 else LATE_NS[0]
                    index = server.server.host.index
                    world.call(world.now_ns + delay_ns, partial(world.renew, index, session.id))
        pause_ns = int((session.ttl_ms or 2_000) * MILLISECOND * random.uniform(0.1, 1.0))
        world.call(world.now_ns + pause_ns, lambda: self._go_on(session, until_ns))

    def _renew_at_the_last_moment(self, session: Session) -> None:
        """Before it ends, while that is under way, and after it."""
        world, fate = self.world, self.world.fates[session.id]
        if not session.ttl_ms or fate.acknowledged_ns < 0 or self.random.random() < 0.5:
            return
        due_ns = fate.acknowledged_ns + 2 * session.ttl_ms * MILLISECOND
        for step in range(-2, 20):
            at_ns = due_ns + step * MILLISECOND
            if at_ns > world.now_ns:
                for index in range(SERVERS):
                    world.call(at_ns, partial(world.renew, index, session.id))


class Weather:
    """What happens to nodes and to what servers see of them."""

    def __init__(self, world: SessionWorld, random: Random) -> None:
        self._world = world
        self._random = random
        self._change_leaders(random.choice(LEADING_NS))
        for act, pace_ns in (
            (self._move, 3 * SECOND),
            (self._lag, 10 * SECOND),
            (self._be_wrong, 6 * SECOND),
            (self._be_cut_off, 15 * SECOND),
        ):
            self._repeat(act, pace_ns)

    def _change_leaders(self, every_ns: int) -> None:
        """Orderly: those in between have the time to note what is left of long sessions."""
        leader = self._world.leading()
        if leader is not None and not self._world.is_over:
            self._world.raft.act(leader.server, leader.server.core.hand_over)
        self._world.call(self._world.now_ns + every_ns, lambda: self._change_leaders(every_ns))

    def _repeat(self, act: Callable[[], None], pace_ns: int) -> None:
        def again() -> None:
            if not self._world.is_over:
                act()
                self._repeat(act, pace_ns)

        self._world.call(self._world.now_ns + self._random.randrange(2 * pace_ns), again)

    def _move(self) -> None:
        node = self._random.choice(self._world.nodes)
        standing = node.now
        if standing.verdict is not HostVerdict.PRESENT:
            self._come_back(node)
        elif (kind := self._random.random()) < 0.2:
            self._world.moves(node, verdict=HostVerdict.FAILED)
        elif kind < 0.25:
            self._world.moves(node, verdict=HostVerdict.GONE)
        elif kind < 0.35:
            self._world.moves(node, generation=standing.generation + 1, version=1)
        else:
            check = self._random.choice(list(CheckSeen))
            self._world.moves(node, version=standing.version + 1, check=check)

    def _come_back(self, node: SimulatedNode) -> None:
        standing = node.now
        is_same_life = standing.verdict is HostVerdict.FAILED and self._random.random() < 0.3
        if is_same_life:
            self._world.moves(node, verdict=HostVerdict.PRESENT, version=standing.version + 1)
        else:
            generation = standing.generation + 1
            self._world.moves(
                node, verdict=HostVerdict.PRESENT, generation=generation, version=1, check=CheckSeen.FINE
            )

    def _lag(self) -> None:
        self._random.choice(self._world.sights).lag_ns = self._random.choice(LAGS_NS)

    def _be_wrong(self) -> None:
        world = self._world
        if any(sight.called_failed for sight in world.sights):
            return
        index, node = self._random.randrange(SERVERS), self._random.choice(world.nodes)
        world.sights[index].called_failed = node.node_id
        world.node_moved(index, node)

        def right() -> None:
            world.sights[index].called_failed = None
            world.node_moved(index, node)

        world.call(world.now_ns + self._random.choice(WRONG_NS), right)

    def _be_cut_off(self) -> None:
        sight = self._random.choice(self._world.sights)
        sight.is_isolated = True

        def back() -> None:
            sight.is_isolated = False

        self._world.call(self._world.now_ns + self._random.choice(WRONG_NS), back)


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    seed: int
    faults: tuple[str, ...]
    ends: Counter[str]  # by cause
    takeovers: int
    digest: int
    failure: str = ""


def run_sessions(seed: int, faults: Sequence[str] | None = None) -> SessionOutcome:
    """Without a word about faults the seed picks three."""
    world = SessionWorld(seed=seed)
    random = Random(world.random.getrandbits(64))
    picked = random.sample(FAULTS, 3)
    nemesis = Nemesis(world.raft, Random(random.getrandbits(64)))
    nemesis.begin(picked if faults is None else list(faults))
    Weather(world, Random(random.getrandbits(64)))
    for number in range(CLIENTS):
        SessionClient(world, number, Random(random.getrandbits(64)))
    failure = ""
    try:
        world.run_for(FAULTY_NS)
        nemesis.end()
        world.is_over = True
        for sight in world.sights:
            sight.lag_ns = LAGS_NS[0]
        world.run_for(QUIET_NS)
        doomed = world.doomed()
        demand(doomed == [], f"{doomed} are there, though their node or check is not")
    except Violation as violation:
        failure = str(violation)
    ends = Counter(fate.ended.cause.name for fate in world.fates.values() if fate.ended is not None)
    return SessionOutcome(seed, tuple(nemesis.kinds), ends, world.takeovers, world.digest, failure)


def main() -> int:
    asked = seeds_parser("Keep sessions in simulated clusters, a seed each.", seeds=500).parse_args()
    ends, takeovers, failed = Counter[str](), 0, 0
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        for outcome in pool.imap(run_sessions, seed_range(asked), chunksize=4):
            ends.update(outcome.ends)
            takeovers += outcome.takeovers
            if outcome.failure:
                failed += 1
                sys.stdout.write(f"seed {outcome.seed} ({' '.join(outcome.faults)}): {outcome.failure}\n")
                sys.stdout.flush()
    told = ", ".join(f"{count} {cause.lower().replace('_', ' ')}" for cause, count in sorted(ends.items()))
    sys.stdout.write(f"Sessions that ended: {told}; leaders that took over: {takeovers}.\n")
    sys.stdout.write(f"{asked.seeds} seeds: {failed} failed.\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
