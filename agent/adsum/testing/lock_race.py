"""The race for a lock whose holder is gone: twelve pollers ask for one key all the time, while its session is
destroyed or expires, the leader changes, and servers start again from their snapshots. Nobody may have it
before the lock-delay is over, and somebody has to, soon after.

    python -m adsum.testing.lock_race --rounds 1000

prints how many rounds were lost, and why.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom

from adsum.kv import KeyVerb, KeyWrite
from adsum.now import MILLISECOND, SECOND
from adsum.session import Session, SessionCreate, SessionDestroy
from adsum.testing.checkers import Violation, demand
from adsum.testing.hosts import State
from adsum.testing.key_agents import KeyAgent
from adsum.testing.lock_requests import Asked, LockCall, LockRequest
from adsum.testing.lock_witness import judge_locks
from adsum.testing.lock_world import LockWorld
from adsum.testing.raft_cluster import RESTART_NS
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.seed_range import FIRST_MAX, FIRST_MIN

POLLERS_PER_AGENT = 4
POLL_NS_MAX = 500 * MILLISECOND
DELAYS_MS = (1_000, 2_500)
TTL_MS = 1_000  # of a holder that dies: it expires after twice that
ROUNDS_PER_WORLD = 10
ACCIDENTS_MAX = 3  # in one round
CALM_NS = 2 * SECOND
ROUND_NS_MAX = 60 * SECOND
RETRY_NS = 200 * MILLISECOND
SLOWEST = 0.88  # that a server's clock may be against the world's
HOUR_MS = 3_600_000


@dataclass(slots=True)
class RaceRound:
    key: bytes
    holder: Session
    ended_ns: int = 0  # when its holder asked for the end, or renewed no more
    winners: list[LockRequest] = field(default_factory=list)


class LockRace:
    def __init__(self, seed: int, rounds: int) -> None:
        random = Random(f"race {seed}")
        self.world = LockWorld(seed=random.getrandbits(64))
        self.random = Random(random.getrandbits(64))
        self.rounds: list[RaceRound] = []
        self._count = rounds
        self._round: RaceRound | None = None  # that is on
        self._pollers = [
            (agent, place * POLLERS_PER_AGENT + each)
            for place, agent in enumerate(self.world.agents)
            for each in range(POLLERS_PER_AGENT)
        ]

    def through(self) -> None:
        """Raises `Violation`."""
        world = self.world
        world.run_for(CALM_NS)
        for agent, number in self._pollers:
            session = Session(f"poller-{number}", "node", agent.node_id, 1, 1)
            self._until_done(agent, number, SessionCreate(session), lambda _request: None)
            self._poll(agent, number)
        for number in range(self._count):
            self._begin(number)
            is_won = world.run_until_so(lambda: bool(self.rounds[-1].winners), within_ns=ROUND_NS_MAX)
            demand(is_won, f"nobody had {self.rounds[-1].key!r} within {ROUND_NS_MAX // SECOND} s")
            world.run_for(POLL_NS_MAX)  # another one may believe so, too
            self._round = None
        story = judge_locks(world.requests, world.written)
        for each in self.rounds:
            grants = story.grants[each.key]
            demand(len(grants) == 2, f"{each.key!r} was granted to {grants}")
            index, entry, _cause = story.ends[each.holder.id]
            granted = world.written.by_index[grants[1][2]].entry
            delay_ms = each.holder.lock_delay_ns // MILLISECOND
            waited_ms = granted.time_ms - entry.time_ms
            demand(waited_ms >= delay_ms, f"{each.key!r} was granted {waited_ms} ms after the end at {index}")
            truly_ns = world.written.first_ns[granted.index] - each.ended_ns
            is_late = truly_ns >= SLOWEST * delay_ms * MILLISECOND
            demand(is_late, f"{each.key!r} was granted {truly_ns / SECOND} s after the end was asked for")

    # One round.

    def _begin(self, number: int) -> None:
        agent = self.random.choice(self.world.agents)
        is_destroyed = self.random.random() < 0.5
        holder = Session(
            *(f"holder-{number}", "node", agent.node_id, 1, 1),
            ttl_ms=0 if is_destroyed else TTL_MS,
            lock_delay_ns=self.random.choice(DELAYS_MS) * MILLISECOND,
        )
        race = RaceRound(b"race/%d" % number, holder)
        self.rounds.append(race)
        client = 1_000 + number
        acquire = KeyWrite(KeyVerb.ACQUIRE, race.key, b"holder", session=holder.id)

        def held(_request: LockRequest) -> None:
            self._round, race.ended_ns = race, self.world.now_ns
            if is_destroyed:
                self._until_done(agent, client, SessionDestroy(holder.id), lambda _request: None)
            for _ in range(self.random.randint(0, ACCIDENTS_MAX)):
                self._later(self.random.randrange(4 * SECOND), self._accident)

        def created(_request: LockRequest) -> None:
            self._until_done(agent, client, acquire, held)

        self._until_done(agent, client, SessionCreate(holder), created)

    def _poll(self, agent: KeyAgent, number: int) -> None:
        race = self._round
        if race is not None and agent.is_up:
            acquire = KeyWrite(KeyVerb.ACQUIRE, race.key, b"%d" % number, session=f"poller-{number}")

            def answered(request: LockRequest) -> None:
                if request.is_done:
                    race.winners.append(request)

            LockCall(agent, self.world.requests, number, acquire, answered)
        self._later(self.random.randrange(1, POLL_NS_MAX), lambda: self._poll(agent, number))

    def _until_done(
        self, agent: KeyAgent, client: int, asked: Asked, then: Callable[[LockRequest], None]
    ) -> None:
        def answered(request: LockRequest) -> None:
            if request.is_done:
                then(request)
            else:
                self._later(RETRY_NS, lambda: self._until_done(agent, client, asked, then))

        LockCall(agent, self.world.requests, client, asked, answered)

    # What happens in between.

    def _accident(self) -> None:
        raft = self.world.raft
        leaders = [each for each in raft.leaders() if each.host.state is State.RUNNING]
        if not leaders or len(raft.up()) < len(raft.on_host):  # two of three have to be there
            return
        server = leaders[0] if self.random.random() < 0.7 else self.random.choice(raft.up())
        match self.random.choice(("hand over", "restart", "from snapshot", "pause", "wall clock")):
            case "hand over":
                raft.act(leaders[0], leaders[0].core.hand_over)
            case "restart":
                self._restart(server)
            case "from snapshot":
                raft.compact(server, 0)
                self._later(500 * MILLISECOND, lambda: self._restart(server))
            case "pause":
                raft.pause(server.me, self.random.randrange(3 * SECOND))
            case _:
                server.host.wall_ahead_ms += self.random.choice((-HOUR_MS, HOUR_MS))

    def _restart(self, server: SimulatedServer) -> None:
        if server.is_up:
            self.world.raft.crash(server.me)
            self._later(RESTART_NS, lambda: self.world.raft.boot(server.me))

    def _later(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.world.call(self.world.now_ns + delay_ns, action)


def run_race(seed: int, rounds: int = ROUNDS_PER_WORLD) -> str:
    """What was wrong; empty if nothing was."""
    try:
        LockRace(seed, rounds).through()
    except Violation as found:
        return str(found)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Race for the locks of holders that are gone.")
    parser.add_argument("--rounds", type=int, default=1_000, help=f"in worlds of {ROUNDS_PER_WORLD}")
    parser.add_argument("--first", type=int, help="seed; drawn if not given")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    asked = parser.parse_args()
    first = asked.first if asked.first is not None else SystemRandom().randrange(FIRST_MIN, FIRST_MAX)
    sys.stdout.write(f"Seeds from {first} on (--first {first}).\n")
    sys.stdout.flush()
    worlds = -(-asked.rounds // ROUNDS_PER_WORLD)
    began_s, lost = time.monotonic(), 0
    seeds = range(first, first + worlds)
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        for seed, found in zip(seeds, pool.imap(run_race, seeds), strict=True):
            if found:
                lost += 1
                sys.stdout.write(f"seed {seed}: {found}\n")
                sys.stdout.flush()
    took_s = time.monotonic() - began_s
    sys.stdout.write(f"{worlds * ROUNDS_PER_WORLD} rounds in {took_s:.0f} s: lost in {lost} worlds.\n")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
