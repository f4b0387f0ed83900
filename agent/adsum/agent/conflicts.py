"""Conflicts over a name or an id that stand now, and whether this agent is the one that is not let in.

A conflict is said again and again while it lasts, and nothing says that it is over. So each stands for a
while after it was last seen, or until membership shows that one of the two is gone or was taken in.
"""

from __future__ import annotations

from adsum.frozen import dataclass
from adsum.gossip.claims import Profile
from adsum.gossip.effects import ConflictSeen, MemberChanged
from adsum.gossip.membership_view import MembershipView
from adsum.newest import keep_newest
from adsum.now import MINUTE, Now

# A newcomer is told at each comparison of rosters; among a thousand members they are three minutes apart.
STANDS_NS = 4 * MINUTE
CONFLICTS_MAX = 64  # of others; adsum_member_conflicts_total counts them all
CLAIMANTS_MAX = 16  # of this agent's own name or id


@dataclass(frozen=True, slots=True)
class Conflict:
    seen: ConflictSeen
    seen_ns: int
    probed: int  # how often others had probed this agent by then

    def stands(self, now: Now) -> bool:
        return now.monotonic_ns - self.seen_ns < STANDS_NS


class Conflicts:
    def __init__(self, membership: MembershipView) -> None:
        self._membership = membership
        self._refusal: Conflict | None = None
        self._contest: Conflict | None = None
        self._claimants: dict[bytes, Profile] = {}
        self._others: dict[tuple[bytes, Profile], Conflict] = {}

    def seen(self, now: Now, seen: ConflictSeen) -> ConflictSeen:
        """As it is to be told: this agent's own claim decides nothing, and less when others have decided."""
        me = self._membership.me
        if seen.refuser is not None:
            seen = self._named(seen, me)
        elif seen.holder == me:
            seen = self._judged(now, seen, me)
        else:
            key = (seen.holder.node_id, seen.newcomer)
            keep_newest(self._others, key, self._at(now, seen), CONFLICTS_MAX)
            return seen
        if seen.is_undecided:
            self._contest = self._at(now, seen)
        else:
            self._refusal, self._contest = self._at(now, seen), None
        return seen

    def changed(self, change: MemberChanged) -> None:
        """One that went makes room; one that came is in."""
        if not self._others:
            return
        member = change.member
        is_present = change.after is not None and change.after.is_present
        for key, conflict in list(self._others.items()):
            holder, newcomer = conflict.seen.holder, conflict.seen.newcomer
            party = newcomer if is_present else holder
            if (member.node_id, member.address) == (party.node_id, party.address):
                del self._others[key]

    def about_me(self, now: Now) -> ConflictSeen | None:
        refusal, contest = self._refusal, self._contest
        if refusal is not None and refusal.stands(now) and refusal.probed == self._membership.times_probed:
            return refusal.seen
        return contest.seen if contest is not None and contest.stands(now) else None

    def is_let_in(self, now: Now) -> bool:
        """Members probe those whom they have on their roll, and nobody else."""
        about_me = self.about_me(now)
        if about_me is None:
            return True
        refusal = self._refusal
        is_refused = refusal is not None and refusal.seen is about_me
        return not is_refused and self._membership.times_probed > 0

    def of_others(self, now: Now) -> list[ConflictSeen]:
        """The newest last."""
        return [conflict.seen for conflict in self._others.values() if conflict.stands(now)]

    def _named(self, seen: ConflictSeen, me: Profile) -> ConflictSeen:
        """Who refuses this agent knows the holder, whom it may have met itself."""
        assert seen.refuser is not None
        other = self._claimants.get(seen.refuser.holder)
        if other is None:
            return seen
        if seen.refuser.is_party:
            return ConflictSeen(me, other, is_contested=True)
        return ConflictSeen(other, me, seen.refuser)

    def _judged(self, now: Now, seen: ConflictSeen, me: Profile) -> ConflictSeen:
        other = seen.newcomer
        keep_newest(self._claimants, other.short, other, CLAIMANTS_MAX)
        refusal = self._refusal
        refuser = refusal.seen.refuser if refusal is not None and refusal.stands(now) else None
        if refuser is not None and refuser.holder == other.short:
            return ConflictSeen(other, me, refuser)
        return ConflictSeen(me, other, is_contested=True)

    def _at(self, now: Now, seen: ConflictSeen) -> Conflict:
        return Conflict(seen, now.monotonic_ns, self._membership.times_probed)
