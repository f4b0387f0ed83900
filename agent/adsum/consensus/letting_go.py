"""Whom a leader lets go of: servers that said good-bye, and dead ones.

Quorum decides here too: who answers this leader is no candidate, whatever gossip says of it. A server that
left goes at once. A dead one keeps its vote for ten minutes, for it may come back; unless somebody who came
after it died votes already, in its place. And nobody goes when that would leave fewer answering voters than
a majority of those that stay, for then the next one that fails would end all writing.
"""

from __future__ import annotations

from collections.abc import Collection

from adsum.now import MINUTE, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.status import RaftStatus
from adsum.raft.types import MemberId

DEAD_NS = 10 * MINUTE


class LettingGo:
    """What one leader remembers while it leads."""

    def __init__(self, *, removes_dead: bool, voters_min: int) -> None:
        self._removes_dead = removes_dead
        self._voters_min = voters_min
        self._silent_since_ns: dict[MemberId, int] = {}
        self._voting_since_ns: dict[MemberId, int] = {}

    def forget(self) -> None:
        self._silent_since_ns, self._voting_since_ns = {}, {}

    def due(
        self, now: Now, status: RaftStatus, alive: Collection[str], left: Collection[str]
    ) -> list[ConfigurationChange]:
        """One for each, by the nodes that gossip calls alive and those it says have left."""
        configuration, me = status.configuration, status.leader
        answering = {each.member for each in status.members if each.is_active} | {me}
        self._remember(now, status, answering)
        if configuration.is_joint:
            return []
        going = [
            member
            for member in configuration.members()
            if member not in answering
            and member.node not in alive
            and (member.node in left or self._is_dead(now, member, answering))
        ]
        return [
            ConfigurationChange((Step(ChangeVerb.LEAVE, member),))
            for member in going
            if self._may_go(member, configuration.voters, answering)
        ]

    def _remember(self, now: Now, status: RaftStatus, answering: Collection[MemberId | None]) -> None:
        now_ns, silent, voting = now.monotonic_ns, self._silent_since_ns, self._voting_since_ns
        members, voters = status.configuration.members(), status.configuration.voters
        self._silent_since_ns = {each: silent.get(each, now_ns) for each in members if each not in answering}
        self._voting_since_ns = {each: voting.get(each, now_ns) for each in voters}

    def _is_dead(self, now: Now, member: MemberId, answering: Collection[MemberId | None]) -> bool:
        if not self._removes_dead:
            return False
        silent_ns = self._silent_since_ns[member]
        replacements = [
            other
            for other, since_ns in self._voting_since_ns.items()
            if since_ns > silent_ns and other in answering
        ]
        return bool(replacements) or now.monotonic_ns - silent_ns >= DEAD_NS

    def _may_go(
        self, member: MemberId, voters: Collection[MemberId], answering: Collection[MemberId | None]
    ) -> bool:
        if member not in voters:
            return True
        staying = [each for each in voters if each != member]
        healthy = sum(each in answering for each in staying)
        return healthy > len(staying) // 2 and len(staying) >= self._voters_min
