"""A simulated machine: what survives its process, and the process while there is one.

Its clocks are its own: how fast they run, and what they showed when the process began. `turn_ns_max` says how
late the loop of its process may get round to what is due at once."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from adsum.address import Address
from adsum.gossip.claims import Profile
from adsum.gossip.commands import Command, Report
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.tally import GossipTally
from adsum.now import MILLISECOND, Now
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.disk import SimulatedDisk

MILLION = 1_000_000


class State(enum.Enum):
    RUNNING = "running"
    HELD = "held"
    PAUSED = "paused"
    DEAD = "dead"  # the process; its host resets connections
    GONE = "gone"  # with its host


class Plays(Protocol):
    """What runs on a host: a gossip core, or a whole agent with one in it (`testing.cluster`). Consensus
    alone (`testing.raft_server`) has what the loop of the world uses: `report`, `tick` and `deadline`."""

    @property
    def membership(self) -> MembershipView: ...

    @property
    def tally(self) -> GossipTally: ...

    def receive(self, now: Now, source: Address, message: bytes) -> Sequence[Any]: ...

    def report(self, now: Now, report: Report) -> Sequence[Any]: ...

    def command(self, now: Now, command: Command) -> Sequence[Any]: ...

    def tick(self, now: Now) -> Sequence[Any]: ...

    def deadline(self) -> int | None: ...


class Serves(Protocol):
    """What also runs on a host: something that has clients."""

    def submit(self, now: Now, request: int, command: Any) -> Sequence[Any]: ...


@dataclass(slots=True, eq=False)
class SimulatedHost:
    """One member's machine: what survives the process, and the process while there is one."""

    index: int
    profile: Profile
    random: Random
    disk: SimulatedDisk
    core: Plays = field(init=False)
    state: State = State.DEAD
    generation: int = 0
    life: int = 0  # counts processes, so that what was meant for one never reaches the next
    deadline_ns: int = -1
    waiting: list[Callable[[], None]] = field(default_factory=list)  # what a pause or a hold delays
    wall_ahead_ms: int = 0  # how far its date is off
    clock_drift_ppm: int = 0
    clock_ahead_ns: int = 0
    turn_ns_max: int = 0

    @property
    def address(self) -> Address:
        return self.profile.address

    def now(self, world_ns: int) -> Now:
        """As its clocks show it."""
        monotonic_ns = world_ns + self.clock_ahead_ns
        if self.clock_drift_ppm:
            monotonic_ns += world_ns * self.clock_drift_ppm // MILLION
        return Now(monotonic_ns, FIRST_WALL_MS + world_ns // MILLISECOND + self.wall_ahead_ms)

    def drift(self, world_ns: int, ppm: int) -> None:
        """Its clock runs at another speed from now on."""
        self.clock_ahead_ns += world_ns * self.clock_drift_ppm // MILLION - world_ns * ppm // MILLION
        self.clock_drift_ppm = ppm

    def world_ns(self, monotonic_ns: int) -> int:
        """When its clock shows this."""
        return -(-(monotonic_ns - self.clock_ahead_ns) * MILLION // (MILLION + self.clock_drift_ppm))

    @property
    def is_up(self) -> bool:
        return self.state in (State.RUNNING, State.HELD, State.PAUSED)
