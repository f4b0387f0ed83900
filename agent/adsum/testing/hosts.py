"""A simulated machine: what survives its process, and the process while there is one."""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from adsum.address import Address
from adsum.gossip.claims import Profile
from adsum.gossip.commands import Command, Report
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.tally import GossipTally
from adsum.now import Now


class State(enum.Enum):
    RUNNING = "running"
    HELD = "held"
    PAUSED = "paused"
    DEAD = "dead"  # the process; its host resets connections
    GONE = "gone"  # with its host


class Plays(Protocol):
    """What runs on a host: a gossip core, or a whole agent with one in it (`testing.cluster`)."""

    @property
    def membership(self) -> MembershipView: ...

    @property
    def tally(self) -> GossipTally: ...

    def receive(self, now: Now, source: Address, message: bytes) -> list[Any]: ...

    def report(self, now: Now, report: Report) -> list[Any]: ...

    def command(self, now: Now, command: Command) -> list[Any]: ...

    def tick(self, now: Now) -> list[Any]: ...

    def deadline(self) -> int | None: ...


class SimulatedHost:
    """One member's machine: what survives the process, and the process while there is one."""

    __slots__ = (
        "address",
        "core",
        "deadline_ns",
        "generation",
        "index",
        "life",
        "profile",
        "random",
        "state",
        "waiting",
        "wall_ahead_ms",
    )

    def __init__(self, index: int, profile: Profile, random: Random) -> None:
        self.index = index
        self.profile = profile
        self.address = profile.address
        self.random = random
        self.state = State.DEAD
        self.generation = 0
        self.life = 0  # counts processes, so that what was meant for one never reaches the next
        self.core: Plays
        self.deadline_ns = -1
        self.waiting: list[Callable[[], None]] = []  # what a pause or a hold delays
        self.wall_ahead_ms = 0  # how far its date is off

    @property
    def is_up(self) -> bool:
        return self.state in (State.RUNNING, State.HELD, State.PAUSED)
