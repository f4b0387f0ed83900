"""What replication counts: plain numbers, read at scrape. None of them is by owner."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, get_args

from adsum.mutable import dataclass

# Everything that comes in and is not used has one of these reasons.
Drop = Literal[
    "malformed",  # not what we speak
    "older generation",  # of a life that ended
    "generation ahead",  # by days: a wild clock, or made up
    "buried",  # of a generation that was reaped
    "unknown owner",  # it is no member here, and the waiting room is full
    "flood",  # more news of one owner than any sends; the next exchange brings it
    "version ahead",  # further than pushes can have been missed
    "in doubt",  # of the store, of a generation that no server named
    "too big",  # an owner with more than one may have
    "too many owners",
    "foreign",  # somebody else's news of me
    "range in a push",
    "not asked for",  # an answer to no question of ours
    "unknown method",
]

# The limits of one owner that keep something of our own from being published.
Limit = Literal["item size", "owner size", "items"]


@dataclass(slots=True)
class ReplicationTally:
    dropped: dict[Drop, int] = field(default_factory=dict)
    unpublishable: dict[Limit, int] = field(default_factory=lambda: dict.fromkeys(get_args(Limit), 0))
    news: int = 0  # pushes that changed something here, and were told on
    known: int = 0  # pushes that did not
    gaps: int = 0  # changes after which an owner was not complete
    swaps: int = 0  # owners replaced as a whole
    swaps_incomplete: int = 0  # for they were not complete in time
    pushes: int = 0  # of our own
    coalesced: int = 0  # changes of our own that a later one overtook, or that changed nothing
    left_to_exchanges: int = 0  # definitions of our own that the bucket had no push for
    pulls: int = 0  # bodies asked for after a notice
    pulls_refused: int = 0  # beyond the bound
    pulls_failed: int = 0
    exchanges_begun: int = 0
    exchanges_failed: int = 0
    exchanges_busy: int = 0  # our partner had no time
    exchanges_useful: int = 0  # somebody learnt something
    exchanges_served: int = 0
    exchanges_refused: int = 0  # we had no time
    confirmations: int = 0  # rounds in which requests had our copy compared with others'
    confirmations_failed: int = 0
    owners_fetched: int = 0
    owners_given: int = 0
    asked_bytes: int = 0  # what our exchanges sent as questions
    answered_bytes: int = 0  # and what we sent as answers
    equivocations: int = 0  # one version of an owner with two contents, both complete
    collected: int = 0  # times tombstones were forgotten
    reaped: int = 0

    def drop(self, reason: Drop) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
