"""Whether the journal of membership changes keeps up: what it lost, and why."""

from __future__ import annotations

from adsum.observe.series import Reading, Series, Sources, counter


def _lost(sources: Sources) -> Reading:
    journal = sources.agent.journal.counters
    return {
        "queue": journal.dropped,
        "too_many": journal.rationed,
        "disk": journal.lost_writing,
        "unreadable": journal.unreadable,
    }


JOURNAL: tuple[Series, ...] = (
    counter(
        "adsum_journal_entries_total",
        "Entries made about members, for `adsum timeline`.",
        lambda s: s.agent.journal.counters.recorded,
    ),
    counter(
        "adsum_journal_lost_total",
        "Entries lost: the queue was full, strangers caused too many, the disk refused, or one is illegible.",
        _lost,
        "reason",
    ),
    counter(
        "adsum_journal_forgotten_total",
        "The oldest entries, dropped to keep the journal within its size.",
        lambda s: s.agent.journal.counters.forgotten,
    ),
    counter(
        "adsum_journal_set_aside_total",
        "Damaged journals set aside.",
        lambda s: s.agent.journal.counters.set_aside,
    ),
)
