"""Whom a leader lets go of: servers that said good-bye, and dead ones.

Quorum decides here too: who answers this leader is no candidate, whatever gossip says of it, and neither is
the former self of a wiped server that answers, for the new one is to take its vote over. A server that left
goes at once. A dead one keeps its vote for ten minutes, for it may come back; unless somebody who came after
it died votes already, in its place. Each newcomer takes one place, and who votes again after a wipe only its
own: before the ten minutes are over, a dead server leaves no fewer voters than when it fell silent. And
nobody goes when that would leave fewer answering voters than a majority of those that stay, for then the next
one that fails would end all writing.
"""

from __future__ import annotations

from collections.abc import Collection

from adsum.frozen import dataclass
from adsum.now import MINUTE, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.status import RaftStatus
from adsum.raft.types import Configuration, MemberId

DEAD_NS = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Silence:
    since_ns: int
    voted: frozenset[str]  # the nodes that had a vote when it began


class LettingGo:
    """What one leader remembers while it leads."""

    def __init__(self, *, removes_dead: bool, voters_min: int) -> None:
        self._removes_dead = removes_dead
        self._voters_min = voters_min
        self._silences: dict[MemberId, Silence] = {}

    def forget(self) -> None:
        self._silences = {}

    def due(
        self, now: Now, status: RaftStatus, alive: Collection[str], left: Collection[str]
    ) -> list[ConfigurationChange]:
        """One for each, by the nodes that gossip calls alive and those it says have left."""
        configuration, me = status.configuration, status.leader
        answering = {each.member for each in status.members if each.is_active} | {me}
        self._remember(now, configuration, answering)
        if configuration.is_joint:
            return []
        there = {*alive, *(each.node for each in answering if each is not None)}
        going = [
            member
            for member in configuration.members()
            if member.node not in there
            and (member.node in left or self._is_dead(now, member, configuration.voters, answering))
        ]
        return [
            ConfigurationChange((Step(ChangeVerb.LEAVE, member),))
            for member in going
            if self._may_go(member, configuration.voters, answering)
        ]

    def _remember(
        self, now: Now, configuration: Configuration, answering: Collection[MemberId | None]
    ) -> None:
        begun = Silence(now.monotonic_ns, frozenset(each.node for each in configuration.voters))
        silent = [each for each in configuration.members() if each not in answering]
        self._silences = {each: self._silences.get(each, begun) for each in silent}

    def _is_dead(
        self,
        now: Now,
        member: MemberId,
        voters: Collection[MemberId],
        answering: Collection[MemberId | None],
    ) -> bool:
        if not self._removes_dead:
            return False
        silence = self._silences[member]
        newcomers = [each for each in voters if each in answering and each.node not in silence.voted]
        is_replaced = bool(newcomers) and len(voters) > len(silence.voted)
        return is_replaced or now.monotonic_ns - silence.since_ns >= DEAD_NS

    def _may_go(
        self, member: MemberId, voters: Collection[MemberId], answering: Collection[MemberId | None]
    ) -> bool:
        if member not in voters:
            return True
        staying = [each for each in voters if each != member]
        healthy = sum(each in answering for each in staying)
        return healthy > len(staying) // 2 and len(staying) >= self._voters_min
