"""Servers as processes, stopped and resumed from outside."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.proposers import Proposers
from tests.bench.raft import propose_once
from tests.bench.raft_member import FRAME
from tests.bench.raft_members import Members


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    made = Members(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def test_b10_b14_a_leader_that_was_stopped_answers_no_read_from_before(members: Members) -> None:
    proposers = Proposers(4)
    propose_once(members, proposers)
    before, door = members.leader()
    term = door.ask(b"S")["term"]
    members.send(before, signal.SIGSTOP)
    try:
        propose_once(members, proposers, besides=before)
        # It waits in the socket, and is the first thing that the old leader finds when it goes on.
        door.send(FRAME.pack(0, 1, b"R"))
    finally:
        members.send(before, signal.SIGCONT)
    _number, letter, content = door.receive()[0]
    assert letter == b"A"
    told = json.loads(content)
    assert told["term"] > term
    for proposer, acknowledged in enumerate(proposers.acknowledged):
        assert told["sequences"][str(proposer)] >= acknowledged
    assert [each["gaps"] for each in members.until_equal()] == [0, 0, 0]
    door.close()


def test_a_member_that_is_told_to_stop_hands_over_and_ends_well(members: Members) -> None:
    proposers = Proposers(4)
    propose_once(members, proposers)
    before, door = members.leader()
    door.close()
    members.send(before, signal.SIGTERM)
    assert members.wait(before) == 0
    propose_once(members, proposers, besides=before)
    members.start(before)
    assert [each["gaps"] for each in members.until_equal()] == [0, 0, 0]
