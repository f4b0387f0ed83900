from __future__ import annotations

from adsum.address import Address
from adsum.effects import LeaderChanged
from adsum.gossip.effects import ConflictSeen, IsolationChanged, MemberChanged, Note, Noted
from adsum.gossip.evidence import ChangeCause, Evidence, Leg, PhiParts
from adsum.journal.entry import (
    Grounds,
    JournalEntry,
    JournalKind,
    Recorded,
    Somebody,
    entry_of,
    note_word,
)
from tests.observe.membership import ALIVE, DEAD, LEFT, WALL_MS, failed, name_of, profile, short

N1 = Somebody("11111111-1111-4111-8111-111111111111", "n1", "10.0.0.1:8301")
N3 = Somebody("33333333-3333-4333-8333-333333333333", "n3", "10.0.0.3:8301")


def made(effect: Recorded) -> JournalEntry:
    return entry_of(WALL_MS, effect, profile("n1"), name_of)


def test_a_verdict_is_kept_with_everything_that_led_to_it() -> None:
    assert made(failed("n3", "n4", "n2")) == JournalEntry(
        kind=JournalKind.CHANGE,
        wall_ms=WALL_MS,
        node=N3,
        before="suspect",
        after="failed",
        generation=WALL_MS,
        incarnation=0,
        grounds=Grounds(
            cause="silent",
            accusers=(Somebody("44444444-4444-4444", "n4"), Somebody("22222222-2222-4222", "n2")),
            legs=("direct", "indirect", "stream"),
            phi=2.9,
            parts=PhiParts(2.9, 4.5, 6.1),
        ),
    )


def test_the_first_accuser_confirms_nothing() -> None:
    assert made(failed("n3", "n4", "n2")).grounds.confirmations == 1
    assert made(failed("n3")).grounds.confirmations == 0


def test_met_and_forgotten_members_have_words_for_where_they_come_from_and_go_to() -> None:
    met = made(MemberChanged(profile("n3"), None, ALIVE, Evidence(ChangeCause.JOINED)))
    reaped = made(MemberChanged(profile("n3"), DEAD, None, Evidence(ChangeCause.REAPED)))
    assert (met.before, met.after) == ("unknown", "alive")
    assert (reaped.before, reaped.after, reaped.generation) == ("failed", "forgotten", WALL_MS)


def test_a_forced_leave_names_who_decided_it() -> None:
    forced = made(MemberChanged(profile("n3"), DEAD, LEFT, Evidence(ChangeCause.FORCED, by=short("n2"))))
    assert forced.grounds.by == Somebody("22222222-2222-4222", "n2")
    assert (forced.after, forced.grounds.cause) == ("left", "forced")


def test_a_stranger_among_the_accusers_is_called_by_the_beginning_of_its_id() -> None:
    stranger = bytes.fromhex("0123456789abcdef")
    entry = made(Noted(Note.CONFIRMED, profile("n3"), Evidence(ChangeCause.SUSPECTED, (stranger,))))
    assert str(entry.grounds.accusers[0]) == "01234567-89ab-cdef"
    noted = Noted(Note.CONFIRMED, profile("n3"), Evidence(ChangeCause.SUSPECTED, (stranger,)))
    assert entry_of(WALL_MS, noted, profile("n1"), bytes.hex) == entry


def test_a_note_keeps_its_word_and_its_grounds() -> None:
    entry = made(
        Noted(Note.ACCUSED_ME, profile("n1"), Evidence(ChangeCause.SUSPECTED, legs=Leg.DIRECT | Leg.ICMP))
    )
    assert (entry.kind, entry.note, entry.grounds.legs) == (
        JournalKind.NOTE,
        "accused-me",
        ("direct", "icmp"),
    )


def test_a_conflict_names_both_sides() -> None:
    entry = made(ConflictSeen(profile("n3"), profile("n4", "fd00::4")))
    assert entry.node == N3
    assert entry.other == Somebody("44444444-4444-4444-8444-444444444444", "n4", "[fd00::4]:8301")


def test_isolation_is_the_observer_s_own() -> None:
    entry = made(IsolationChanged(is_isolated=True))
    assert (entry.kind, entry.node, entry.after) == (JournalKind.ISOLATION, N1, "isolated")
    assert made(IsolationChanged(is_isolated=False)).after == "connected"


def test_a_change_of_the_leader_is_told_of_the_server_that_leads_or_led() -> None:
    address = Address("10.0.0.3", 8301)
    entry = made(LeaderChanged(profile("n3").node_id, "n3", address, True, 7, "elected"))
    assert (entry.kind, entry.node, entry.after) == (JournalKind.LEADER, N3, "leading")
    assert (entry.note, entry.term) == ("elected", 7)
    gone = made(LeaderChanged(profile("n3").node_id, "", None, False, 7, ""))
    assert (gone.node.name, gone.node.address, gone.after) == ("", "", "leaderless")


def test_words_of_notes_are_those_that_are_documented() -> None:
    """They are in files and in scripts: a note may be added, none may change."""
    assert {note_word(note) for note in Note} >= {
        *("confirmed", "raised", "vetoed", "witnessed", "withheld", "accused-me", "restarting"),
    }
