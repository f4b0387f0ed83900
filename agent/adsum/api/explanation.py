"""Why a node is as it is: how it stands now, the story that led there, and what one would do next."""

from __future__ import annotations

from collections.abc import Sequence

from adsum.api.api_types import Agent
from adsum.api.member_rows import MemberRow, Shown, entry_row, shown_time
from adsum.gossip.effects import Note
from adsum.journal import clash
from adsum.journal.advice import Situation, advice, duration
from adsum.journal.entry import PRUNED, JournalEntry, JournalKind, note_word
from adsum.journal.story import is_refutation, sentence, story
from adsum.now import Now

LATELY_MS = 3_600_000
FORGOTTEN = "forgotten"
LISTED = ("alive", "suspect", "failed")  # who was so last, and is no member now, was one before the start
UNANSWERED = note_word(Note.UNANSWERED)


def explained(
    row: MemberRow | None,
    entries: Sequence[JournalEntry],
    wall_ms: int,
    *,
    observer_is_isolated: bool,
    holds_last_known: bool,
    conflict: JournalEntry | None = None,
) -> Shown:
    """Entries about it and about the observer's isolation, oldest first. Without a row there are some."""
    last = next((entry for entry in reversed(entries) if entry.kind is JournalKind.CHANGE), None)
    name = row.name if row else entries[-1].node.name
    situation = Situation(
        name=name,
        conflict=clash.instruction(conflict) if conflict is not None else "",
        status=row.status if row else FORGOTTEN,
        address=row.address if row else "",
        cause=last.grounds.cause if last else "",
        is_self=row is not None and row.is_self,
        is_unanswered=row is None and entries[-1].note == UNANSWERED,
        is_unmet=row is None and last is not None and last.after in LISTED,
        observer_is_isolated=observer_is_isolated,
        holds_last_known=holds_last_known,
        is_detour=row is not None and row.path == "detour",
        refuted_lately=sum(is_refutation(each) and each.wall_ms >= wall_ms - LATELY_MS for each in entries),
        restarting_ms=(row and row.restarting_for_ms) or 0,
        time_left_ms=row.suspicion.time_left_ms if row and row.suspicion else 0,
    )
    headline = ""
    if conflict is not None:  # both may have the name, and both the id; where they are tells them apart
        address = conflict.other.address if conflict.other is not None else None
        is_newcomer = address is not None and (row is None or row.address == address)
        headline = " " + clash.headline(conflict, of_newcomer=is_newcomer)
    return {
        "Node": name,
        "Status": situation.status,
        "Summary": summary(situation, row, last, wall_ms) + headline,
        "Story": [{"Time": shown_time(each.wall_ms), "Sentence": sentence(each)} for each in story(entries)],
        "Next": advice(situation),
        "Member": row,
        "Entries": [entry_row(entry) for entry in entries],
    }


def summary(it: Situation, row: MemberRow | None, last: JournalEntry | None, wall_ms: int) -> str:
    if it.is_self and it.observer_is_isolated:
        return f"{it.name} is this agent itself, and reaches less than half of the others."
    if it.is_self:
        return f"{it.name} is this agent itself."
    if it.is_unmet:
        return f"{it.name} is no member here: this agent has not met it since it started itself."
    if row is None:
        gone = f"; it has been gone for {duration(wall_ms - last.wall_ms)}" if last else ""
        return f"{it.name} is no member here{gone}."
    for_ms = duration(row.changed_ago_ms or 0)
    match it.status:
        case "suspect":
            left_ms = duration(it.time_left_ms)
            return f"{it.name} has been suspected for {for_ms}; {left_ms} are left to refute."
        case "left" if last is not None and last.note == PRUNED:
            return f"{it.name} was pruned {for_ms} ago."
        case "left":
            return f"{it.name} left {for_ms} ago."
        case status:
            return f"{it.name} has been {status} for {for_ms}."


def own_conflict(agent: Agent, now: Now) -> Shown | None:
    """Over the agent's own name or id."""
    conflicts = agent.cluster.conflicts
    seen = conflicts.about_me(now)
    if seen is None:
        return None
    entry = clash.standing(seen, agent.cluster.membership.name_of)
    return {
        "IsLetIn": conflicts.is_let_in(now),
        "Sentence": clash.sentence(entry),
        "Next": clash.instruction(entry),
    }


def standing_conflict(agent: Agent, now: Now, name_or_id: str, row: MemberRow | None) -> JournalEntry | None:
    conflicts, name_of = agent.cluster.conflicts, agent.cluster.membership.name_of
    if row is not None and row.is_self:
        seen = conflicts.about_me(now)
        return clash.standing(seen, name_of) if seen is not None else None
    wanted = row.id if row is not None else name_or_id.casefold()
    for seen in reversed(conflicts.of_others(now)):
        entry = clash.standing(seen, name_of)
        parties = [entry.node, *([entry.other] if entry.other else [])]
        if any(wanted in (each.id, each.name.casefold()) for each in parties):
            return entry
    return None
