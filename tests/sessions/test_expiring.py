"""Deadlines, renewals and what a change of the leader does to them."""

from __future__ import annotations

from adsum.effects import LogLine
from adsum.kv import KeyCause, KeyRefusal
from adsum.now import SECOND
from adsum.sessions.effects import AnswerRenewals, ConfirmLeadership, ProposeInTerm
from adsum.sessions.keeper import RenewThese
from adsum.sessions.reports import (
    LeadershipConfirmed,
    LeadershipTurned,
    ProposalEnded,
    SessionsApplied,
)
from adsum.sessions.settings import RENEWALS_WAITING_MAX
from adsum.store.commands import ExpireSessions, NoteRemaining
from tests.sessions.support import Leader, Log, of, one, session


def log_with(*ids: str, **changes: object) -> Log:
    log = Log()
    log.create(*(session(each, **changes) for each in ids))
    return log


def test_nobody_renews_and_it_ends_when_twice_its_ttl_has_passed() -> None:
    leader = Leader(log_with("s")).proven()
    assert leader.pass_to(19.9) == []
    leader.at = 20
    assert one(leader.tick(), ProposeInTerm).command == ExpireSessions((("s", 0),), 1)


def test_each_acknowledged_renewal_begins_that_time_anew() -> None:
    leader = Leader(log_with("s")).proven()
    leader.pass_to(15)
    assert leader.renewed("s") == ["s"]
    leader.pass_to(34.9)
    assert leader.log.sessions == ["s"]
    leader.pass_to(35)
    assert leader.log.sessions == []


def test_a_session_without_a_ttl_does_not_expire() -> None:
    leader = Leader(log_with("s", ttl="", ttl_ms=0)).proven()
    assert leader.pass_to(1_000_000) == []


def test_its_end_is_logged_with_cause_and_evidence() -> None:
    leader = Leader(log_with("s", name="web-leader")).proven()
    line = one(leader.pass_to(21), LogLine)
    assert line.sentence == (
        "session s of node web (web-leader) ended, with 0 keys: expired; it was not renewed in twice its TTL"
    )


# Who acknowledges (SD5).


def test_sd5_a_renewal_is_acknowledged_when_leadership_is_proven_and_not_before() -> None:
    leader = Leader(log_with("s")).proven()
    assert leader.renew("s") == []
    asked = one(leader.tick(), ConfirmLeadership)
    answer = one(leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True)), AnswerRenewals)
    assert answer == AnswerRenewals("t", [leader.log.machine.sessions.get("s")])


def test_one_question_to_the_quorum_serves_all_renewals_of_a_round() -> None:
    leader = Leader(log_with("a", "b")).proven()
    leader.renew("a", token="1")
    leader.renew("b", "gone", token="2")
    asked = one(leader.tick(), ConfirmLeadership)
    leader.renew("a", token="3")
    assert leader.tick() == []  # the next question waits for this one
    answers = of(leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True)), AnswerRenewals)
    kept = leader.log.machine.sessions
    assert answers == [
        AnswerRenewals("1", [kept.get("a")]),
        AnswerRenewals("2", [kept.get("b"), None]),
    ]
    assert len(of(leader.tick(), ConfirmLeadership)) == 1


def test_who_leads_no_more_refuses_those_that_wait() -> None:
    leader = Leader(log_with("s")).proven()
    leader.renew("s")
    leader.tick()
    answer = one(leader.report(LeadershipTurned(None)), AnswerRenewals)
    assert isinstance(answer.outcome, KeyRefusal)
    assert answer.outcome.cause is KeyCause.NO_LEADER
    assert isinstance(one(leader.renew("s"), AnswerRenewals).outcome, KeyRefusal)
    assert leader.keeper.counters.refused == 2
    assert leader.keeper.deadline() is None


def test_a_proof_from_before_a_pause_proves_nothing_after_it() -> None:
    leader = Leader(log_with("s")).proven()
    leader.renew("s")
    asked = one(leader.tick(), ConfirmLeadership)
    leader.clock.stood_ns = 30 * SECOND
    assert leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True)) == []
    leader.at = 31
    again = one(leader.tick(), ConfirmLeadership)
    assert one(leader.report(LeadershipConfirmed(again.ticket, is_confirmed=True)), AnswerRenewals)


def test_renewals_late_twice_and_through_another_agent_are_renewals() -> None:
    leader = Leader(log_with("s")).proven()
    leader.pass_to(9)
    assert leader.renewed("s") == ["s"]
    assert leader.renewed("s", "s") == ["s", "s"]
    leader.pass_to(25)
    assert leader.renewed("s") == ["s"]
    leader.pass_to(44.9)
    assert leader.log.sessions == ["s"]


def test_past_so_many_that_wait_renewals_are_refused_as_busy() -> None:
    leader = Leader(log_with("s")).proven()
    leader.keeper.command(leader.now, RenewThese([str(number) for number in range(RENEWALS_WAITING_MAX)], 0))
    answer = one(leader.renew("s"), AnswerRenewals)
    assert isinstance(answer.outcome, KeyRefusal)
    assert answer.outcome.cause is KeyCause.BUSY
    assert leader.keeper.counters.refused_full == 1


# Renewal beside an end that is under way (SD4).


def test_sd4_a_renewal_waits_for_an_expiry_that_is_under_way_and_hears_that_it_is_gone() -> None:
    leader = Leader(log_with("s")).proven()
    leader.at = 20
    expiry = one(leader.tick(), ProposeInTerm)
    leader.renew("s")
    asked = one(leader.tick(), ConfirmLeadership)
    assert leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True)) == []
    assert leader.commit(expiry) == []
    again = of(leader.tick(), ConfirmLeadership)[0]
    answer = one(leader.report(LeadershipConfirmed(again.ticket, is_confirmed=True)), AnswerRenewals)
    assert answer.outcome == [None]


def test_what_the_log_did_not_take_is_renewed_after_all() -> None:
    leader = Leader(log_with("s")).proven()
    leader.at = 20
    expiry = one(leader.tick(), ProposeInTerm)
    leader.renew("s")
    leader.do(one(leader.tick(), ConfirmLeadership))
    leader.report(ProposalEnded(expiry.ticket, is_applied=False))
    wanted = leader.pass_to(20.5)
    assert one(wanted, AnswerRenewals).outcome == [leader.log.machine.sessions.get("s")]
    leader.pass_to(39)
    assert leader.log.sessions == ["s"]


def test_an_expiry_that_the_log_did_not_take_is_proposed_again() -> None:
    leader = Leader(log_with("s")).proven()
    leader.at = 20
    leader.report(ProposalEnded(one(leader.tick(), ProposeInTerm).ticket, is_applied=False))
    assert of(leader.tick(), ProposeInTerm) == []
    leader.pass_to(21)
    assert leader.log.sessions == []


# Another leader.


def test_a_new_leader_begins_twice_the_ttl_anew() -> None:
    log = log_with("s")
    Leader(log).proven().pass_to(19)
    successor = Leader(log, term=2, at=19).proven()
    successor.pass_to(38.9)
    assert log.sessions == ["s"]
    successor.pass_to(39)
    assert log.sessions == []


def test_until_its_leadership_is_proven_it_does_nothing() -> None:
    """What an earlier leader put into the log may not have been applied here."""
    leader = Leader(log_with("s"))
    asked = one(leader.tick(), ConfirmLeadership)
    for at in range(100):
        leader.at = at
        assert leader.tick() == []
    leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True))
    leader.pass_to(118.9)
    assert leader.log.sessions == ["s"]
    leader.pass_to(119)
    assert leader.log.sessions == []


def test_b14_what_a_paused_leader_proposes_ends_nobody_whom_its_successor_renewed() -> None:
    log = log_with("s")
    paused = Leader(log).proven()
    paused.at = 20
    late = one(paused.tick(), ProposeInTerm)
    successor = Leader(log, term=2, at=1).proven()
    assert successor.renewed("s") == ["s"]
    log.apply(late.command, 2)
    assert log.sessions == ["s"]


def test_b14_after_a_pause_no_time_is_trusted_and_none_of_it_counts() -> None:
    leader = Leader(log_with("s")).proven()
    leader.pass_to(10)
    leader.clock.stood_ns, leader.clock.is_trusted = 60 * SECOND, False
    leader.at = 90  # ten seconds after it woke, and nobody has confirmed that it leads
    assert of(leader.settle(), ProposeInTerm) == []
    leader.clock.is_trusted = True
    leader.pass_to(90.1)
    assert leader.log.sessions == []

    leader = Leader(log_with("s")).proven()
    leader.pass_to(10)
    leader.clock.stood_ns = 60 * SECOND
    leader.pass_to(79.9)
    assert leader.log.sessions == ["s"]


def test_b15_a_dead_session_ends_within_the_bound_though_the_leader_changes_all_the_time() -> None:
    """20 changes inside one TTL of 61 s: 2 x TTL, and 10 s for each change."""
    log, at = log_with("dead", "live", ttl="61s", ttl_ms=61_000), 0.0
    for term in range(1, 22):
        leader = Leader(log, term=term, at=at).proven()
        leader.pass_to(at + 0.5)
        assert leader.renewed("live") == ["live"]
        at += 3
        leader.pass_to(at)
    assert log.sessions == ["dead", "live"]
    while "dead" in log.sessions:
        at += 10
        leader.pass_to(at)
        leader.renewed("live")
    assert log.sessions == ["live"]
    assert at < 2 * 61 + 20 * 10


# What is left of long sessions.


def long_session(**changes: object) -> Log:
    return log_with("s", ttl="100s", ttl_ms=100_000, **changes)


def notes(effects: list[object]) -> list[NoteRemaining]:
    commands = [effect.command for effect in effects if isinstance(effect, ProposeInTerm)]
    return [command for command in commands if isinstance(command, NoteRemaining)]


def test_what_is_left_of_a_long_session_is_noted_every_five_seconds() -> None:
    leader = Leader(long_session()).proven()
    assert notes([*leader.pass_to(10)]) == [
        NoteRemaining((("s", 195_000),), 1),
        NoteRemaining((("s", 190_000),), 1),
    ]


def test_of_a_ttl_of_a_minute_nothing_is_noted() -> None:
    leader = Leader(log_with("s", ttl="60s", ttl_ms=60_000)).proven()
    assert leader.pass_to(100) == []


def test_a_new_leader_gives_a_long_session_what_was_noted() -> None:
    log = long_session()
    Leader(log).proven().pass_to(52)
    assert log.machine.sessions.all()[0].remaining_ms == 150_000
    successor = Leader(log, term=2, at=60).proven()
    successor.pass_to(209.9)
    assert log.sessions == ["s"]
    successor.pass_to(210)
    assert log.sessions == []


def test_a_new_leader_gives_it_five_seconds_at_least() -> None:
    log = long_session()
    Leader(log).proven().pass_to(199)
    assert log.machine.sessions.all()[0].remaining_ms == 5_000
    log.apply(NoteRemaining((("s", 1_000),), 1), 1)
    successor = Leader(log, term=2, at=200).proven()
    successor.pass_to(204.9)
    assert log.sessions == ["s"]
    successor.pass_to(205)
    assert log.sessions == []


def test_noted_renewed_and_acknowledged_then_the_leader_dies_and_it_is_not_ended_early() -> None:
    """Forty seconds are noted, it is renewed, and 42 s later it is well."""
    log = long_session()
    leader = Leader(log).proven()
    leader.pass_to(160)
    assert log.machine.sessions.all()[0].remaining_ms == 40_000
    assert leader.renewed("s") == ["s"]
    successor = Leader(log, term=2, at=161).proven()
    successor.pass_to(202)
    assert log.sessions == ["s"]
    successor.pass_to(360.9)
    assert log.sessions == ["s"]


def test_a_note_is_taken_back_in_the_log_before_the_renewal_is_acknowledged() -> None:
    leader = Leader(long_session()).proven()
    leader.pass_to(6)
    leader.renew("s")
    asked = one(leader.tick(), ConfirmLeadership)
    assert leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True)) == []
    taken_back = one(leader.tick(), ProposeInTerm)
    assert taken_back.command == NoteRemaining((("s", None),), 1)
    assert one(leader.commit(taken_back), AnswerRenewals).outcome == [leader.log.machine.sessions.get("s")]


def test_a_note_on_its_way_into_the_log_is_taken_back_as_well() -> None:
    leader = Leader(long_session()).proven()
    leader.at = 5
    note = one(leader.tick(), ProposeInTerm)
    assert note.command == NoteRemaining((("s", 195_000),), 1)
    leader.renew("s")
    asked = one(leader.tick(), ConfirmLeadership)
    leader.report(LeadershipConfirmed(asked.ticket, is_confirmed=True))
    taken_back = one(leader.tick(), ProposeInTerm)
    leader.commit(note)
    assert one(leader.commit(taken_back), AnswerRenewals)
    assert leader.log.machine.sessions.all()[0].remaining_ms is None


def test_what_is_noted_while_another_note_is_taken_back_is_of_the_renewed_time() -> None:
    """Else: 3 s are noted after the renewal, it is acknowledged, and another leader gives it 5 s."""
    leader = Leader(long_session()).proven()
    leader.pass_to(191)
    leader.renew("s")
    leader.do(one(leader.tick(), ConfirmLeadership))
    taken_back = one(leader.tick(), ProposeInTerm)
    leader.at = 196
    note = one(leader.tick(), ProposeInTerm)
    leader.commit(taken_back)
    leader.commit(note)
    assert note.command == NoteRemaining((("s", 195_000),), 1)


def test_a_renewal_of_what_the_log_cannot_take_back_waits() -> None:
    leader = Leader(long_session()).proven()
    leader.pass_to(6)
    leader.renew("s")
    leader.do(one(leader.tick(), ConfirmLeadership))
    refused = one(leader.tick(), ProposeInTerm)
    assert leader.report(ProposalEnded(refused.ticket, is_applied=False)) == []
    assert of(leader.tick(), ProposeInTerm) == []
    assert one(leader.pass_to(7.1), AnswerRenewals).outcome == [leader.log.machine.sessions.get("s")]


# Many.


def test_ten_thousand_that_die_at_once_are_ended_in_entries_of_250() -> None:
    log = Log()
    log.create(*(session(f"{number:05}") for number in range(10_000)))
    leader = Leader(log).proven()
    leader.settle()
    leader.at = 21
    first = of(leader.settle(), ProposeInTerm)
    expiries = [effect.command for effect in first if isinstance(effect.command, ExpireSessions)]
    assert [len(command.sessions) for command in expiries] == [250, 250, 250, 250]
    for effect in first:
        leader.commit(effect)
    leader.pass_to(30)
    assert log.sessions == []
    assert leader.keeper.counters.expiries == 40
    assert leader.keeper.counters.lines_dropped > 9_000


def test_an_entry_frees_a_thousand_keys_or_those_of_one_session() -> None:
    log = log_with("a", "b", "c", "d")
    for each, count in (("a", 600), ("b", 400), ("c", 1), ("d", 1_500)):
        log.hold(each, count)
    leader = Leader(log).proven()
    leader.at = 20
    ended = [effect.command for effect in of(leader.tick(), ProposeInTerm)]
    assert ended == [
        ExpireSessions((("a", 0), ("b", 0)), 1),
        ExpireSessions((("c", 0),), 1),
        ExpireSessions((("d", 0),), 1),
    ]


def test_what_a_client_destroyed_is_forgotten() -> None:
    leader = Leader(log_with("s")).proven()
    assert leader.keeper.with_ttl == 1
    leader.log.apply(ExpireSessions((("s", 0),), 1), 1)
    leader.report(SessionsApplied())
    leader.settle()
    assert leader.keeper.with_ttl == 0
    assert leader.pass_to(100) == []
