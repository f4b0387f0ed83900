"""One line of the journal: what changed about a member, and everything that was known about why.

An entry holds names as well as ids, because by the time somebody reads it gossip may have forgotten who
they were. It is made where the effect arrives and never changed, but for what its journal adds when it is
read: its number there, and whose journal it is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from uuid import UUID

import msgspec

from adsum.address import Address
from adsum.effects import LeaderChanged
from adsum.gossip.claims import Profile
from adsum.gossip.effects import ConflictSeen, IsolationChanged, MemberChanged, Note, Noted
from adsum.gossip.evidence import NO_PARTS, Evidence, Leg, PhiParts
from adsum.gossip.order import Departure

Recorded = MemberChanged | Noted | ConflictSeen | IsolationChanged | LeaderChanged
# Of a short id; its digits, or nothing, for one that gossip does not know (any more).
NameOf = Callable[[bytes], str]

UNKNOWN, FORGOTTEN = "unknown", "forgotten"  # before it was met, and after it was reaped or purged
ISOLATED, CONNECTED = "isolated", "connected"
STARTED = "started"
LEADING, LEADERLESS = "leading", "leaderless"
PRUNED = "pruned"  # of who left: it is listed no more
REFUSED, CONTESTED = "refused", "contested"  # of a conflict: this agent is not let in; neither is known first


class JournalKind(enum.Enum):
    CHANGE = "change"  # of a member's status
    NOTE = "note"  # nobody's status changed, but it belongs to the story
    CONFLICT = "conflict"  # two claim one name or one id
    ISOLATION = "isolation"  # of the observer itself
    START = "start"  # of the observer: it learns again who is there
    LEADER = "leader"  # of the servers: this one leads, or leads no longer and nobody does


class Somebody(msgspec.Struct, frozen=True, array_like=True):
    id: str
    name: str = ""
    address: str = ""

    def __str__(self) -> str:
        return self.name or self.id


class Grounds(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A gossip core's `Evidence`, with names."""

    cause: str = ""
    accusers: tuple[Somebody, ...] = ()  # the original one first
    refusers: tuple[Somebody, ...] = ()
    legs: tuple[str, ...] = ()
    phi: float = 0.0  # as the accuser saw it
    parts: PhiParts = NO_PARTS  # as the observer saw it
    by: Somebody | None = None  # who decided: to force a leave, or not to let the observer in

    @property
    def confirmations(self) -> int:
        return max(0, len(self.accusers) - 1)


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Fields are added with a default and never renamed: files of earlier versions stay readable."""

    kind: JournalKind
    wall_ms: int
    node: Somebody
    before: str = ""
    after: str = ""
    note: str = ""
    generation: int = 0
    incarnation: int = 0
    grounds: Grounds = Grounds()
    other: Somebody | None = None  # the newcomer of a conflict
    term: int = 0  # in which it leads, or led
    repeats: int = 0  # the same again, left out since the last entry that said so
    sequence: int = 0
    observer: str = ""


def entry_of(wall_ms: int, effect: Recorded, me: Profile, name_of: NameOf) -> JournalEntry:
    match effect:
        case MemberChanged(member, before, after, evidence):
            standing = after or before
            assert standing is not None, "a change from nothing to nothing"
            is_pruned = after is not None and after.departure == Departure.PRUNED
            return JournalEntry(
                kind=JournalKind.CHANGE,
                wall_ms=wall_ms,
                node=described(member),
                before=before.status.value if before else UNKNOWN,
                after=after.status.value if after else FORGOTTEN,
                note=PRUNED if is_pruned else "",
                generation=standing.generation,
                incarnation=standing.incarnation,
                grounds=grounds_of(evidence, name_of),
            )
        case Noted(note, member, evidence):
            grounds, word = grounds_of(evidence, name_of), note_word(note)
            return JournalEntry(
                kind=JournalKind.NOTE, wall_ms=wall_ms, node=described(member), note=word, grounds=grounds
            )
        case ConflictSeen():
            return entry_of_conflict(wall_ms, effect, name_of)
        case IsolationChanged(is_isolated):
            turned = ISOLATED if is_isolated else CONNECTED
            return JournalEntry(kind=JournalKind.ISOLATION, wall_ms=wall_ms, node=described(me), after=turned)
        case LeaderChanged():
            return _entry_of_leader(wall_ms, effect)


def _entry_of_leader(wall_ms: int, changed: LeaderChanged) -> JournalEntry:
    address = _placed(changed.address) if changed.address is not None else ""
    return JournalEntry(
        kind=JournalKind.LEADER,
        wall_ms=wall_ms,
        node=Somebody(str(UUID(bytes=changed.node_id)), changed.name, address),
        after=LEADING if changed.is_leading else LEADERLESS,
        note=changed.cause,
        term=changed.term,
    )


def start_of(wall_ms: int, me: Profile) -> JournalEntry:
    return JournalEntry(kind=JournalKind.START, wall_ms=wall_ms, node=described(me), after=STARTED)


def described(profile: Profile) -> Somebody:
    return Somebody(str(UUID(bytes=profile.node_id)), profile.name, _placed(profile.address))


def somebody(short: bytes, name_of: NameOf) -> Somebody:
    """The first half of a node id is how packets call a member; it is the beginning of the id as shown."""
    name = name_of(short)
    return Somebody(_digits(short), "" if name == short.hex() else name)


def _digits(short: bytes) -> str:
    digits = short.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}"


def _placed(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def leg_names(legs: Leg) -> tuple[str, ...]:
    """What stays in files and in the API: `indirect`."""
    return tuple(name.lower() for name, leg in Leg.__members__.items() if legs & leg)


def note_word(note: Note) -> str:
    """What stays in files and in the API, whatever sentences people are told: `accused-me`."""
    return note.name.lower().replace("_", "-")


def grounds_of(evidence: Evidence, name_of: NameOf) -> Grounds:
    return Grounds(
        cause=evidence.cause.value,
        accusers=tuple(somebody(short, name_of) for short in evidence.accusers),
        refusers=tuple(somebody(short, name_of) for short in evidence.refusers),
        legs=leg_names(evidence.legs),
        phi=evidence.phi,
        parts=evidence.parts,
        by=somebody(evidence.by, name_of) if evidence.by else None,
    )


def entry_of_conflict(wall_ms: int, seen: ConflictSeen, name_of: NameOf) -> JournalEntry:
    holder, newcomer, refuser = described(seen.holder), described(seen.newcomer), seen.refuser
    note, grounds = CONTESTED if seen.is_undecided else "", Grounds()
    if refuser is not None:
        note = note or REFUSED
        refuser_name = somebody(refuser.short, name_of).name
        grounds = Grounds(by=Somebody(_digits(refuser.short), refuser_name, _placed(refuser.address)))
        if seen.holder == seen.newcomer:  # its name is known all the same: it is ours, or else the id is
            known_at = _placed(refuser.address) if refuser.is_party else ""
            holder = Somebody(_digits(refuser.holder), newcomer.name, known_at)
    return JournalEntry(
        kind=JournalKind.CONFLICT, wall_ms=wall_ms, node=holder, other=newcomer, note=note, grounds=grounds
    )
