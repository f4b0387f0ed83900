"""Reads confirmed by rounds of heartbeats."""

from __future__ import annotations

import pytest

from adsum.raft.reads import ConfirmedRead, ReadRounds


def test_a_read_is_confirmed_by_a_round_sent_after_it() -> None:
    reads = ReadRounds()
    reads.next_round()
    reads.ask(7, 40)
    assert reads.wants_round
    assert reads.confirm(1) == []
    assert reads.next_round() == 2
    assert not reads.wants_round
    assert reads.confirm(2) == [ConfirmedRead(7, 40)]
    assert len(reads) == 0


def test_a_round_is_under_way_from_when_it_is_sent_until_it_is_answered() -> None:
    reads = ReadRounds()
    reads.ask(1, 40)
    assert not reads.is_under_way
    reads.next_round()
    assert reads.is_under_way
    reads.ask(2, 41)
    reads.confirm(1)
    assert not reads.is_under_way


def test_reads_between_two_rounds_share_the_next() -> None:
    reads = ReadRounds()
    reads.ask(1, 40)
    reads.ask(2, 41)
    reads.next_round()
    reads.ask(3, 42)
    assert reads.confirm(1) == [ConfirmedRead(1, 40), ConfirmedRead(2, 41)]


def test_a_later_round_confirms_every_read_before_it() -> None:
    reads = ReadRounds()
    reads.ask(1, 40)
    reads.next_round()
    reads.ask(2, 41)
    reads.next_round()
    assert reads.confirm(2) == [ConfirmedRead(1, 40), ConfirmedRead(2, 41)]


def test_b10_a_read_before_the_terms_first_commit_waits_for_it() -> None:
    reads = ReadRounds()
    reads.ask(1, None)
    reads.next_round()
    assert not reads.wants_round
    assert reads.confirm(1) == []
    reads.begin(9)
    assert reads.wants_round
    reads.next_round()
    assert reads.confirm(2) == [ConfirmedRead(1, 9)]


def test_nobody_answers_a_heartbeat_that_was_never_sent() -> None:
    with pytest.raises(AssertionError, match="never sent"):
        ReadRounds().confirm(1)
