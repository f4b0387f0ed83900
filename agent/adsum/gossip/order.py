"""The order in which news about a member wins: a lattice, so that news may arrive in any order and any
number.

A standing is compared as (generation, departure, incarnation, rank):
- the generation tells one life of a process from the next, so a restart beats every verdict about the life
  before;
- a departure is final for its generation, so `left` beats `failed` however late it comes;
- the incarnation is raised by the member itself to refute, and only by it;
- within one incarnation suspect beats alive and dead beats suspect.

Merging is taking the greater, hence commutative, associative and idempotent: two agents that have heard the
same news agree, whatever happened in between. Dead stays refutable, as in memberlist and unlike foca and
swift: a member wrongly called dead needs no restart. `restarting` is a second register beside the standing,
merged the same way."""

from __future__ import annotations

import enum

from adsum.named import NamedTuple


class Rank(enum.IntEnum):
    ALIVE = 0
    SUSPECT = 1
    DEAD = 2


class Departure(enum.IntEnum):
    NONE = 0
    LEFT = 1  # listed as left until it is reaped
    PRUNED = 2  # left, and not listed any more


class MemberStatus(enum.Enum):
    """What people and Consul's API call it."""

    ALIVE = "alive"
    SUSPECT = "suspect"
    FAILED = "failed"
    LEFT = "left"


class Standing(NamedTuple):
    generation: int
    departure: int  # a Departure; a plain number because standings are compared on every packet
    incarnation: int
    rank: int  # a Rank

    @property
    def status(self) -> MemberStatus:
        if self.departure:
            return MemberStatus.LEFT
        return _STATUSES[self.rank]

    @property
    def is_present(self) -> bool:
        """Probed, gossiped to and counted."""
        return not self.departure and self.rank != _DEAD


class Restarting(NamedTuple):
    """An orderly restart was announced by this generation and may take this long."""

    generation: int
    duration_ms: int


NO_RESTART = Restarting(0, 0)
_DEAD = int(Rank.DEAD)
_STATUSES = (MemberStatus.ALIVE, MemberStatus.SUSPECT, MemberStatus.FAILED)  # by rank
