"""Myself among the members: the only member whose incarnation and generation I decide."""

from __future__ import annotations

from adsum.frozen import replace
from adsum.gossip import claims, wire
from adsum.gossip.claims import Alive, Profile
from adsum.gossip.order import Departure, Standing
from adsum.gossip.settings import MemberIdentity


class Me:
    def __init__(self, identity: MemberIdentity, started_ns: int, interval_ns: int) -> None:
        self.profile = identity.profile
        self.short = identity.profile.short
        self.generation = identity.generation
        self.incarnation = 0
        self.departure = Departure.NONE
        self._started_ns = started_ns
        self._interval_ns = interval_ns
        self.alive: Alive
        self.header: bytes
        self._renew()

    @property
    def standing(self) -> Standing:
        return self.alive.standing

    def beat(self, now_ns: int) -> int:
        """How many probe periods this life has lasted: counted by the clock, so that a busy loop loses
        none."""
        return (now_ns - self._started_ns) // self._interval_ns + 1

    def refute(self, incarnation: int) -> None:
        self.incarnation = max(self.incarnation, incarnation) + 1
        self._renew()

    def raise_generation(self, above: int) -> None:
        """Somebody knows a later life of me, or had me leave: this one begins again, beyond it."""
        self.use_generation(max(self.generation, above) + 1)

    def use_generation(self, generation: int) -> None:
        self.generation = generation
        self.incarnation = 0
        self._renew()

    def describe(self, meta: bytes) -> None:
        self.profile = replace(self.profile, meta=meta)
        self.refute(self.incarnation)

    def _renew(self) -> None:
        profile: Profile = self.profile
        self.alive = claims.alive(profile, self.generation, self.incarnation)
        self.header = wire.header(self.short, self.generation)
