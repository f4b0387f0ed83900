"""What a server tells about sessions. Each applies all ends and counts them; who renews and proposes is the
leader."""

from __future__ import annotations

from adsum.observe.series import Labelled, Reading, Sources, counter, gauge, table
from adsum.session import EndCause

RENEWALS = ("renewed", "not_found", "refused", "refused_full")  # as they are counted
ENTRIES = ("expiries", "invalidations", "notes", "notes_taken_back")


def _ended(sources: Sources) -> Labelled:
    ends = sources.consensus.machine.sessions.ends
    return {(cause.name.lower(),): ends[cause] for cause in EndCause}


def _renewals(sources: Sources) -> Reading:
    counters = sources.consensus.sessions.counters
    return {what: getattr(counters, what) for what in RENEWALS}


def _entries(sources: Sources) -> Reading:
    counters = sources.consensus.sessions.counters
    return {what: getattr(counters, what) for what in ENTRIES}


def _verdicts(sources: Sources) -> Reading:
    counters = sources.consensus.sessions.counters
    return {"asked": counters.verdicts_asked, "unlike": counters.verdicts_unlike}


def _is_time_untrusted(sources: Sources) -> int:
    """From when it began to lead, or stood still, until a quorum has said that it leads."""
    driver = sources.consensus.driver()
    if driver is None or not driver.is_leader:
        return 0
    is_trusted = driver.core.pace.is_time_trusted and sources.consensus.sessions.is_proven
    return int(not is_trusted)


SESSIONS = table(
    "Sessions in the store.",
    gauge("adsum_sessions", lambda s: len(s.consensus.machine.sessions)),
    "What they take in memory.",
    gauge("adsum_sessions_bytes", lambda s: s.consensus.machine.sessions.bytes_total),
    "Sessions whose TTL this server counts, as their leader; 0 on others.",
    gauge("adsum_sessions_with_ttl", lambda s: s.consensus.sessions.with_ttl),
    "1 while this server leads and ends no session by its TTL: it began to lead, or stood still, and no "
    "quorum has said since that it leads.",
    gauge("adsum_sessions_time_untrusted", _is_time_untrusted),
    "Sessions that ended, by cause; each server counts all.",
    counter("adsum_sessions_ended_total{cause}", _ended),
    "Renewals that came to this server as leader: done, of sessions that are gone, refused for want of "
    "leadership, and for want of room.",
    counter("adsum_session_renewals_total{what}", _renewals),
    "Renewals that wait for a quorum, for the outcome of an end, or for the log.",
    gauge("adsum_session_renewals_waiting", lambda s: s.consensus.sessions.renewals_waiting),
    "Entries that this leader put into the log: with sessions that nobody renewed, with those whose node or "
    "check failed, with what is left of long ones, and with what is not true of that any more.",
    counter("adsum_session_entries_total{what}", _entries),
    "Sessions that a node without an agent left to the leader when it was deregistered: one entry ends no "
    "more.",
    counter("adsum_session_ends_left_total", lambda s: s.consensus.machine.sessions.left_to_leader),
    "Other servers asked whether a node failed, and those that did not say the same, or nothing.",
    counter("adsum_session_verdicts_total{what}", _verdicts),
    "Ends that are not in the log of this agent, for there were too many at once.",
    counter("adsum_session_lines_dropped_total", lambda s: s.consensus.sessions.counters.lines_dropped),
)
