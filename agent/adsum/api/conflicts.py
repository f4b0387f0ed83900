"""Conflicts over names and ids that stand now, for those who ask about one of the two."""

from __future__ import annotations

from adsum.api.api_types import Agent
from adsum.api.member_rows import MemberRow, Shown
from adsum.journal import clash
from adsum.journal.entry import JournalEntry
from adsum.now import Now


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
