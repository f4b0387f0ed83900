"""How memberships change, and which changes are refused."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.raft.changer import (
    LEAVE_JOINT,
    MEMBERS_MAX,
    REMOVED_MAX,
    ChangeVerb,
    ConfigurationChange,
    Step,
    Transition,
    changed,
    check,
    decode_configuration,
    encode_configuration,
    left_joint,
    voters_moved,
)
from adsum.raft.errors import ChangeRefused
from adsum.raft.types import Configuration, MemberId
from tests.raft.support import A, B, C, D, E

THREE = Configuration(voters=(A, B, C))
WITH_LEARNERS = Configuration(voters=(A, B, C), learners=(D, E))


def change(
    *steps: tuple[ChangeVerb, MemberId], transition: Transition = Transition.AUTO
) -> ConfigurationChange:
    return ConfigurationChange(tuple(Step(verb, member) for verb, member in steps), transition)


def test_a_stranger_joins_as_learner() -> None:
    assert changed(THREE, change((ChangeVerb.LEARN, D))) == Configuration(voters=(A, B, C), learners=(D,))


def test_a_stranger_gets_no_vote() -> None:
    with pytest.raises(ChangeRefused, match="joins as a learner first"):
        changed(THREE, change((ChangeVerb.VOTE, D)))


def test_the_same_node_with_a_new_log_is_a_stranger() -> None:
    wiped = MemberId(A.node, "another log")
    with pytest.raises(ChangeRefused, match="joins as a learner first"):
        changed(THREE, change((ChangeVerb.LEAVE, A), (ChangeVerb.VOTE, wiped)))


def test_who_is_removed_is_remembered_until_another_step_names_it() -> None:
    after = changed(THREE, change((ChangeVerb.REMOVE, C)))
    assert after == Configuration(voters=(A, B), removed=(C,))
    assert decode_configuration(encode_configuration(after)) == after
    assert changed(after, change((ChangeVerb.LEARN, D))).removed == (C,)
    assert changed(after, change((ChangeVerb.LEARN, C))) == Configuration(voters=(A, B), learners=(C,))
    assert changed(after, change((ChangeVerb.LEAVE, C))) == Configuration(voters=(A, B))


def test_who_is_removed_by_a_joint_change_is_remembered_when_it_is_left() -> None:
    joint = changed(WITH_LEARNERS, change((ChangeVerb.VOTE, D), (ChangeVerb.REMOVE, A)))
    assert (joint.voters, joint.voters_outgoing, joint.removed) == ((B, C, D), (A, B, C), (A,))
    assert changed(joint, LEAVE_JOINT) == Configuration(voters=(B, C, D), learners=(E,), removed=(A,))


def test_of_those_removed_the_last_few_are_remembered() -> None:
    configuration = THREE
    strangers = [MemberId(f"stranger {number}", "log") for number in range(REMOVED_MAX + 2)]
    for stranger in strangers:
        configuration = changed(configuration, change((ChangeVerb.REMOVE, stranger)))
    assert configuration.removed == tuple(strangers[2:])


def test_one_voter_more_needs_no_joint_configuration() -> None:
    after = changed(WITH_LEARNERS, change((ChangeVerb.VOTE, D)))
    assert after == Configuration(voters=(A, B, C, D), learners=(E,))


def test_a_swap_of_voters_goes_through_a_joint_configuration() -> None:
    joint = changed(WITH_LEARNERS, change((ChangeVerb.VOTE, D), (ChangeVerb.LEAVE, A)))
    assert joint == Configuration(voters=(B, C, D), voters_outgoing=(A, B, C), learners=(E,), auto_leave=True)
    assert changed(joint, LEAVE_JOINT) == Configuration(voters=(B, C, D), learners=(E,))


def test_a_voter_that_becomes_a_learner_in_a_joint_change_waits_until_it_is_left() -> None:
    joint = changed(WITH_LEARNERS, change((ChangeVerb.VOTE, D), (ChangeVerb.LEARN, A), (ChangeVerb.LEARN, B)))
    assert joint.learners_next == (A, B)
    assert joint.learners == (E,)
    assert left_joint(joint) == Configuration(voters=(C, D), learners=(A, B, E))


def test_a_joint_change_that_was_asked_for_waits_to_be_left() -> None:
    explicit = change((ChangeVerb.LEAVE, A), transition=Transition.JOINT_EXPLICIT)
    assert not changed(THREE, explicit).auto_leave
    assert changed(THREE, explicit).is_joint


@pytest.mark.parametrize(
    ("configuration", "wanted", "sentence"),
    [
        (THREE, LEAVE_JOINT, "not joint"),
        (Configuration((A, B), (A, B, C)), change((ChangeVerb.LEARN, D)), "leave it first"),
        (
            THREE,
            change((ChangeVerb.LEAVE, A), (ChangeVerb.LEAVE, B), transition=Transition.SIMPLE),
            "2 voters move",
        ),
        (
            THREE,
            change((ChangeVerb.LEAVE, A), (ChangeVerb.LEAVE, B), (ChangeVerb.LEAVE, C)),
            "leave no voter",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    configuration: Configuration, wanted: ConfigurationChange, sentence: str
) -> None:
    with pytest.raises(ChangeRefused, match=sentence):
        changed(configuration, wanted)


def test_there_is_a_limit_to_members() -> None:
    crowd = tuple(Step(ChangeVerb.LEARN, MemberId(f"n{number:02}", "log")) for number in range(MEMBERS_MAX))
    with pytest.raises(ChangeRefused, match="more than 32 members"):
        changed(THREE, ConfigurationChange(crowd))


def test_a_learner_that_is_also_a_voter_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="no vote"):
        check(Configuration(voters=(A, B), learners=(A,)))


def test_equal_configurations_are_equal_bytes() -> None:
    assert encode_configuration(THREE) == encode_configuration(Configuration((A, B, C)))
    positional = [[["a", "log"], ["b", "log"], ["c", "log"]], [], [], [], False]
    assert encode_configuration(THREE) == cbor2.dumps(positional)


MEMBERS = [MemberId(name, "log") for name in "abcdef"]
steps = st.builds(Step, st.sampled_from(ChangeVerb), st.sampled_from(MEMBERS))
changes = st.builds(
    ConfigurationChange, st.lists(steps, min_size=1, max_size=5).map(tuple), st.sampled_from(Transition)
)


@given(st.lists(changes, max_size=12))
def test_whatever_is_asked_neighbouring_configurations_share_their_majorities(
    asked: list[ConfigurationChange],
) -> None:
    configuration = THREE
    for each in asked:
        try:
            after = changed(configuration, LEAVE_JOINT if configuration.is_joint else each)
        except ChangeRefused:
            continue
        check(after)
        if after.is_joint:
            assert after.voters_outgoing == configuration.voters
        elif configuration.is_joint:
            assert after.voters == configuration.voters
        else:
            assert voters_moved(configuration, after) <= 1
        assert decode_configuration(encode_configuration(after)) == after
        configuration = after


@given(st.lists(steps, min_size=1, max_size=5).map(tuple))
def test_joint_and_left_ends_where_the_simple_change_would(asked: tuple[Step, ...]) -> None:
    try:
        simple = changed(WITH_LEARNERS, ConfigurationChange(asked, Transition.SIMPLE))
    except ChangeRefused:
        return
    assert left_joint(changed(WITH_LEARNERS, ConfigurationChange(asked, Transition.JOINT))) == simple
