"""The journal in plain English: each entry as a sentence, and which of them tell one story.

A story is the last trouble from its beginning: from when the member was last well until now, or until it was
well again. Descriptions that changed meanwhile belong to no trouble and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from adsum.journal import clash
from adsum.journal.accusation import at_length, names
from adsum.journal.entry import ISOLATED, LEADING, PRUNED, UNKNOWN, JournalEntry, JournalKind

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
    while start and told[start - 1].kind is not JournalKind.CHANGE:
        if abs(began_ms - told[start - 1].wall_ms) > BEFORE_MS:
            break
        start -= 1
    return told[start:][-STORY_ENTRIES_MAX:]


def sentence(entry: JournalEntry) -> str:
    match entry.kind:
        case JournalKind.CHANGE:
            text = _change(entry)
        case JournalKind.NOTE:
            text = _note(entry)
        case JournalKind.CONFLICT:
            text = clash.sentence(entry)
        case JournalKind.ISOLATION:
            if entry.after == ISOLATED:
                text = f"{entry.node} itself is isolated: more than half of its last probes failed."
            else:
                text = f"{entry.node} reaches others again."
        case JournalKind.START:
            text = f"{entry.node} itself started: from here on it learns again who is there."
        case JournalKind.LEADER:
            text = _leader(entry)
    return text + (f" The same {entry.repeats} times more in between." if entry.repeats else "")


def is_refutation(entry: JournalEntry) -> bool:
    """Of the member itself, or of this agent's own."""
    return (
        entry.kind is JournalKind.CHANGE and entry.grounds.cause == "refuted"
    ) or entry.note == "accused-me"


def _change(entry: JournalEntry) -> str:
    node, grounds = entry.node, entry.grounds
    known = "was already failed when we first heard of it" if entry.before == UNKNOWN else "is failed"
    # Not who was first: two may have accused at once, and each part of the cluster met them in its order.
    witnesses = f" Accused by {names(grounds.accusers)}." if grounds.accusers else ""
    match grounds.cause:
        case "joined":
            return f"{node} joined, at {node.address}."
        case "restarted" if entry.before == "alive":
            return f"{node} was restarted: a new process under the same id."
        case "restarted":
            return f"{node} is back, as a new process at {node.address}."
        case "changed":
            return f"{node} describes itself anew."
        case "suspected":
            accuser = grounds.accusers[0] if grounds.accusers else "Somebody"
            also = f" So do {names(grounds.accusers[1:])}." if grounds.accusers[1:] else ""
            return f"{accuser} suspects {node}: {at_length(grounds)}.{also}"
        case "refuted":
            return f"{node} refuted it: it is alive, in incarnation {entry.incarnation}."
        case "silent":
            return f"{node} {known}, by silence: {at_length(grounds)}.{witnesses}"
        case "refused":
            why = "its host refuses connections, so the host is up and the process is not"
            return f"{node} {known}: {why}.{witnesses}"
        case "left":
            return f"{node} left in good order."
        case "forced" if entry.note == PRUNED:
            return f"{grounds.by or 'Somebody'} had {node} pruned: it is no longer listed."
        case "forced":
            return f"{grounds.by or 'Somebody'} had {node} leave, with force-leave."
        case "replaced":
            return f"{node} is no longer listed: another member took over its name or its address."
        case "reborn":
            return f"{node} lost its data folder: a new process at {node.address} has another node id."
        case "reaped":
            return f"{node} was forgotten: it has been {entry.before} for long enough."
        case "crowded out":
            why = "as many members are listed as may be, and it never answered this agent, or is gone"
            return f"{node} was forgotten to make room: {why}."
    return f"{node} went from {entry.before} to {entry.after} ({grounds.cause})."


LED_NO_LONGER = {
    "leader-silent": "this agent heard nothing of it within the election timeout",
    "quorum-silent": "no majority of the voters answered it within the election timeout",
    "disk": "its disk failed, or did not answer within the election timeout",
    "no-voter": "it is no voter any more",
    "state-differs": "its state differed from that of a majority",
    "handed-over": "it handed leadership over",
    "later-term": "another server stands for election in a later term",
}


def _leader(entry: JournalEntry) -> str:
    if entry.after == LEADING:
        return f"{entry.node} leads the servers, in term {entry.term}."
    why = LED_NO_LONGER.get(entry.note, "")
    return f"{entry.node} leads no longer, after term {entry.term}{': ' if why else ''}{why}."


def _note(entry: JournalEntry) -> str:
    node, grounds, why = entry.node, entry.grounds, at_length(entry.grounds)
    match entry.note:
        case "confirmed":
            count = grounds.confirmations
            end = f"{count} confirmation{'s' * (count != 1)}"
            return f"By now {names(grounds.accusers)} cannot reach {node}: {end}."
        case "raised":
            return f"The suspicion of {node} is this agent's own."
        case "vetoed":
            return (
                f"A probe of {node} failed ({why}), yet a newer heartbeat counter of it came by way of "
                "others: the process runs, packets between here and there get lost. Nobody was accused."
            )
        case "witnessed":
            return (
                f"The heartbeat counter of {node} has stood still for longer than almost any other: that "
                "counts as one more confirmation."
            )
        case "withheld":
            return (
                f"A probe of {node} failed ({why}), but so do too many of this agent's probes, or its "
                "accusations were refuted: it accused nobody."
            )
        case "accused-me":
            accusers = names(grounds.accusers) or "Somebody"
            return f"{accusers} accused {node} ({why}), which refuted it."
        case "restarting":
            return f"{node} announced that it restarts."
        case "unanswered":
            where = f"{node.address}, the address that it advertises"
            return f"{node} was told of by a stranger, and not let in: it did not answer at {where}."
    return f"About {node}: {entry.note}."


def _says_nothing_here(entry: JournalEntry) -> bool:
    """A new description; or whose the suspicion is, which the one before says by its accuser."""
    is_description = entry.kind is JournalKind.CHANGE and entry.before == entry.after == "alive"
    return entry.note == "raised" or (is_description and entry.grounds.cause == "changed")
