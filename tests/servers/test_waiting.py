from __future__ import annotations

import pytest

from adsum.raft.errors import NotLeader, TooManyReads
from adsum.raft.reads import ConfirmedRead
from adsum.raft.types import Entry, EntryKind, Position, Term
from adsum.servers import waiting
from adsum.servers.errors import NoLeader, OutcomeUnknown, Superseded
from adsum.servers.waiting import Proposals, WaitingReads


def entry(index: int, term: int) -> Entry:
    return Entry(index, Term(term), EntryKind.COMMAND, 0, 1, None, b"")


def test_a_proposal_is_answered_when_its_entry_is_applied() -> None:
    proposals, told = Proposals(), list[bytes | Exception]()
    proposals.add(Position(5, Term(2)), told.append)
    proposals.applied(entry(4, 2), b"another's")
    proposals.applied(entry(5, 2), b"mine")
    assert told == [b"mine"]
    assert len(proposals) == 0


def test_an_entry_of_another_term_in_its_place_proves_that_nothing_happened() -> None:
    proposals, told = Proposals(), list[bytes | Exception]()
    proposals.add(Position(5, Term(2)), told.append)
    proposals.applied(entry(5, 3), b"another's")
    assert [type(each) for each in told] == [Superseded]


@pytest.mark.parametrize("how", ["passed by a snapshot", "its place was given away", "the server stopped"])
def test_where_nobody_can_tell_nobody_does(how: str) -> None:
    proposals, told = Proposals(), list[bytes | Exception]()
    proposals.add(Position(5, Term(2)), told.append)
    match how:
        case "passed by a snapshot":
            proposals.passed(5)
        case "its place was given away":
            proposals.add(Position(5, Term(3)), lambda _outcome: None)
        case _:
            proposals.end(OutcomeUnknown(how))
    assert [type(each) for each in told] == [OutcomeUnknown]


def test_reads_that_come_together_are_one_question_and_wait_for_the_state_machine() -> None:
    reads, asked, told = WaitingReads(), list[int](), list[int | Exception]()
    reads.add(told.append)
    reads.add(told.append)
    reads.ask(asked.append)
    assert len(asked) == 1
    reads.confirmed(ConfirmedRead(asked[0], 7))
    reads.applied(6)
    assert told == []
    reads.applied(7)
    assert told == [7, 7]
    assert len(reads) == 0


def test_with_leadership_go_the_reads_that_were_not_confirmed_and_no_others() -> None:
    reads, asked = WaitingReads(), list[int]()
    sure, unsure = list[int | Exception](), list[int | Exception]()
    reads.add(sure.append)
    reads.ask(asked.append)
    reads.confirmed(ConfirmedRead(asked[0], 7))
    reads.add(unsure.append)
    reads.ask(asked.append)
    reads.lost()
    assert [type(each) for each in unsure] == [NoLeader]
    reads.applied(7)
    assert sure == [7]


def test_what_the_core_refuses_it_refuses_all_that_gathered() -> None:
    reads, told = WaitingReads(), list[int | Exception]()

    def refuse(_context: int) -> None:
        raise NotLeader("another one leads")

    reads.add(told.append)
    reads.add(told.append)
    reads.ask(refuse)
    assert [type(each) for each in told] == [NotLeader, NotLeader]


def test_more_reads_than_the_api_has_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "READS_MAX", 2)
    reads = WaitingReads()
    for _ in range(2):
        reads.add(lambda _outcome: None)
    with pytest.raises(TooManyReads):
        reads.add(lambda _outcome: None)
