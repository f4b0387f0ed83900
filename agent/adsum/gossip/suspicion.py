"""How long a suspicion waits for its refutation.

The more members have failed to reach the suspect by themselves, the shorter (Lifeguard's section IV-B):
from T_max with the accuser alone down to T_min with K confirmations, along a logarithm. What is ours: the
wait is stretched by the health of the one who waits, capped at T_max. Every member that hears a suspicion
waits for itself, so the healthiest decides: real failures are found as fast, while slow members stop
convicting (259 false verdicts become 1 in Lifeguard's experiment, by our measurements)."""

from __future__ import annotations

import math

from adsum.frozen import dataclass
from adsum.gossip.claims import Suspect
from adsum.now import MILLISECOND

CONFIRMATIONS = 3  # Lifeguard's K; memberlist's LAN profile comes to 2


@dataclass(frozen=True, slots=True)
class Timeouts:
    min_ns: int
    max_ns: int


def classic(members: int, interval_ns: int, *, mult: int, max_mult: int) -> Timeouts:
    min_ns = int(mult * max(1.0, math.log10(max(1, members))) * interval_ns)
    return Timeouts(min_ns, max_mult * min_ns)


def confirmations_wanted(members: int) -> int:
    """Of two members nobody is left to confirm."""
    return max(0, min(CONFIRMATIONS, members - 2))


def refusals_wanted(members: int) -> int:
    return max(1, min(CONFIRMATIONS, members - 2))


def timeout_ns(timeouts: Timeouts, confirmations: int, wanted: int) -> int:
    """Whole milliseconds, as memberlist floors them."""
    if wanted <= 0:
        return timeouts.min_ns
    share = math.log(confirmations + 1) / math.log(wanted + 1)
    raw = timeouts.max_ns - share * (timeouts.max_ns - timeouts.min_ns)
    return max(timeouts.min_ns, int(raw) // MILLISECOND * MILLISECOND)


class Suspicion:
    """One member's open case, as this agent keeps it."""

    __slots__ = ("claim", "has_witness", "is_recheck_out", "not_before_ns", "silent_since_ns", "started_ns")

    def __init__(self, claim: Suspect, started_ns: int, silent_since_ns: int) -> None:
        self.claim = claim
        self.started_ns = started_ns
        self.silent_since_ns = silent_since_ns  # a period earlier, if its host is silent too
        self.has_witness = False  # its silent counter was counted, once
        self.is_recheck_out = False  # where one refusal suffices, it is asked for again at the end
        self.not_before_ns = 0  # an announced restart is waited for

    @property
    def confirmations(self) -> int:
        return len(self.claim.accusers) - 1 + self.has_witness

    def is_refused(self, refusals: int) -> bool:
        return len(self.claim.refusers) >= refusals

    def deadline_ns(
        self, timeouts: Timeouts, members: int, health_multiplier: int, grace_ns: int, refusals: int
    ) -> int:
        wanted = confirmations_wanted(members)
        wait_ns = timeout_ns(timeouts, min(self.confirmations, wanted), wanted)
        wait_ns = min(wait_ns * health_multiplier, timeouts.max_ns)
        due_ns = self.silent_since_ns + wait_ns
        if self.is_refused(refusals):
            due_ns = min(due_ns, self.started_ns + grace_ns)
        return max(due_ns, self.not_before_ns)

    def shift(self, gap_ns: int) -> None:
        """While I was not running, nobody could refute to me."""
        self.started_ns += gap_ns
        self.silent_since_ns += gap_ns
