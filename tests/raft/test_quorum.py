"""Majorities, and both halves of a joint configuration."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.raft.quorum import VoteOutcome, agreed, tally
from adsum.raft.types import Configuration, MemberId
from tests.raft.support import A, B, C, D, E

MEMBERS = [MemberId(name, "log") for name in "abcdefg"]
groups = st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True).map(lambda group: tuple(sorted(group)))
configurations = st.builds(Configuration, groups, st.just(()) | groups)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7], 7), ([7, 3], 3), ([7, 3, 5], 5), ([7, 3, 5, 1], 3), ([7, 3, 5, 1, 9], 5)],
)
def test_a_majority_has_reached_the_middle_value(values: list[int], expected: int) -> None:
    voters = tuple(MEMBERS[: len(values)])
    assert agreed(Configuration(voters), dict(zip(voters, values, strict=True))) == expected


def test_who_has_not_been_heard_has_reached_nothing() -> None:
    assert agreed(Configuration((A, B, C)), {A: 9}) == 0
    assert agreed(Configuration((A, B, C)), {A: 9, B: 4}) == 4


def test_a_joint_configuration_agrees_on_what_both_halves_do() -> None:
    joint = Configuration(voters=(A, B, C), voters_outgoing=(C, D, E))
    assert agreed(joint, {A: 9, B: 9, C: 9}) == 0
    assert agreed(joint, {A: 9, B: 8, C: 5, D: 4, E: 1}) == 4


def test_learners_count_for_nothing() -> None:
    configuration = Configuration(voters=(A, B, C), learners=(D, E))
    assert agreed(configuration, {A: 5, D: 5, E: 5}) == 0
    assert tally(configuration, {A: True, D: True, E: True}) is VoteOutcome.PENDING


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ({A: True}, VoteOutcome.PENDING),
        ({A: True, B: False}, VoteOutcome.PENDING),
        ({A: True, B: False, C: True}, VoteOutcome.WON),
        ({B: False, C: False}, VoteOutcome.LOST),
    ],
)
def test_an_election_among_three(votes: dict[MemberId, bool], expected: VoteOutcome) -> None:
    assert tally(Configuration((A, B, C)), votes) is expected


def test_a_joint_election_is_lost_with_one_half() -> None:
    joint = Configuration(voters=(A, B, C), voters_outgoing=(C, D, E))
    assert tally(joint, {A: True, B: True}) is VoteOutcome.PENDING
    assert tally(joint, {A: True, B: True, D: False, E: False}) is VoteOutcome.LOST
    assert tally(joint, {A: True, B: True, C: True, D: True}) is VoteOutcome.WON


def reached_by(configuration: Configuration, values: dict[MemberId, int], index: int) -> bool:
    """By definition: more than half of each half has it."""
    halves = [half for half in (configuration.voters, configuration.voters_outgoing) if half]
    return all(2 * sum(values.get(voter, 0) >= index for voter in half) > len(half) for half in halves)


@given(configurations, st.dictionaries(st.sampled_from(MEMBERS), st.integers(0, 9)))
def test_agreed_is_the_highest_that_more_than_half_have_reached(
    configuration: Configuration, values: dict[MemberId, int]
) -> None:
    assert agreed(configuration, values) == max(
        index for index in range(10) if reached_by(configuration, values, index)
    )


@given(configurations, st.dictionaries(st.sampled_from(MEMBERS), st.booleans()))
def test_an_outcome_is_pending_only_while_it_could_go_both_ways(
    configuration: Configuration, votes: dict[MemberId, bool]
) -> None:
    missing = [member for member in configuration.members() if member not in votes]
    outcomes = {
        tally(configuration, votes | dict(zip(missing, choice, strict=True)))
        for choice in product([True, False], repeat=len(missing))
    }
    now = tally(configuration, votes)
    assert (
        now in outcomes if now is not VoteOutcome.PENDING else {VoteOutcome.WON, VoteOutcome.LOST} <= outcomes
    )
    if now is not VoteOutcome.PENDING:
        assert outcomes == {now}


@given(groups, st.integers(0), st.integers(0))
def test_two_winners_share_a_voter(voters: tuple[MemberId, ...], first: int, second: int) -> None:
    def chosen(bits: int) -> dict[MemberId, bool]:
        return {voter: True for position, voter in enumerate(voters) if bits >> position & 1}

    configuration = Configuration(voters)
    won = [
        votes for votes in (chosen(first), chosen(second)) if tally(configuration, votes) is VoteOutcome.WON
    ]
    assert len(won) < 2 or any(voter in won[1] for voter in won[0])
