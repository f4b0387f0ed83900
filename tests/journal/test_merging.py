from __future__ import annotations

from adsum.journal.entry import JournalEntry, JournalKind, Somebody
from adsum.journal.file import FoundEntries
from adsum.journal.merging import merged


def entry(observer: str, wall_ms: int, sequence: int) -> JournalEntry:
    return JournalEntry(
        kind=JournalKind.CHANGE,
        wall_ms=wall_ms,
        node=Somebody("id", "n3"),
        observer=observer,
        sequence=sequence,
    )


def test_journals_of_several_agents_become_one_in_the_order_of_time() -> None:
    one = FoundEntries((entry("n1", 10, 1), entry("n1", 30, 2)), is_cut=False, oldest_ms=10)
    other = FoundEntries((entry("n2", 20, 7),), is_cut=True, oldest_ms=15)
    both = merged([one, other])
    assert [(each.observer, each.wall_ms) for each in both.entries] == [("n1", 10), ("n2", 20), ("n1", 30)]
    assert (both.is_cut, both.oldest_ms) == (True, 15)


def test_a_clock_that_was_set_back_does_not_turn_one_agent_s_story_around() -> None:
    one = FoundEntries((entry("n1", 50, 1), entry("n1", 20, 2)), is_cut=False, oldest_ms=50)
    other = FoundEntries((entry("n2", 30, 1),), is_cut=False, oldest_ms=30)
    both = merged([one, other])
    assert [each.sequence for each in both.entries if each.observer == "n1"] == [1, 2]


def test_no_journals_are_an_empty_one() -> None:
    assert merged([]) == FoundEntries((), is_cut=False, oldest_ms=0)
