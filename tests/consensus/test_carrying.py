"""What the two ends decide, step by step; `tests/servers/test_carrying.py` has them on files, with a line
between."""

from __future__ import annotations

import pytest

from adsum.consensus.carrying import (
    AbandonPart,
    CallBegin,
    CallPiece,
    CallTrouble,
    CarryCounters,
    CarryOutcome,
    FileInPlace,
    FileOvertaken,
    FinishPart,
    OpenOwnFile,
    OpenPart,
    PauseCarrying,
    ReceiveTrouble,
    ReceivingCore,
    TakePiece,
    WantedNext,
    bringing,
    meaning_of,
)
from adsum.now import MILLISECOND
from adsum.raft.messages import MessageStamp, SnapshotOffer
from adsum.raft.types import Configuration, MemberId, SnapshotMeta, SnapshotRef, Term

A, B = MemberId("a", "log-a"), MemberId("b", "log-b")
META = SnapshotMeta(40, Term(3), Configuration(voters=(A, B)), 1_000, 1, 0)
OFFER = SnapshotOffer(MessageStamp("cluster", 0), A, B, Term(5), 44, META)
REF = SnapshotRef(40, Term(3), 20, b"sha")
FIRST, LAST = TakePiece(0, 1, b"0123456789"), TakePiece(10, 1, b"0123456789")


def ended(steps: object, *turns: tuple[object, object]) -> object:
    """Each step that is expected, with what comes of it; returns how it ended."""
    result: object = None
    for expected, next_result in turns:
        assert steps.send(result) == expected  # type: ignore[attr-defined]
        result = next_result
    with pytest.raises(StopIteration) as stop:
        steps.send(result)  # type: ignore[attr-defined]
    return stop.value.value


def test_a_file_is_brought_piece_by_piece_as_the_receiver_wants_it() -> None:
    steps = bringing(REF, CarryCounters())
    turns = [(OpenOwnFile(), 20), (CallBegin(), 0), (CallPiece(0), 10), (CallPiece(10), 20)]
    assert ended(steps, *turns) is CarryOutcome.ARRIVED


def test_after_a_lost_call_the_receiver_is_asked_where_it_stands_a_little_later() -> None:
    steps = bringing(REF, CarryCounters())
    turns = [
        *[(OpenOwnFile(), 20), (CallBegin(), 0), (CallPiece(0), CallTrouble.LOST)],
        *[(PauseCarrying(200 * MILLISECOND), None), (CallBegin(), 10), (CallPiece(10), 20)],
    ]
    assert ended(steps, *turns) is CarryOutcome.ARRIVED


def test_what_a_restarted_receiver_has_not_kept_is_sent_again() -> None:
    """It keeps what was synced: many pieces fewer than it had, and none of them is a failure."""
    ref = SnapshotRef(40, Term(3), 90, b"sha")
    once = [(CallPiece(offset), offset + 10) for offset in range(0, 70, 10)]
    turns = [
        *[(OpenOwnFile(), 90), (CallBegin(), 0), *once, (CallPiece(70), CallTrouble.LOST)],
        *[(PauseCarrying(200 * MILLISECOND), None), (CallBegin(), 0), *once],
        *[(CallPiece(70), 80), (CallPiece(80), 90)],
    ]
    assert ended(bringing(ref, CarryCounters()), *turns) is CarryOutcome.ARRIVED


def test_a_receiver_that_is_restarted_again_and_again_is_given_up() -> None:
    lost = [
        turn
        for pause_ms in (800, 2000)
        for turn in (
            *[(CallBegin(), 0), (CallPiece(0), 10), (CallPiece(10), CallTrouble.LOST)],
            (PauseCarrying(pause_ms * MILLISECOND), None),
        )
    ]
    first = [(CallPiece(0), 10), (CallPiece(10), CallTrouble.LOST), (PauseCarrying(200 * MILLISECOND), None)]
    turns = [(OpenOwnFile(), 20), (CallBegin(), 0), *first, *lost]
    assert ended(bringing(REF, CarryCounters()), *turns) is CarryOutcome.FAILED


def test_five_failures_in_a_row_are_enough_each_after_a_longer_pause() -> None:
    lost = [
        turn
        for pause_ms in (200, 400, 800, 1600, 2000)
        for turn in ((CallBegin(), CallTrouble.LOST), (PauseCarrying(pause_ms * MILLISECOND), None))
    ]
    assert ended(bringing(REF, CarryCounters()), (OpenOwnFile(), 20), *lost) is CarryOutcome.FAILED


def test_a_receiver_that_takes_nothing_is_given_up() -> None:
    refused = [(CallPiece(0), 0)] * 5
    turns = [(OpenOwnFile(), 20), (CallBegin(), 0), *refused]
    assert ended(bringing(REF, CarryCounters()), *turns) is CarryOutcome.FAILED


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (CallTrouble.DECLINED, CarryOutcome.FAILED),
        (CallTrouble.DAMAGED, CarryOutcome.DOUBTFUL),
        (CallTrouble.UNREADABLE, CarryOutcome.DOUBTFUL),
    ],
)
def test_what_asking_again_cannot_mend_ends_it(trouble: CallTrouble, outcome: CarryOutcome) -> None:
    turns = [(OpenOwnFile(), 20), (CallBegin(), 0), (CallPiece(0), trouble)]
    assert ended(bringing(REF, CarryCounters()), *turns) is outcome


@pytest.mark.parametrize("length", [None, 19])
def test_a_file_that_is_gone_or_of_another_length_is_doubtful(length: int | None) -> None:
    assert ended(bringing(REF, CarryCounters()), (OpenOwnFile(), length)) is CarryOutcome.DOUBTFUL


def test_the_codes_of_a_refusal_mean_what_the_receiver_meant() -> None:
    assert [meaning_of(code) for code in ("again", "damaged", "full", "broken")] == [
        *(CallTrouble.LOST, CallTrouble.DAMAGED, CallTrouble.DECLINED, CallTrouble.DECLINED)
    ]


def test_a_received_file_is_finished_with_its_last_piece_and_again_where_the_answer_was_lost() -> None:
    core = ReceivingCore(CarryCounters())
    assert ended(core.begin(OFFER, REF, 0), (OpenPart(REF), 0)) == WantedNext(0)
    assert ended(core.piece(b"sha", FIRST, 0), (FIRST, 10)) == WantedNext(10)
    last = ended(core.piece(b"sha", LAST, 0), (LAST, 20), (FinishPart(), META))
    assert last == ended(core.begin(OFFER, REF, 0)) == FileInPlace(OFFER, REF)


def test_a_file_of_another_snapshot_than_was_offered_is_damaged() -> None:
    core = ReceivingCore(CarryCounters())
    other = SnapshotMeta(40, Term(3), Configuration(voters=(B,)), 1_000, 1, 0)
    assert ended(core.begin(OFFER, REF, 0), (OpenPart(REF), 10)) == WantedNext(10)
    assert ended(core.piece(b"sha", LAST, 0), (LAST, 20), (FinishPart(), other)) is ReceiveTrouble.DAMAGED
    assert ended(core.piece(b"sha", LAST, 0)) is ReceiveTrouble.AGAIN


def test_what_is_committed_already_is_not_taken_back() -> None:
    core = ReceivingCore(CarryCounters())
    assert ended(core.begin(OFFER, REF, 40)) == FileOvertaken(OFFER, REF)
    assert ended(core.begin(OFFER, REF, 39), (OpenPart(REF), 0)) == WantedNext(0)
    assert ended(core.piece(b"sha", FIRST, 40), (AbandonPart(), None)) == FileOvertaken(OFFER, REF)


def test_a_full_disk_leaves_what_has_come() -> None:
    core = ReceivingCore(CarryCounters())
    assert ended(core.begin(OFFER, REF, 0), (OpenPart(REF), ReceiveTrouble.FULL)) is ReceiveTrouble.FULL
    assert ended(core.begin(OFFER, REF, 0), (OpenPart(REF), 10)) == WantedNext(10)
    assert ended(core.piece(b"sha", LAST, 0), (LAST, ReceiveTrouble.FULL)) is ReceiveTrouble.FULL
    assert ended(core.begin(OFFER, REF, 0), (OpenPart(REF), 10)) == WantedNext(10)
