"""When this agent did not hear the others: before it met them in this life, and while it stood still.

Whoever joins a cluster knows nothing of it until the first exchange, but what a saved copy says; whoever was
stopped or suspended knows what was so before. Both answer meanwhile, and say what is wrong with it. A pause
is told by the time that has passed, not by an event: the first request after it may come before the first
overdue timer. Both end with an exchange: of rosters first after a pause, for the catalog of a member that
nobody has introduced is not asked for.

An agent that hears of nobody and meets nobody is alone by configuration, and misses nothing.
"""

from __future__ import annotations

from adsum.catalog.replication.core import Replication
from adsum.catalog.replication.exchanges import FULL_AGAIN_NS
from adsum.gossip.membership_view import MembershipView
from adsum.now import Now

JOINING = "joining"
PAUSED = "paused"


class Absence:
    def __init__(
        self, now: Now, membership: MembershipView, replication: Replication, *, expects_others: bool
    ) -> None:
        """`expects_others`: it has somebody to join, and none of them has answered yet."""
        self.expects_others = expects_others
        self._membership = membership
        self._replication = replication
        self._began_ns = now.monotonic_ns
        self._paused_ns: int | None = None  # when the pause began that is to be made up for, or was last
        self._awaits_rosters = False

    @property
    def is_joining(self) -> bool:
        """It has somebody to compare with, and has not done so in this life."""
        is_told_of_others = self.expects_others or self._membership.others_present > 0
        return is_told_of_others and self._replication.agreed_ns is None

    def reason(self, now: Now) -> str:
        """Why something of others may be missing or old; empty when nothing is."""
        if self.is_joining:
            return JOINING
        return PAUSED if self._since_ns(now) is not None else ""

    def for_ns(self, now: Now) -> int:
        """How old what is known of others may be for that reason."""
        since_ns = self._began_ns if self.is_joining else self._since_ns(now)
        return now.monotonic_ns - since_ns if since_ns is not None else 0

    def paused(self, now: Now, for_ns: int) -> None:
        if self._is_caught_up:
            self._paused_ns = now.monotonic_ns - for_ns
        self._awaits_rosters = True
        # Rosters being compared brings it forward.
        self._replication.compare_anew(now, wait_ns=FULL_AGAIN_NS)

    def compared_again(self, now: Now) -> None:
        self._awaits_rosters = False
        self._replication.compare_anew(now)

    @property
    def _is_caught_up(self) -> bool:
        is_compared = self._replication.is_settled_in and not self._awaits_rosters
        return self._paused_ns is None or is_compared

    def _since_ns(self, now: Now) -> int | None:
        """Of a pause that nobody could make up for yet."""
        if not self._membership.others_present:
            return None  # and nobody who could know better
        if not self._is_caught_up:
            return self._paused_ns
        return self._membership.stands_still_since_ns(now)  # of which nothing was noticed yet
