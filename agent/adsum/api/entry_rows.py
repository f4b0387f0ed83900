"""An entry of the journal as JSON shows it: every field always there, and a sentence that says it all."""

from __future__ import annotations

from datetime import UTC, datetime

from adsum.api.member_rows import Shown, shown_name, shown_parts, shown_phi
from adsum.journal.entry import JournalEntry
from adsum.journal.story import sentence


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
