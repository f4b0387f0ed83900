"""A member as gossip has it now, for people: status, surprise with its parts, path, open suspicion; and an
entry of the journal, with a sentence that says it all.

Times of a member are durations in milliseconds, counted back from the answer, because the clocks of agents
differ. What is not known is null; every field is always there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from adsum.gossip.claims import Dead, Profile, Suspect
from adsum.gossip.evidence import NO_PARTS, Leg, PhiParts
from adsum.gossip.members import Member
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.order import Standing
from adsum.gossip.suspicion import Suspicion
from adsum.journal.entry import JournalEntry, Somebody, described, leg_names, somebody
from adsum.journal.story import sentence
from adsum.now import MILLISECOND, SECOND, Now

Shown = dict[str, object]
NAMES = {"id": "ID", "is_self": "Self"}  # where the field's name in JSON is not its own in capitals
UNITS = {"Ms": "MS"}
ID_LENGTH = 36


def _json_name(field: str) -> str:
    words = [UNITS.get(word, word) for word in field.title().split("_")]
    return NAMES.get(field, "".join(words))


class Named(msgspec.Struct, frozen=True, rename=_json_name):
    id: str
    name: str


class Parts(msgspec.Struct, frozen=True, rename=_json_name):
    challenge: float
    schedule: float
    accusation: float


class SuspicionRow(msgspec.Struct, frozen=True, rename=_json_name, kw_only=True):
    accusers: list[Named]  # the original one first
    refusers: list[Named]
    confirmations: int
    confirmations_wanted: int
    age_ms: int
    time_left_ms: int


class MemberRow(msgspec.Struct, frozen=True, rename=_json_name, kw_only=True):
    """In the order in which it is documented."""

    id: str
    name: str
    address: str
    version: str  # of Adsum; empty for one that does not say
    status: str
    is_self: bool
    generation: int
    incarnation: int
    changed_ago_ms: int | None = None
    phi: float = 0.0
    phi_parts: Parts
    heard_ago_ms: int | None = None  # when it last answered a probe of ours, itself
    counter_ago_ms: int | None = None  # when its newest count of life, which came by anybody, was made
    round_trip_ms: float | None = None
    distance_ms: float | None = None
    path: str | None = None
    failed_legs: tuple[str, ...] = ()
    suspicion: SuspicionRow | None = None
    restarting_for_ms: int | None = None


def own_row(membership: MembershipView) -> MemberRow:
    return _row(membership.me, membership.own_standing, is_self=True, phi_parts=shown_parts(NO_PARTS))


def member_row(membership: MembershipView, now: Now, member: Member) -> MemberRow:
    phi, parts = membership.phi(now, member)
    now_ns, path = now.monotonic_ns, member.path
    facts = dict[str, object]()
    if member.beat:
        facts["counter_ago_ms"] = _ms(int(membership.counter_age_s(now, member) * SECOND))
    if path is not None:
        facts["path"] = "direct" if path.is_direct_ok else "detour"
        facts["heard_ago_ms"] = _ms(now_ns - path.heard_ns) if path.heard_ns else None
        facts["round_trip_ms"] = _shown_s(path.rtt_s)
        if path.coordinate is not None:
            facts["distance_ms"] = _shown_s(membership.coordinate.distance_s(path.coordinate))
    if member.suspicion is not None:
        facts["suspicion"] = _suspicion(membership, now, member.suspicion)
    if member.restarting_until_ns > now_ns:
        facts["restarting_for_ms"] = _ms(member.restarting_until_ns - now_ns)
    return _row(
        member.profile,
        member.standing,
        is_self=False,
        changed_ago_ms=_ms(now_ns - member.changed_ns),
        phi=shown_phi(phi),
        phi_parts=shown_parts(parts),
        failed_legs=_failed_legs(member),
        **facts,
    )


def row_of(membership: MembershipView, now: Now, name_or_id: str) -> MemberRow | None:
    """By name, whatever its case, or by the whole id."""
    try:
        node_id = UUID(name_or_id).bytes if len(name_or_id) == ID_LENGTH else b""
    except ValueError:
        node_id = b""
    if name_or_id.casefold() == membership.me.name.casefold() or node_id == membership.me.node_id:
        return own_row(membership)
    member = membership.member_named(name_or_id) or membership.member_by_id(node_id)
    return member_row(membership, now, member) if member is not None else None


def shown_parts(parts: PhiParts) -> Parts:
    return Parts(shown_phi(parts.challenge), shown_phi(parts.schedule), shown_phi(parts.accusation))


def shown_phi(phi: float) -> float:
    return round(phi, 2) + 0.0  # no surprise at all would be -0.0


def shown_name(who: Somebody) -> Named:
    return Named(who.id, who.name)


def _row(profile: Profile, standing: Standing, *, is_self: bool, **facts: object) -> MemberRow:
    who = described(profile)
    return MemberRow(
        id=who.id,
        name=who.name,
        address=who.address,
        version=profile.version,
        status=standing.status.value,
        is_self=is_self,
        generation=standing.generation,
        incarnation=standing.incarnation,
        **facts,  # type: ignore[arg-type]  # each names its field
    )


def _failed_legs(member: Member) -> tuple[str, ...]:
    if isinstance(member.verdict, Suspect | Dead):
        return leg_names(Leg(member.verdict.legs))
    if member.path is not None and not member.path.is_direct_ok:
        return leg_names(Leg.DIRECT)
    return ()


def _suspicion(membership: MembershipView, now: Now, case: Suspicion) -> SuspicionRow:
    name_of = membership.name_of
    return SuspicionRow(
        accusers=[shown_name(somebody(short, name_of)) for short in case.claim.accusers],
        refusers=[shown_name(somebody(short, name_of)) for short in case.claim.refusers],
        confirmations=case.confirmations,
        confirmations_wanted=membership.confirmations_wanted,
        age_ms=_ms(now.monotonic_ns - case.started_ns),
        time_left_ms=_ms(membership.verdict_due_ns(now, case) - now.monotonic_ns),
    )


def _shown_s(duration_s: float | None) -> float | None:
    return None if duration_s is None else round(duration_s * 1_000, 3)


def _ms(duration_ns: int) -> int:
    return max(0, duration_ns // MILLISECOND)


def entry_row(entry: JournalEntry) -> Shown:
    grounds, other = entry.grounds, entry.other
    return {
        "Sequence": entry.sequence,
        "Observer": entry.observer,
        "Time": shown_time(entry.wall_ms),
        "Kind": entry.kind.value,
        "ID": entry.node.id,
        "Node": entry.node.name,
        "Address": entry.node.address,
        "From": entry.before,
        "To": entry.after,
        "Cause": grounds.cause,
        "Note": entry.note,
        "Generation": entry.generation,
        "Incarnation": entry.incarnation,
        "Term": entry.term,
        "Accusers": [shown_name(each) for each in grounds.accusers],
        "Confirmations": grounds.confirmations,
        "Refusers": [shown_name(each) for each in grounds.refusers],
        "FailedLegs": list(grounds.legs),
        "Phi": shown_phi(grounds.phi),
        "PhiParts": shown_parts(grounds.parts),
        "By": shown_name(grounds.by) if grounds.by else None,
        "Other": {"ID": other.id, "Name": other.name, "Address": other.address} if other else None,
        "Repeats": entry.repeats,
        "Sentence": sentence(entry),
    }


def shown_time(wall_ms: int) -> str:
    seconds, ms = divmod(wall_ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03}Z"
