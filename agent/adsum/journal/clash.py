"""Two that claim one name or one id, in words: who they are, and what an operator does about it."""

from __future__ import annotations

from adsum.gossip.effects import ConflictSeen
from adsum.journal.entry import CONTESTED, REFUSED, JournalEntry, NameOf, Somebody, entry_of_conflict

LET_IN_LATER = " It is taken in by itself when the other is gone."


def standing(seen: ConflictSeen, name_of: NameOf) -> JournalEntry:
    """One to be told now; only what is in the journal has a date."""
    return entry_of_conflict(0, seen, name_of)


def sentence(entry: JournalEntry) -> str:
    holder, newcomer = entry.node, _newcomer(entry)
    if entry.note == REFUSED:
        return f"{newcomer} itself, at {newcomer.address}, is not let in: {_held(entry)}."
    if holder == newcomer:  # of an older journal, which did not say who told it
        claims = f"goes by the name or the id of {holder} at {holder.address}"
        return f"Another member {claims}, and does not let it in."
    if holder.address == newcomer.address:
        return f"Two agents advertise the address {holder.address}: {holder} and {newcomer}."
    end = "Neither lets the other in." if entry.note == CONTESTED else "The latter is not let in."
    if is_of_id(entry):
        return f"Two agents have the node id {newcomer.id}: {_at(holder)} and {_at(newcomer)}. {end}"
    return (
        f"Two members are called {holder}: {holder.id} at {holder.address} and {newcomer.id} at "
        f"{newcomer.address}. {end}"
    )


def headline(entry: JournalEntry, *, of_newcomer: bool) -> str:
    """To follow on how one of the two stands."""
    if of_newcomer and entry.note != CONTESTED:
        return f"It is not let in: {_held(entry)}."
    other = entry.node if of_newcomer else _newcomer(entry)
    end = "" if entry.note == CONTESTED else ", which is not let in"
    return f"Its {_what(entry)} is claimed by {_at(other)} as well{end}."


def instruction(entry: JournalEntry) -> str:
    newcomer, later = _newcomer(entry), LET_IN_LATER if entry.note == REFUSED else ""
    other = f"the one that `adsum explain {newcomer}` on {_by(entry)} names"
    holder = _at(entry.node) if entry.node.address else other
    if entry.node.address == newcomer.address and entry.node != newcomer:
        return "Give one of the two an advertise_addr or a serf_lan port of its own, and restart it."
    if is_of_id(entry):
        return (
            f"One of the two, {holder} and {_at(newcomer)}, runs on a data_dir that was copied from the "
            f"other: stop that one, empty its data_dir, and start it again.{later}"
        )
    return f"Give one of the two, {holder} and {_at(newcomer)}, another node_name, and restart it.{later}"


def is_of_id(entry: JournalEntry) -> bool:
    """Of a holder whom only others know no more is known than the first half of its id."""
    return _newcomer(entry).id.startswith(entry.node.id)


def _held(entry: JournalEntry) -> str:
    holder = _at(entry.node) if entry.node.address else "another member"
    by = f", says {_by(entry)}" if entry.grounds.by else ""
    return f"{holder} has its {_what(entry)}{by}"


def _by(entry: JournalEntry) -> str:
    by = entry.grounds.by or Somebody("")
    return _at(by) if by.name else f"the member at {by.address}"


def _what(entry: JournalEntry) -> str:
    return "node id" if is_of_id(entry) else "name"


def _newcomer(entry: JournalEntry) -> Somebody:
    return entry.other or Somebody("")


def _at(who: Somebody) -> str:
    return f"{who} at {who.address}"
