"""Every member, by node id; names are a second index, unique whatever their case.

Members present are probed in a shuffled round: each once a lap, newcomers dropped in at a random place of
the lap, so that nobody waits longer than two laps (SWIM section 4.3). The failed and the left stay as
tombstones, for 72 and 24 hours, so that late news cannot revive them; of those reaped, the last 4,096 are
remembered by how they stood. As many that are no members any more, because they were reaped or gave way to
another, are remembered with their last generation, for those who hold something in their name."""

from __future__ import annotations

from random import Random

from adsum.address import Address
from adsum.gossip.beats import NEVER_NS, TOLD_MAX
from adsum.gossip.claims import Alive, Dead, Left, Suspect, digest_of
from adsum.gossip.order import NO_RESTART, MemberStatus, Restarting, Standing
from adsum.gossip.rtt import Path
from adsum.gossip.suspicion import Suspicion
from adsum.named import NamedTuple
from adsum.newest import keep_newest

REAPED_MAX = 4_096
FORGOTTEN_MAX = 4_096
UNINTRODUCED_MAX = 4_096
PICKS_PER_WANTED = 3  # tries per random peer wanted, as memberlist does


class Member:
    __slots__ = (
        *("alive", "beat", "beat_offset_at_ns", "beat_offset_ns", "beat_told", "changed_ns", "digest"),
        *("has_answered", "is_target", "known_since_ns", "path", "profile", "restarting"),
        *("restarting_until_ns", "short", "standing", "suspicion", "verdict"),
    )

    def __init__(self, alive: Alive, now_ns: int) -> None:
        self.profile = alive.profile
        self.alive = alive  # as the member said it last
        self.short = alive.subject
        self.verdict: Suspect | Dead | Left | None = None  # what others say, if it is in force
        self.standing = alive.standing
        self.digest = 0
        self.is_target = False  # listed and present, as `Roster` keeps it
        self.has_answered = False  # a ping of ours, ever: so it is more than a tale
        self.restarting: Restarting = NO_RESTART
        self.restarting_until_ns = 0
        self.suspicion: Suspicion | None = None
        self.path: Path | None = None
        self.known_since_ns = now_ns
        self.changed_ns = now_ns
        # Its counter of life, see `beats`: names that lie side by side, since a counter touches them all.
        self.beat = 0
        self.beat_told = TOLD_MAX
        self.beat_offset_ns = 0
        self.beat_offset_at_ns = NEVER_NS

    @property
    def status(self) -> MemberStatus:
        return self.standing.status

    def is_away(self, now_ns: int) -> bool:
        """It said that it restarts."""
        return self.restarting_until_ns > now_ns


class Forgotten(NamedTuple):
    generation: int
    at_ns: int


class Roster:
    def __init__(self, random: Random, *, members_max: int) -> None:
        self.members: dict[bytes, Member] = {}
        self.by_short: dict[bytes, Member] = {}
        self.by_name: dict[str, Member] = {}
        self.by_address: dict[Address, Member] = {}
        self.present = 0
        self.counts = dict.fromkeys(MemberStatus, 0)
        self.digest = 0  # of all standings: equal digests, equal rosters
        self.members_max = members_max
        self.reaped: dict[bytes, Standing] = {}  # by node id: who was dead or left stays so, as far as this
        self.forgotten: dict[bytes, Forgotten] = {}  # by node id: who was reaped, or gave way to another
        self.verdicts: dict[bytes, Suspect | Dead | Left] = {}  # about members not introduced yet
        self._reap_at: dict[Member, int] = {}
        self._random = random
        self._lap: list[Member] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_full(self) -> bool:
        return len(self.members) >= self.members_max

    def by_name_of(self, name: str) -> Member | None:
        return self.by_name.get(name.casefold())

    def add(self, member: Member) -> None:
        self.members[member.profile.node_id] = member
        self.forgotten.pop(member.profile.node_id, None)
        self.by_short[member.short] = member
        self._index(member)
        self._count(member, 1)
        member.is_target = member.standing.is_present
        if member.is_target:
            self._into_lap(member)

    def remove(self, member: Member) -> None:
        """From everything but the lap, which drops it when it comes by."""
        del self.members[member.profile.node_id]
        del self.by_short[member.short]
        self._unindex(member)
        self._count(member, -1)
        member.is_target = False
        self._reap_at.pop(member, None)

    def move(self, member: Member, standing: Standing, now_ns: int) -> None:
        was_present = member.standing.is_present
        self._count(member, -1)
        member.standing = standing
        member.changed_ns = now_ns
        self._count(member, 1)
        member.is_target = standing.is_present and self.members.get(member.profile.node_id) is member
        if standing.is_present and not was_present:
            self._reap_at.pop(member, None)
            if member not in self._lap:  # its old place may not have come by yet
                self._into_lap(member)

    def describe(self, member: Member, alive: Alive) -> None:
        self._unindex(member)
        member.alive = alive
        member.profile = alive.profile
        self._index(member)

    def reap_at(self, member: Member, at_ns: int) -> None:
        self._reap_at[member] = at_ns

    def reap(self, now_ns: int) -> list[Member]:
        due = [member for member, at_ns in self._reap_at.items() if at_ns <= now_ns]
        for member in due:
            self.remove(member)
            self.remember_reaped(member, member.standing)
            self.remember_forgotten(member, now_ns)
        return due

    def remember_reaped(self, member: Member, standing: Standing) -> None:
        keep_newest(self.reaped, member.profile.node_id, standing, REAPED_MAX)

    def remember_forgotten(self, member: Member, now_ns: int) -> None:
        told = Forgotten(member.standing.generation, now_ns)
        keep_newest(self.forgotten, member.profile.node_id, told, FORGOTTEN_MAX)

    def keep_verdict(self, verdict: Suspect | Dead | Left) -> None:
        """Its subject may be introduced later, by somebody who has not heard."""
        before = self.verdicts.get(verdict.subject)
        if before is not None and before.standing > verdict.standing:
            verdict = before
        keep_newest(self.verdicts, verdict.subject, verdict, UNINTRODUCED_MAX)

    def generations(self) -> list[int]:
        """Of those present."""
        return [each.standing.generation for each in self.members.values() if each.standing.is_present]

    # Who is next, and who at random.

    def next_target(self) -> Member | None:
        """The next of the round; a new round is shuffled when this one is through."""
        for _round in range(2):
            while self._next < len(self._lap):
                member = self._lap[self._next]
                self._next += 1
                if member.is_target:
                    return member
            self._lap = [member for member in self._lap if member.is_target]
            self._random.shuffle(self._lap)
            self._next = 0
        return None

    def pick(self, wanted: int, besides: Member | None = None) -> list[Member]:
        """That many present members at random, or fewer when there are not many."""
        lap, picked = self._lap, list[Member]()
        size = len(lap)
        if size <= wanted:  # all of them, surely: whoever luck left out would hear of news a gossip later
            picked = [member for member in lap if member.is_target and member is not besides]
            self._random.shuffle(picked)
            return picked
        random = self._random.random
        for _try in range(PICKS_PER_WANTED * wanted + 2):
            if len(picked) >= wanted:
                break
            member = lap[int(random() * size)]
            if member.is_target and member is not besides and member not in picked:
                picked.append(member)
        return picked

    def everybody(self) -> list[Member]:
        """Who is present, in no order that others share."""
        return [member for member in self._lap if member.is_target]

    def dispensable(self) -> Member | None:
        """Of those who may be made up, the one that was met last: who was there before the flood stays. Else
        one that is gone."""
        latest = list(reversed(self.members.values()))
        unproven = (each for each in latest if not each.has_answered)
        gone = (each for each in latest if not each.standing.is_present)
        return next(unproven, None) or next(gone, None)

    def pick_gone(self) -> Member | None:
        """A failed one that may have come back unseen."""
        if not self._reap_at:
            return None
        gone = [member for member in self._reap_at if member.status is MemberStatus.FAILED]
        return gone[int(self._random.random() * len(gone))] if gone else None

    def _into_lap(self, member: Member) -> None:
        """Anywhere in what is left of the lap."""
        place = self._next + int(self._random.random() * (len(self._lap) - self._next + 1))
        self._lap.insert(place, member)

    # Indexes.

    def _index(self, member: Member) -> None:
        self.by_name[_folded(member.profile.name)] = member
        self.by_address[member.profile.address] = member

    def _unindex(self, member: Member) -> None:
        if self.by_name.get(member.profile.name.casefold()) is member:
            del self.by_name[member.profile.name.casefold()]
        if self.by_address.get(member.profile.address) is member:
            del self.by_address[member.profile.address]

    def _count(self, member: Member, by: int) -> None:
        self.counts[member.standing.status] += by
        self.present += by * member.standing.is_present
        if by > 0:
            is_as_told = member.standing is member.alive.standing
            member.digest = member.alive.digest if is_as_told else digest_of(member.profile, member.standing)
        self.digest ^= member.digest


def _folded(name: str) -> str:
    """The name itself where folding changes nothing: one object for all rosters that hold it."""
    folded = name.casefold()
    return name if folded == name else folded
