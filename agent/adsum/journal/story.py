"""The journal in plain English: each entry as a sentence, and which of them tell one story.

A story is the last trouble from its beginning: from when the member was last well until now, or until it was
well again. Descriptions that changed meanwhile belong to no trouble and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from adsum.journal import clash
from adsum.journal.accusation import at_length, names
from adsum.journal.entry import ISOLATED, PRUNED, UNKNOWN, JournalEntry, JournalKind

STORY_ENTRIES_MAX = 50
BEFORE_MS = 60_000  # notes this close before the trouble belong to it
IN_TROUBLE = ("suspect", "failed", "left")


def story(entries: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Of entries about one node, oldest first."""
    told = [entry for entry in entries if not _says_nothing_here(entry)] or list(entries)
    changes = [place for place, entry in enumerate(told) if entry.kind is JournalKind.CHANGE]
    if not changes:
        return told[-STORY_ENTRIES_MAX:]
    start = changes[0]
    for place in reversed(changes):
        if told[place].before not in IN_TROUBLE:
            start = place
            break
    began_ms = told[start].wall_ms
    while start and told[start - 1].kind is not JournalKind.CHANGE and _is_close(told[start - 1], began_ms):
        start -= 1
    return told[start:][-STORY_ENTRIES_MAX:]


def sentence(entry: JournalEntry) -> str:
    match entry.kind:
        case JournalKind.CHANGE:
            text = _CHANGES.get(entry.grounds.cause, _other_change)(entry)
        case JournalKind.NOTE:
            text = _NOTES.get(entry.note, _other_note)(entry)
        case JournalKind.CONFLICT:
            text = clash.sentence(entry)
        case JournalKind.ISOLATION:
            text = _isolation(entry)
        case JournalKind.START:
            text = f"{entry.node} itself started: from here on it meets everybody anew."
    return text + (f" The same {entry.repeats} times more in between." if entry.repeats else "")


def is_refutation(entry: JournalEntry) -> bool:
    """Of the member itself, or of this agent's own."""
    return (
        entry.kind is JournalKind.CHANGE and entry.grounds.cause == "refuted"
    ) or entry.note == "accused-me"


# Changes.


def _joined(entry: JournalEntry) -> str:
    return f"{entry.node} joined, at {entry.node.address}."


def _restarted(entry: JournalEntry) -> str:
    if entry.before == "alive":
        return f"{entry.node} was restarted: a new process under the same id."
    return f"{entry.node} is back, as a new process at {entry.node.address}."


def _changed(entry: JournalEntry) -> str:
    return f"{entry.node} describes itself anew."


def _suspected(entry: JournalEntry) -> str:
    accuser = str(entry.grounds.accusers[0]) if entry.grounds.accusers else "Somebody"
    also = names(entry.grounds.accusers[1:])
    return f"{accuser} suspects {entry.node}: {at_length(entry.grounds)}." + (
        f" So do {also}." if also else ""
    )


def _refuted(entry: JournalEntry) -> str:
    return f"{entry.node} refuted it: it is alive, in incarnation {entry.incarnation}."


def _silent(entry: JournalEntry) -> str:
    known = "was already failed when we first heard of it" if entry.before == UNKNOWN else "is failed"
    return f"{entry.node} {known}, by silence: {at_length(entry.grounds)}.{_witnesses(entry)}"


def _refused(entry: JournalEntry) -> str:
    known = "was already failed when we first heard of it" if entry.before == UNKNOWN else "is failed"
    told = f"{entry.node} {known}: its host refuses connections, so the host is up and the process is not."
    return told + _witnesses(entry)


def _left(entry: JournalEntry) -> str:
    return f"{entry.node} left in good order."


def _forced(entry: JournalEntry) -> str:
    if entry.note == PRUNED:
        return f"{entry.grounds.by or 'Somebody'} had {entry.node} pruned: it is no longer listed."
    return f"{entry.grounds.by or 'Somebody'} had {entry.node} leave, with force-leave."


def _replaced(entry: JournalEntry) -> str:
    return f"{entry.node} is no longer listed: another member took over its name or its address."


def _reborn(entry: JournalEntry) -> str:
    return f"{entry.node} lost its data folder: a new process at {entry.node.address} has another node id."


def _crowded_out(entry: JournalEntry) -> str:
    why = "as many members are listed as may be, and it never answered this agent, or is gone"
    return f"{entry.node} was forgotten to make room: {why}."


def _reaped(entry: JournalEntry) -> str:
    return f"{entry.node} was forgotten: it has been {entry.before} for long enough."


def _other_change(entry: JournalEntry) -> str:
    return f"{entry.node} went from {entry.before} to {entry.after} ({entry.grounds.cause})."


# Notes.


def _confirmed(entry: JournalEntry) -> str:
    count, accusers = entry.grounds.confirmations, names(entry.grounds.accusers)
    return f"By now {accusers} cannot reach {entry.node}: {count} confirmation{'s' * (count != 1)}."


def _raised(entry: JournalEntry) -> str:
    return f"The suspicion of {entry.node} is this agent's own."


def _vetoed(entry: JournalEntry) -> str:
    return (
        f"A probe of {entry.node} failed ({at_length(entry.grounds)}), yet a newer heartbeat counter of it "
        "came by way of others: the process runs, packets between here and there get lost. "
        "Nobody was accused."
    )


def _witnessed(entry: JournalEntry) -> str:
    return (
        f"The heartbeat counter of {entry.node} has stood still for longer than almost any other: "
        "that counts as one more confirmation."
    )


def _withheld(entry: JournalEntry) -> str:
    return (
        f"A probe of {entry.node} failed ({at_length(entry.grounds)}), but so do too many of this agent's "
        "probes, or its accusations were refuted: it accused nobody."
    )


def _accused_me(entry: JournalEntry) -> str:
    accusers = names(entry.grounds.accusers) or "Somebody"
    return f"{accusers} accused {entry.node} ({at_length(entry.grounds)}), which refuted it."


def _unanswered(entry: JournalEntry) -> str:
    where = f"{entry.node.address}, the address that it advertises"
    return f"{entry.node} was told of by a stranger, and not let in: it did not answer at {where}."


def _restarting(entry: JournalEntry) -> str:
    return f"{entry.node} announced that it restarts."


def _other_note(entry: JournalEntry) -> str:
    return f"About {entry.node}: {entry.note}."


# The rest.


def _isolation(entry: JournalEntry) -> str:
    if entry.after == ISOLATED:
        return f"{entry.node} itself is isolated: more than half of its last probes failed."
    return f"{entry.node} reaches others again."


def _witnesses(entry: JournalEntry) -> str:
    """Not who was first: two may have accused at once, and each part of the cluster met them in its order."""
    return f" Accused by {names(entry.grounds.accusers)}." if entry.grounds.accusers else ""


def _says_nothing_here(entry: JournalEntry) -> bool:
    """A new description; or whose the suspicion is, which the one before says by its accuser."""
    is_description = entry.kind is JournalKind.CHANGE and entry.before == entry.after == "alive"
    return entry.note == "raised" or (is_description and entry.grounds.cause == "changed")


def _is_close(entry: JournalEntry, to_ms: int) -> bool:
    return abs(to_ms - entry.wall_ms) <= BEFORE_MS


_CHANGES = {
    "joined": _joined,
    "restarted": _restarted,
    "changed": _changed,
    "suspected": _suspected,
    "refuted": _refuted,
    "silent": _silent,
    "refused": _refused,
    "left": _left,
    "forced": _forced,
    "replaced": _replaced,
    "reborn": _reborn,
    "reaped": _reaped,
    "crowded out": _crowded_out,
}
_NOTES = {
    "confirmed": _confirmed,
    "raised": _raised,
    "vetoed": _vetoed,
    "witnessed": _witnessed,
    "withheld": _withheld,
    "accused-me": _accused_me,
    "restarting": _restarting,
    "unanswered": _unanswered,
}
