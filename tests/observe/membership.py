"""Members, and what gossip says about them, for tests of the journal."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from adsum.address import Address
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged, Note, Noted
from adsum.gossip.evidence import ChangeCause, Evidence, Leg, PhiParts
from adsum.gossip.order import Departure, Rank, Standing
from adsum.journal.file import JournalLimits, JournalQuery
from adsum.journal.journal import Journal
from adsum.now import Now

WALL_MS = 1_795_000_000_000  # 2026-11-18T11:06:40Z
ALL = JournalQuery(limit=1_000)
IDS = {
    "n1": UUID("11111111-1111-4111-8111-111111111111"),
    "n2": UUID("22222222-2222-4222-8222-222222222222"),
    "n3": UUID("33333333-3333-4333-8333-333333333333"),
    "n4": UUID("44444444-4444-4444-8444-444444444444"),
}
NAMES = {each.bytes[:8]: name for name, each in IDS.items()}


def profile(name: str, host: str = "") -> Profile:
    return Profile(IDS[name].bytes, name, Address(host or f"10.0.0.{name[1:]}", 8301))


def short(name: str) -> bytes:
    return IDS[name].bytes[:8]


def name_of(short_id: bytes) -> str:
    return NAMES.get(short_id, "")


def standing(rank: Rank, incarnation: int = 0, departure: Departure = Departure.NONE) -> Standing:
    return Standing(WALL_MS, departure, incarnation, rank)


ALIVE, SUSPECT, DEAD = standing(Rank.ALIVE), standing(Rank.SUSPECT), standing(Rank.DEAD)
LEFT = standing(Rank.DEAD, departure=Departure.LEFT)
PRUNED = standing(Rank.DEAD, departure=Departure.PRUNED)

ALL_LEGS = Leg.DIRECT | Leg.INDIRECT | Leg.STREAM


def joined(name: str) -> MemberChanged:
    return MemberChanged(profile(name), None, ALIVE, Evidence(ChangeCause.JOINED))


def suspected(name: str, *accusers: str) -> MemberChanged:
    evidence = Evidence(
        ChangeCause.SUSPECTED,
        tuple(map(short, accusers)),
        legs=ALL_LEGS,
        phi=2.9,
        parts=PhiParts(2.9, 1.5, 0.0),
    )
    return MemberChanged(profile(name), ALIVE, SUSPECT, evidence)


def failed(name: str, *accusers: str) -> MemberChanged:
    evidence = Evidence(
        ChangeCause.SILENT, tuple(map(short, accusers)), legs=ALL_LEGS, phi=2.9, parts=PhiParts(2.9, 4.5, 6.1)
    )
    return MemberChanged(profile(name), SUSPECT, DEAD, evidence)


def vetoed(name: str) -> Noted:
    return Noted(Note.VETOED, profile(name), Evidence(ChangeCause.SUSPECTED, legs=Leg.DIRECT))


def at(after_ms: int = 0) -> Now:
    return Now(after_ms * 1_000_000, WALL_MS + after_ms)


def journal(
    path: Path | None = None, limits: JournalLimits | None = None, *, is_fresh: bool = False
) -> Journal:
    """Unless it is fresh it has told of its own start already."""
    made = Journal(path, profile("n1"), name_of, WALL_MS, limits=limits)
    if not is_fresh:
        made._start = None
    _made.append(made)
    return made


def close_all() -> None:
    """Files of journals that never ran to their end."""
    while _made:
        _made.pop()._file.close()


_made: list[Journal] = []
