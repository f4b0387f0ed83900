"""Whether a session has to end by what is seen of its node and its checks now.

Evidence has to be at least as new as what the session carries: the agent that accepted it saw the node alive
and the checks well, and a copy from before that says nothing about it. What is missing in a copy counts only
where the copy is known to hold all that it is of; and in a life of the agent of which the session was
accepted without its records, a later one as a rule, only when it is missing for a while, for whoever
registered it may be about to do so again.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from adsum.session import EndCause, EndedSession, Session
from adsum.sessions.sees import CheckSeen, HostVerdict, NodeKey, RecordsSeen, SeesHosts

SERF_HEALTH = "serfHealth"


class Ending(NamedTuple):
    cause: EndCause
    evidence: str


class WeakEvidence(enum.Enum):
    BEHIND = "behind"  # what is seen is older than the session, or nothing is
    MISSING_ANEW = "missing anew"  # in a life of the agent none of whose records came with it


def judged(
    session: Session, who: NodeKey, sees: SeesHosts, failure: str, *, is_long_missing: bool
) -> Ending | WeakEvidence | None:
    """`failure`: who agrees that the node failed; empty while that is not settled."""
    host = sees.host(who)
    is_new = host.generation >= session.generation
    if host.verdict is HostVerdict.GONE and is_new:
        sentence = f"{_node(session, host.generation)} left, was deregistered, or was replaced"
        return Ending(EndCause.NODE_GONE, sentence)
    doubt: WeakEvidence | None = None
    if host.verdict is HostVerdict.UNKNOWN and session.node_id:
        # Whoever forgot it long ago, or was started since, still sees who has its name.
        generation = sees.followed_by(who, session.node)
        if generation > session.generation:
            sentence = f"node {session.node} is another agent by now (generation {generation})"
            return Ending(EndCause.NODE_GONE, f"{sentence}, and this one is known to nobody")
        doubt = WeakEvidence.BEHIND
    if failure and host.verdict is HostVerdict.FAILED and is_new and SERF_HEALTH in session.node_checks:
        return Ending(EndCause.NODE_FAILED, f"{_node(session, host.generation)} failed: {failure}")
    for check_id in (*session.node_checks, *session.service_checks):
        if check_id == SERF_HEALTH:
            continue
        seen = sees.check(who, check_id)
        if seen is CheckSeen.FINE:
            continue
        records = sees.records(who)
        if not _holds_what_was_seen(records, session):
            doubt = WeakEvidence.BEHIND
        elif seen is CheckSeen.CRITICAL:
            sentence = f"check {check_id} on {_node(session, records.generation)} is critical"
            return Ending(EndCause.CHECK_CRITICAL, f"{sentence}, at version {records.version} of its records")
        elif is_long_missing or not _is_of_another_life(records, session):
            sentence = f"check {check_id} is none of {_node(session, records.generation)} any more"
            return Ending(EndCause.CHECK_GONE, f"{sentence}, at version {records.version} of its records")
        else:
            doubt = WeakEvidence.MISSING_ANEW
    return doubt


def told(session: Session, ended: EndedSession) -> str:
    """For the log."""
    of_node = f" of node {session.node}" if session.node else ""
    name = f" ({session.name})" if session.name else ""
    cause = ended.cause.name.lower().replace("_", " ")
    why = f"{cause}; {ended.evidence}" if ended.evidence else cause
    return f"session {session.id}{of_node}{name} ended, with {ended.keys} keys: {why}"


def _holds_what_was_seen(records: RecordsSeen, session: Session) -> bool:
    if _is_of_another_life(records, session):
        return records.generation >= session.generation and records.is_complete
    return records.version >= session.records_version


def _is_of_another_life(records: RecordsSeen, session: Session) -> bool:
    """Than the records that were seen when it was accepted: those may have been of the life before the one
    that members knew of. Of a node without an agent there is only one."""
    has_seen_records = session.records_version > 0 or not session.node_id
    return records.generation != session.generation or not has_seen_records


def _node(session: Session, generation: int) -> str:
    return f"node {session.node} (generation {generation})" if generation else f"node {session.node}"
