from __future__ import annotations

import pytest

from adsum.consensus import waiting
from adsum.consensus.errors import NoLeader, OutcomeUnknown, Superseded
from adsum.consensus.waiting import Answers, Proposals, WaitingReads
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
