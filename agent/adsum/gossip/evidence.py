"""Why a member's state changed: what the journal keeps and `adsum explain` tells."""

from __future__ import annotations

import enum

from adsum.frozen import dataclass
from adsum.gossip.claims import Dead, Left, Suspect
from adsum.gossip.claims import DeathCause as DeathCause


class Leg(enum.IntFlag):
    """Ways to reach a member that were tried in vain."""

    DIRECT = 1
    INDIRECT = 2
    STREAM = 4
    ICMP = 8  # a datagram came back as undeliverable: reason to look, no evidence by itself
    HOST = 16  # nobody took the connection; the host of a process that stands still does


NO_LEGS = Leg(0)


class ChangeCause(enum.Enum):
    JOINED = "joined"
    RESTARTED = "restarted"  # a newer generation
    CHANGED = "changed"  # says something else about itself
    SUSPECTED = "suspected"
    REFUTED = "refuted"
    SILENT = "silent"
    REFUSED = "refused"
    LEFT = "left"
    FORCED = "forced"
    REPLACED = "replaced"  # another member took over its name, or answers at its address
    REBORN = "reborn"  # another id at the same address, of the same name: its host lost the data folder
    REAPED = "reaped"
    CROWDED_OUT = "crowded out"  # the roster is full, and it never answered us or is gone


@dataclass(frozen=True, slots=True)
class PhiParts:
    """Surprise as -log10 of a probability: 3 means one in a thousand."""

    challenge: float = 0.0
    schedule: float = 0.0
    accusation: float = 0.0


NO_PARTS = PhiParts()


@dataclass(frozen=True, slots=True)
class Evidence:
    cause: ChangeCause
    accusers: tuple[bytes, ...] = ()
    refusers: tuple[bytes, ...] = ()
    legs: Leg = NO_LEGS
    phi: float = 0.0  # as the accuser saw it
    parts: PhiParts = NO_PARTS  # as we see it
    by: bytes = b""  # who decided, for a forced leave

    @property
    def confirmations(self) -> int:
        return max(0, len(self.accusers) - 1)


def of_verdict(claim: Suspect | Dead | Left, parts: PhiParts = NO_PARTS) -> Evidence:
    cause = ChangeCause.SUSPECTED
    if isinstance(claim, Left):
        return Evidence(ChangeCause.LEFT if claim.by == claim.subject else ChangeCause.FORCED, by=claim.by)
    if isinstance(claim, Dead):
        cause = ChangeCause.REFUSED if claim.cause is DeathCause.REFUSED else ChangeCause.SILENT
    return Evidence(cause, claim.accusers, claim.refusers, Leg(claim.legs), claim.phi_tenths / 10, parts)
