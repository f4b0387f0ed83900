"""What gossip counts: plain numbers, read at scrape. No series per peer: a thousand by a thousand would
be a million."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from adsum.buckets import Buckets
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.order import MemberStatus
from adsum.gossip.wire import Damage, PacketKind
from adsum.mutable import dataclass

# Everything that comes in and is not used has one of these reasons; there are no others to be counted by.
Drop = Literal[
    Damage,
    "ack of another",
    "bad claim",
    "leave message of a copy",  # of a data folder: it was never let in, and its original answers
    "event of a stranger",
    "generation ahead",
    "introduced by a stranger",
    "introductions",
    "kind of a later version",
    "my own",
    "newcomers",
    "not authentic",
    "ping for another",
    "reaped",
    "restart told by a stranger",
    "roster full",
    "short id taken",
    "sync of a stranger",
    "sync too long",
    "version range",
]

UNKNOWN, FORGOTTEN = "unknown", "forgotten"  # where there is no standing before, or none after
_LISTED = tuple(status.value for status in MemberStatus)
_GONE = (MemberStatus.FAILED.value, MemberStatus.LEFT.value)
# What there was before, what there is now, and why: all that can happen.
TRANSITIONS: tuple[tuple[str, str, str], ...] = tuple(
    (before, after, cause.value)
    for befores, after, causes in (
        ((UNKNOWN,), "alive", (ChangeCause.JOINED,)),
        (_LISTED, "alive", (ChangeCause.RESTARTED,)),
        (("suspect", "failed"), "alive", (ChangeCause.REFUTED,)),
        (("alive",), "alive", (ChangeCause.CHANGED,)),
        (_LISTED, "suspect", (ChangeCause.SUSPECTED,)),
        ((UNKNOWN, *_LISTED), "failed", (ChangeCause.SILENT, ChangeCause.REFUSED)),
        ((UNKNOWN, *_LISTED), "left", (ChangeCause.LEFT, ChangeCause.FORCED)),
        (_LISTED, FORGOTTEN, (ChangeCause.REPLACED, ChangeCause.REBORN)),
        (_GONE, FORGOTTEN, (ChangeCause.REAPED,)),
        (_LISTED, FORGOTTEN, (ChangeCause.CROWDED_OUT,)),
    )
    for before in befores
    for cause in causes
)

VERDICT_BUCKETS_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # T_max at a thousand members is 72 s
AGE_BUCKETS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
PHI_BUCKETS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
RTT_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)


@dataclass(slots=True)
class GossipTally:
    packets_in: list[int] = field(default_factory=lambda: [0] * len(PacketKind))  # by kind of packet
    packets_out: list[int] = field(default_factory=lambda: [0] * len(PacketKind))
    bytes_in: list[int] = field(default_factory=lambda: [0] * len(PacketKind))
    bytes_out: list[int] = field(default_factory=lambda: [0] * len(PacketKind))
    dropped: dict[Drop, int] = field(default_factory=dict)  # what came in and was not used, by reason
    transitions: dict[tuple[str, str, str], int] = field(default_factory=dict)  # from, to, cause
    suspicions_raised: int = 0
    suspicions_refuted: int = 0
    suspicions_confirmed: int = 0
    suspicions_of_me: int = 0
    vetoes: int = 0
    witnesses: int = 0
    withheld: int = 0  # accusations that the guard kept back
    asymmetric_paths: int = 0  # it lives, but not by the way my probe took
    flaps: int = 0
    probes: int = 0
    probes_failed: int = 0
    probes_out_of_turn: int = 0
    probes_refused: int = 0  # out-of-turn probes beyond the bound
    relays_refused: int = 0
    syncs_opened: int = 0
    syncs_served: int = 0
    syncs_equal: int = 0
    syncs_for_repair: int = 0  # opened because digests differed, before their time
    syncs_failed: int = 0
    syncs_busy: int = 0
    conflicts: int = 0
    newcomers_answered: int = 0  # who were introduced by nobody we know, and are there
    newcomers_silent: int = 0
    news_by_datagram: int = 0  # first heard in one, and told on
    news_by_sync: int = 0  # what datagrams had not brought yet
    pushes: int = 0  # datagrams with news that went out at once
    pushes_put_off: int = 0  # as the allowance was used up
    news_asked_for: int = 0  # what others named and this agent lacked
    news_not_asked_for: int = 0  # as the allowance for asking was used up
    news_answered: int = 0
    answers_refused: int = 0  # to those who asked for news, as the allowance was used up
    answers_cut: int = 0  # stale news that was not answered because the answer was full
    rtt_s: Buckets = field(default_factory=lambda: Buckets(RTT_BUCKETS_S))
    phi: Buckets = field(default_factory=lambda: Buckets(PHI_BUCKETS))  # at the verdict
    probed_phi: Buckets = field(default_factory=lambda: Buckets(PHI_BUCKETS))  # of the counter, each round
    detection_s: Buckets = field(default_factory=lambda: Buckets(VERDICT_BUCKETS_S))  # suspicion to verdict
    news_age_s: Buckets = field(default_factory=lambda: Buckets(AGE_BUCKETS_S))  # when first heard here

    def drop(self, reason: Drop) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
