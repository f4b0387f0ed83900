from __future__ import annotations

import pytest

from adsum.consensus import waiting
from adsum.consensus.errors import NoLeader, OutcomeUnknown, Superseded
from adsum.consensus.waiting import Answers, Proposals, WaitingReads
from adsum.now import MILLISECOND
from adsum.raft.errors import NotLeader, TooManyReads
from adsum.raft.reads import ConfirmedRead
from adsum.raft.types import Entry, EntryKind, Position, Term


def entry(index: int, term: int) -> Entry:
    return Entry(index, Term(term), EntryKind.COMMAND, 0, 1, None, b"")


def kinds(answers: Answers) -> list[tuple[str, type]]:
    return [(token, type(outcome)) for token, outcome in answers]


def test_a_proposal_is_answered_when_its_entry_is_applied() -> None:
    proposals, answers = Proposals(), Answers()
    proposals.add(Position(5, Term(2)), "mine", answers)
    proposals.applied(entry(4, 2), b"another's", answers)
    proposals.applied(entry(5, 2), b"said", answers)
    assert answers == [("mine", b"said")]
    assert len(proposals) == 0


def test_an_entry_of_another_term_in_its_place_proves_that_nothing_happened() -> None:
    proposals, answers = Proposals(), Answers()
    proposals.add(Position(5, Term(2)), "mine", answers)
    proposals.applied(entry(5, 3), b"another's", answers)
    assert kinds(answers) == [("mine", Superseded)]


@pytest.mark.parametrize("how", ["passed by a snapshot", "its place was given away", "the server stopped"])
def test_where_nobody_can_tell_nobody_does(how: str) -> None:
    proposals, answers = Proposals(), Answers()
    proposals.add(Position(5, Term(2)), "mine", answers)
    match how:
        case "passed by a snapshot":
            proposals.passed(5, answers)
        case "its place was given away":
            proposals.add(Position(5, Term(3)), "another", answers)
        case _:
            proposals.end(OutcomeUnknown(how), answers)
    assert kinds(answers) == [("mine", OutcomeUnknown)]


def test_reads_that_come_together_are_one_question_and_wait_for_the_state_machine() -> None:
    reads, asked, answers = WaitingReads(), list[int](), Answers()
    reads.add("first")
    reads.add("second")
    reads.ask(asked.append, answers)
    assert len(asked) == 1
    reads.confirmed(ConfirmedRead(asked[0], 7))
    reads.applied(6, answers)
    assert answers == []
    reads.applied(7, answers)
    assert answers == [("first", 7), ("second", 7)]
    assert len(reads) == 0


class Quorum:
    """It `AsksQuorum`: a test says when it has answered."""

    def __init__(self) -> None:
        self.is_leader = True
        self.is_asking = False
        self.asked: list[int] = []
        self.everybody = 0

    def read_index(self, context: int) -> None:
        self.asked.append(context)
        self.is_asking = True

    def ask_everybody(self) -> None:
        self.everybody += 1


def test_while_a_question_is_under_way_reads_gather_for_the_next() -> None:
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    reads.add("first")
    reads.take_turn(quorum, 0, answers)
    turn = reads.turn
    for token in ("second", "third"):
        reads.add(token)
        reads.take_turn(quorum, 2 * MILLISECOND, answers)
    assert (quorum.asked, reads.turn) == ([1], turn)
    quorum.is_asking = False
    reads.confirmed(ConfirmedRead(1, 7))
    reads.take_turn(quorum, 2 * MILLISECOND, answers)
    reads.applied(7, answers)
    assert answers == [("first", 7)]
    reads.take_turn(quorum, 2 * MILLISECOND, answers)
    reads.confirmed(ConfirmedRead(2, 7))
    reads.applied(7, answers)
    assert answers == [("first", 7), ("second", 7), ("third", 7)]
    assert (quorum.asked, reads.turn, quorum.everybody) == ([1, 2], turn + 1, 0)


def test_whoever_was_answered_and_asks_again_at_once_joins_the_next_question() -> None:
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    reads.add("first")
    reads.take_turn(quorum, 0, answers)
    reads.add("second")
    quorum.is_asking = False
    reads.confirmed(ConfirmedRead(1, 7))
    turn = reads.turn
    reads.take_turn(quorum, 0, answers)
    assert (reads.lets_join, quorum.asked, reads.turn) == (True, [1], turn)
    reads.add("first again")
    reads.take_turn(quorum, 0, answers)
    assert (reads.lets_join, quorum.asked, reads.turn) == (False, [1, 2], turn + 1)
    reads.confirmed(ConfirmedRead(2, 8))
    reads.applied(8, answers)
    assert answers == [("first", 7), ("second", 8), ("first again", 8)]


def test_nobody_joins_those_who_gathered_at_a_leader_that_leads_no_more() -> None:
    """Whoever comes now is asked about elsewhere, at once."""
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    reads.add("first")
    reads.take_turn(quorum, 0, answers)
    reads.add("second")
    turn = reads.turn
    quorum.is_leader = quorum.is_asking = False
    reads.take_turn(quorum, 0, answers)
    assert (reads.lets_join, reads.turn) == (False, turn + 1)


def test_a_read_that_comes_when_all_were_answered_is_asked_about_in_its_own_turn() -> None:
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    for number, token in enumerate(("first", "second"), 1):
        reads.add(token)
        reads.take_turn(quorum, 0, answers)
        assert quorum.asked[-1] == number
        quorum.is_asking = False
        reads.confirmed(ConfirmedRead(number, 7))
        reads.take_turn(quorum, 0, answers)
        assert not reads.lets_join


def test_where_the_quorum_is_late_everybody_is_asked_once_and_those_that_come_wait_for_nothing() -> None:
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    reads.add("first")
    reads.take_turn(quorum, 0, answers)
    due_ns = [reads.late_ns]
    for time_ms in (3, 4):
        reads.take_turn(quorum, time_ms * MILLISECOND, answers)
        assert (quorum.asked, quorum.everybody) == ([1], 1)
        due_ns.append(reads.late_ns)
    reads.add("second")
    reads.take_turn(quorum, 5 * MILLISECOND, answers)
    assert (quorum.asked, quorum.everybody) == ([1, 2], 2)
    due_ns.append(reads.late_ns)
    assert due_ns == [3 * MILLISECOND, None, None, 8 * MILLISECOND]
    assert (reads.counters.asked, reads.counters.late) == (2, 2)


def test_the_turn_moves_with_every_question_and_whenever_nothing_is_asked() -> None:
    """So whoever asks another server joins nobody who has done so."""
    reads, quorum, answers = WaitingReads(), Quorum(), Answers()
    turns = []
    for _ in range(2):
        reads.take_turn(quorum, 0, answers)
        turns.append(reads.turn)
    reads.add("first")
    reads.take_turn(quorum, 0, answers)
    turns.append(reads.turn)
    assert turns == [1, 2, 3]


def test_with_leadership_go_the_reads_that_were_not_confirmed_and_no_others() -> None:
    reads, asked, answers = WaitingReads(), list[int](), Answers()
    reads.add("sure")
    reads.ask(asked.append, answers)
    reads.confirmed(ConfirmedRead(asked[0], 7))
    reads.add("unsure")
    reads.ask(asked.append, answers)
    reads.lost(answers)
    assert kinds(answers) == [("unsure", NoLeader)]
    reads.applied(7, answers)
    assert answers[1:] == [("sure", 7)]


def test_what_the_core_refuses_it_refuses_all_that_gathered() -> None:
    reads, answers = WaitingReads(), Answers()

    def refuse(_context: int) -> None:
        raise NotLeader("another one leads")

    reads.add("first")
    reads.add("second")
    reads.ask(refuse, answers)
    assert kinds(answers) == [("first", NotLeader), ("second", NotLeader)]


def test_more_reads_than_the_api_has_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "READS_MAX", 2)
    reads = WaitingReads()
    for number in range(2):
        reads.add(number)
    with pytest.raises(TooManyReads):
        reads.add(3)
