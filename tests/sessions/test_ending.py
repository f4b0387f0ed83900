"""Sessions end by what is seen of nodes and checks now, with evidence."""

from __future__ import annotations

from adsum.now import SECOND
from adsum.session import EndCause, Session
from adsum.sessions.effects import AskVerdict, ProposeInTerm
from adsum.sessions.reports import ProposalEnded, SessionsApplied, VerdictGiven
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, RecordsSeen
from adsum.store.commands import EndSessions
from tests.sessions.support import WEB, WEB_KEY, A, B, C, Leader, Log, SeenHosts, linked, of, one, session

FAILED = HostSeen(HostVerdict.FAILED, 5)
PRESENT = HostSeen(HostVerdict.PRESENT, 5)


def log_with(*sessions: Session) -> Log:
    log = Log()
    log.create(*sessions)
    return log


def failed(leader: Leader, generation: int = 5) -> None:
    leader.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.FAILED, generation)
    leader.moved()


def is_critical(leader: Leader, check_id: str = "web", *, version: int = 41, generation: int = 5) -> None:
    leader.sees.checks[WEB_KEY, check_id] = CheckSeen.CRITICAL
    leader.sees.copies[WEB_KEY] = RecordsSeen(generation, version, is_complete=True)
    leader.moved()


# Nodes.


def test_a_node_that_failed_ends_its_sessions_after_ten_seconds_when_another_voter_says_the_same() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    assert leader.pass_to(9.9) == []
    asked = one(leader.pass_to(10), AskVerdict)
    assert (asked.voter, asked.node_id) == (B, WEB)
    leader.report(VerdictGiven(asked.ticket, FAILED))
    ending = one(leader.settle(), ProposeInTerm)
    assert ending.command == EndSessions(
        ("s",),
        EndCause.NODE_FAILED,
        "node web (generation 5) failed: seen by SERVER-A for 10 s, and by SERVER-B",
        1,
    )


def test_another_voter_that_sees_it_alive_keeps_them_and_the_next_one_is_asked() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    first = one(leader.pass_to(10), AskVerdict)
    leader.report(VerdictGiven(first.ticket, PRESENT))
    second = one(leader.pass_to(11), AskVerdict)
    assert (first.voter, second.voter) == (B, C)
    leader.report(VerdictGiven(second.ticket, None))
    assert of(leader.pass_to(12), ProposeInTerm) == []
    assert leader.log.sessions == ["s"]
    assert leader.keeper.counters.verdicts_unlike == 2


def test_what_another_voter_says_of_an_earlier_life_is_not_the_same() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    asked = one(leader.pass_to(10), AskVerdict)
    leader.report(VerdictGiven(asked.ticket, HostSeen(HostVerdict.FAILED, 4)))
    assert of(leader.settle(), ProposeInTerm) == []


def test_the_only_voter_needs_nobody_else() -> None:
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    failed(leader)
    leader.pass_to(10.1)
    assert leader.log.end_of("s") == (
        EndCause.NODE_FAILED,
        "node web (generation 5) failed: seen by SERVER-A for 10 s, the only voter",
    )


def test_a_leader_that_is_cut_off_ends_nothing_and_observes_anew_when_it_is_back() -> None:
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    leader.sees.is_isolated = True
    failed(leader)
    assert leader.pass_to(60) == []
    leader.sees.is_isolated = False
    leader.pass_to(69.9)
    assert leader.log.sessions == ["s"]
    leader.pass_to(71)
    assert leader.log.sessions == []


def stand_still(leader: Leader, seconds: float) -> None:
    leader.at += seconds
    leader.clock.stood_ns += int(seconds * SECOND)


def test_a_pause_in_which_others_may_call_the_leader_failed_breaks_the_observation_off() -> None:
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    failed(leader)
    leader.pass_to(9)
    stand_still(leader, 1)
    leader.pass_to(19.9)
    assert leader.log.sessions == ["s"]
    leader.pass_to(21.1)
    assert leader.log.sessions == []


def test_a_leader_that_stutters_ends_the_sessions_of_a_node_that_failed() -> None:
    """By what it still sees when it was awake for two seconds."""
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    failed(leader)
    for second in (4, 9):
        leader.pass_to(second)
        stand_still(leader, 0.2)
    leader.pass_to(11.1)
    assert leader.log.sessions == ["s"]
    leader.pass_to(12.3)
    assert leader.log.sessions == []


def test_the_observation_itself_does_not_count_the_time_of_a_pause() -> None:
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    failed(leader)
    for second in (1, 2, 3, 4, 5):
        leader.pass_to(second)
        stand_still(leader, 0.9)
    leader.pass_to(14.4)
    assert leader.log.sessions == ["s"]
    leader.pass_to(15.6)
    assert leader.log.sessions == []


def test_what_another_voter_said_before_a_short_pause_is_asked_again_after_it() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    before = one(leader.pass_to(10), AskVerdict)
    stand_still(leader, 0.2)
    leader.report(VerdictGiven(before.ticket, FAILED))
    assert leader.pass_to(12.1) == []
    after = one(leader.pass_to(13.3), AskVerdict)
    leader.report(VerdictGiven(after.ticket, FAILED))
    leader.pass_to(13.4)
    assert leader.log.sessions == []


def test_what_was_agreed_on_before_a_short_pause_is_forgotten() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    asked = one(leader.pass_to(10), AskVerdict)
    leader.report(VerdictGiven(asked.ticket, FAILED))
    stand_still(leader, 0.2)
    assert of(leader.pass_to(12.1), ProposeInTerm) == []
    assert leader.log.sessions == ["s"]


def test_a_leader_dies_at_second_9_of_10_and_the_next_one_ends_what_it_sees() -> None:
    log, sees = log_with(linked()), SeenHosts()
    first = Leader(log, sees, voters=(A,)).proven()
    failed(first)
    first.pass_to(9)
    second = Leader(log, sees, me=B, voters=(B,), term=2, at=9).proven()
    second.pass_to(18.9)
    assert log.sessions == ["s"]
    second.pass_to(19.1)
    assert log.sessions == []


def test_a_node_that_comes_back_keeps_its_sessions() -> None:
    leader = Leader(log_with(linked()), voters=(A,)).proven()
    failed(leader)
    leader.pass_to(9.9)
    leader.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.PRESENT, 5)
    leader.moved()
    assert leader.pass_to(60) == []
    assert leader.log.sessions == ["s"]


def test_a_late_verdict_on_an_earlier_generation_does_not_end_a_fresh_session() -> None:
    leader = Leader(log_with(linked(generation=6)), voters=(A,)).proven()
    failed(leader, generation=5)
    leader.pass_to(60)
    assert leader.log.sessions == ["s"]
    failed(leader, generation=6)
    leader.pass_to(71)
    assert leader.log.sessions == []


def test_a_session_that_is_not_linked_to_the_node_s_health_outlives_its_failure() -> None:
    leader = Leader(log_with(session()), voters=(A,)).proven()
    leader.renewed("s")
    failed(leader)
    leader.pass_to(11)
    assert leader.log.sessions == ["s"]


def test_who_left_has_no_sessions() -> None:
    leader = Leader(log_with(session(ttl="", ttl_ms=0))).proven()
    leader.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.GONE, 5)
    leader.moved()
    leader.pass_to(0.1)
    assert leader.log.end_of("s") == (
        EndCause.NODE_GONE,
        "node web (generation 5) left, was deregistered, or was replaced",
    )


def test_who_left_in_an_earlier_life_and_is_not_known_to_be_back_has_not_left() -> None:
    leader = Leader(log_with(linked(generation=6))).proven()
    leader.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.GONE, 5)
    leader.moved()
    assert leader.pass_to(60) == []


def test_of_a_node_that_nobody_knows_nothing_follows() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    leader.sees.checks[WEB_KEY, "web"] = CheckSeen.MISSING
    del leader.sees.hosts[WEB_KEY]
    del leader.sees.copies[WEB_KEY]
    leader.moved()
    assert leader.pass_to(100) == []
    assert leader.log.sessions == ["s"]


def test_of_a_node_that_nobody_knows_whose_name_a_later_agent_has_its_sessions_end() -> None:
    """Whenever that is seen, and nobody has to tell."""
    leader = Leader(log_with(linked())).proven()
    del leader.sees.hosts[WEB_KEY]
    leader.moved()
    leader.sees.followed["web"] = 4
    leader.pass_to(60)
    assert leader.log.sessions == ["s"]
    leader.sees.followed["web"] = 7
    leader.pass_to(61.1)
    assert leader.log.end_of("s") == (
        EndCause.NODE_GONE,
        "node web is another agent by now (generation 7), and this one is known to nobody",
    )


def test_a_node_that_is_known_to_be_gone_only_after_a_while_ends_them_then() -> None:
    leader = Leader(log_with(linked())).proven()
    del leader.sees.hosts[WEB_KEY]
    leader.moved()
    leader.pass_to(10)
    leader.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.GONE, 5)
    leader.pass_to(11.1)
    assert leader.log.sessions == []


def test_a_session_without_a_node_is_judged_by_nobody() -> None:
    log = Log()
    log.machine.sessions.create(session(node="", node_id=b"", ttl="", ttl_ms=0), 1)
    leader = Leader(log).proven()
    assert leader.pass_to(100) == []
    assert leader.sees.looks == 0


# Checks.


def test_a_critical_check_ends_the_sessions_that_hang_on_it_with_its_evidence() -> None:
    leader = Leader(log_with(linked("s", "web"), linked("t", "db"))).proven()
    is_critical(leader, "web")
    leader.pass_to(0.1)
    assert leader.log.sessions == ["t"]
    assert leader.log.end_of("s") == (
        EndCause.CHECK_CRITICAL,
        "check web on node web (generation 5) is critical, at version 41 of its records",
    )


def test_a_check_goes_critical_between_a_create_s_proposal_and_its_application() -> None:
    leader = Leader(Log()).proven()
    is_critical(leader)
    leader.log.create(linked("s", "web"))
    leader.report(SessionsApplied())
    leader.pass_to(0.1)
    assert leader.log.sessions == []


def test_a_check_that_is_critical_when_another_takes_over_ends_them() -> None:
    log, sees = log_with(linked("s", "web")), SeenHosts()
    sees.checks[WEB_KEY, "web"] = CheckSeen.CRITICAL
    Leader(log, sees).proven().pass_to(0.1)
    assert log.sessions == []


def test_a_copy_from_before_the_session_says_nothing_until_it_has_caught_up() -> None:
    """And nobody has to tell when that is."""
    leader = Leader(log_with(linked("s", "web"))).proven()
    is_critical(leader, version=39)
    leader.pass_to(60)
    assert leader.log.sessions == ["s"]
    leader.sees.copies[WEB_KEY] = RecordsSeen(5, 40, is_complete=True)
    leader.pass_to(61.1)
    assert leader.log.sessions == []


def test_a_check_that_is_well_again_when_the_copy_has_caught_up_ended_nothing() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    is_critical(leader, version=39)
    leader.sees.checks[WEB_KEY, "web"] = CheckSeen.FINE
    leader.sees.copies[WEB_KEY] = RecordsSeen(5, 41, is_complete=True)
    leader.moved()
    assert leader.pass_to(60) == []


def test_a_flap_that_is_over_before_anything_is_proposed_ends_nothing() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    is_critical(leader)
    leader.sees.checks[WEB_KEY, "web"] = CheckSeen.FINE
    assert leader.pass_to(60) == []


def test_a_check_that_is_missing_in_an_older_copy_is_no_evidence() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    leader.sees.checks[WEB_KEY, "web"] = CheckSeen.MISSING
    leader.sees.copies[WEB_KEY] = RecordsSeen(5, 39, is_complete=True)
    leader.moved()
    assert leader.pass_to(100) == []


def test_a_check_that_was_deregistered_ends_them() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    leader.sees.checks[WEB_KEY, "web"] = CheckSeen.MISSING
    leader.moved()
    leader.pass_to(0.1)
    assert leader.log.end_of("s") == (
        EndCause.CHECK_GONE,
        "check web is none of node web (generation 5) any more, at version 40 of its records",
    )


def assert_a_missing_check_may_come_for_ten_seconds(log: Log, sees: SeenHosts) -> None:
    """Of two that are missing one comes after nine."""
    sees.checks[WEB_KEY, "web"] = sees.checks[WEB_KEY, "db"] = CheckSeen.MISSING
    leader = Leader(log, sees).proven()
    leader.pass_to(9)
    sees.checks[WEB_KEY, "web"] = CheckSeen.FINE
    leader.moved()
    leader.pass_to(9.9)
    assert log.sessions == ["s", "t"]
    leader.pass_to(100)
    assert log.sessions == ["s"]
    assert log.end_of("t")[0] is EndCause.CHECK_GONE


def test_a_check_of_an_agent_that_just_restarted_may_come_again_for_ten_seconds() -> None:
    log, sees = log_with(linked("s", "web"), linked("t", "db")), SeenHosts()
    sees.hosts[WEB_KEY] = HostSeen(HostVerdict.PRESENT, 6)
    sees.copies[WEB_KEY] = RecordsSeen(6, 3, is_complete=True)
    assert_a_missing_check_may_come_for_ten_seconds(log, sees)


def test_of_a_new_life_of_which_not_all_is_known_nothing_is_missing() -> None:
    log, sees = log_with(linked("s", "web")), SeenHosts()
    sees.copies[WEB_KEY] = RecordsSeen(6, 3, is_complete=False)
    sees.checks[WEB_KEY, "web"] = CheckSeen.MISSING
    assert Leader(log, sees).proven().pass_to(100) == []


def test_of_a_life_whose_records_nobody_showed_yet_a_check_may_come_for_ten_seconds() -> None:
    """Members knew of it where the session was accepted; what was shown there was of the life before."""
    log, sees = Log(), SeenHosts()
    log.create(linked("s", "web", records_version=0), linked("t", "db", records_version=0))
    sees.copies[WEB_KEY] = RecordsSeen(5, 1, is_complete=True)
    assert_a_missing_check_may_come_for_ten_seconds(log, sees)


def test_of_a_life_whose_records_nobody_showed_yet_nothing_is_missing_in_its_beginning() -> None:
    log, sees = log_with(linked("s", "web", records_version=0)), SeenHosts()
    sees.copies[WEB_KEY] = RecordsSeen(5, 3, is_complete=False)
    sees.checks[WEB_KEY, "web"] = CheckSeen.MISSING
    Leader(log, sees).proven().pass_to(100)
    assert log.sessions == ["s"]


def test_a_check_that_is_missing_on_a_node_without_an_agent_ends_them_at_once() -> None:
    """The store says so, on this very server."""
    router = (b"", "router")
    log, sees = Log(), SeenHosts()
    log.machine.sessions.create(
        session(node="router", node_id=b"", generation=0, records_version=0, node_checks=("ping",)), 1
    )
    sees.hosts[router] = HostSeen(HostVerdict.PRESENT)
    sees.copies[router] = RecordsSeen(0, 1, is_complete=True)
    sees.checks[router, "ping"] = CheckSeen.MISSING
    Leader(log, sees).proven().pass_to(0.1)
    assert log.end_of("s")[0] is EndCause.CHECK_GONE


def test_what_the_log_did_not_take_is_judged_and_proposed_again() -> None:
    leader = Leader(log_with(linked("s", "web"))).proven()
    is_critical(leader)
    ending = one(leader.settle(), ProposeInTerm)
    leader.report(ProposalEnded(ending.ticket, is_applied=False))
    assert of(leader.settle(), ProposeInTerm) == []
    leader.pass_to(1.2)
    assert leader.log.sessions == []


# Many.


def test_a_check_that_goes_critical_while_an_expiry_is_under_way_ends_what_the_log_did_not_take() -> None:
    leader = Leader(log_with(session(node_checks=("web",)))).proven()
    leader.at = 20
    expiry = one(leader.settle(), ProposeInTerm)
    is_critical(leader)
    assert of(leader.settle(), ProposeInTerm) == []
    leader.renew("s")
    leader.report(ProposalEnded(expiry.ticket, is_applied=False))
    leader.pass_to(21)
    assert leader.log.end_of("s")[0] is EndCause.CHECK_CRITICAL


def test_a_flip_costs_only_the_sessions_concerned() -> None:
    log, sees = Log(), SeenHosts()
    log.create(*(linked(f"other-{number}", "db") for number in range(1_000)), linked("s", "web"))
    leader = Leader(log, sees).proven()
    leader.settle()
    sees.looks = 0
    is_critical(leader, "web")
    leader.pass_to(0.1)
    assert len(log.sessions) == 1_000
    assert sees.looks < 10


def test_a_node_that_takes_ten_thousand_sessions_with_it_takes_forty_entries() -> None:
    log = Log()
    log.create(*(linked(f"{number:05}") for number in range(10_000)))
    leader = Leader(log, voters=(A,)).proven()
    failed(leader)
    endings = of(leader.pass_to(11), ProposeInTerm)
    assert log.sessions == []
    assert [len(each.command.ids) for each in endings if isinstance(each.command, EndSessions)] == [250] * 40


def test_verdicts_of_sixteen_nodes_are_asked_for_at_once() -> None:
    log, sees = Log(), SeenHosts()
    nodes = [bytes(15) + bytes([number]) for number in range(1, 41)]
    for place, node in enumerate(nodes):
        log.create(linked(f"{place:02}", node=f"n{place}", node_id=node))
        sees.hosts[node, ""] = HostSeen(HostVerdict.FAILED, 5)
    leader = Leader(log, sees).proven()
    asked = of(leader.pass_to(10), AskVerdict)
    assert len(asked) == 16
    for each in asked:
        leader.report(VerdictGiven(each.ticket, FAILED))
    assert len(of(leader.pass_to(11), AskVerdict)) == 16


def test_a_voter_that_did_not_answer_is_asked_again_only_after_others() -> None:
    """Else each failed node would wait for it, sixteen at once."""
    log, sees = Log(), SeenHosts()
    nodes = [bytes(15) + bytes([number]) for number in range(1, 41)]
    for place, node in enumerate(nodes):
        log.create(linked(f"{place:02}", node=f"n{place}", node_id=node))
        sees.hosts[node, ""] = HostSeen(HostVerdict.FAILED, 5)
    leader = Leader(log, sees).proven()
    first = of(leader.pass_to(10), AskVerdict)
    assert {each.voter for each in first} == {B}
    leader.at = 12
    for each in first:
        leader.report(VerdictGiven(each.ticket, None))
    second = of(leader.settle(), AskVerdict)
    assert (len(second), {each.voter for each in second}) == (16, {C})
    for each in second:
        leader.report(VerdictGiven(each.ticket, FAILED))
    third = of(leader.pass_to(13), AskVerdict)
    assert {each.voter for each in third} == {C}
    leader.pass_to(21.9)
    for each in third:
        leader.report(VerdictGiven(each.ticket, PRESENT))
    assert {each.voter for each in of(leader.pass_to(23), AskVerdict)} == {B, C}


def test_voters_none_of_which_answered_are_asked_in_turn() -> None:
    leader = Leader(log_with(linked())).proven()
    failed(leader)
    asked: list[str] = []
    for second in range(10, 14):
        ask = one(leader.pass_to(second), AskVerdict)
        asked.append(ask.voter)
        leader.report(VerdictGiven(ask.ticket, None))
    assert asked == [B, C, B, C]
