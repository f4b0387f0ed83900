"""The atlas asks for what can be survived, and remembers what it allowed."""

from __future__ import annotations

from adsum.raft.types import Configuration, MemberId
from adsum.testing.fault_atlas import FaultAtlas

A, B, C, D, E = (MemberId(name, "log") for name in "abcde")


def atlas_of(*configurations: Configuration) -> FaultAtlas:
    return FaultAtlas(lambda: configurations)


def test_a_quorum_is_never_harmed() -> None:
    atlas = atlas_of(Configuration((A, B, C, D, E)))
    assert [atlas.may_harm(member) for member in (A, A, B, C, D)] == [True, True, True, False, False]
    atlas.healed(A)
    assert atlas.may_harm(E)
    assert list(atlas.harmed) == [B, E]


def test_of_two_nobody_may_be_harmed() -> None:
    assert not atlas_of(Configuration((A, B))).may_harm(A)


def test_who_has_no_vote_may_always_be_harmed() -> None:
    assert atlas_of(Configuration((A, B), learners=(C,))).may_harm(C)


def test_both_halves_of_a_joint_membership_keep_a_quorum() -> None:
    atlas = atlas_of(Configuration((A, B, C), (C, D)))
    assert atlas.may_harm(A)
    assert not atlas.may_harm(D)


def test_every_membership_that_may_come_into_force_counts() -> None:
    atlas = atlas_of(Configuration((A, B, C)), Configuration((A, B)))
    assert not atlas.may_harm(A)
    assert atlas.may_harm(C)


def test_who_is_missing_and_who_is_harmed_count_together() -> None:
    atlas = atlas_of(Configuration((A, B, C)))
    assert atlas.may_miss([B])
    assert atlas.may_harm(A)
    assert not atlas.may_miss([B])
    assert not atlas.allows(Configuration((A, B)))
    assert atlas.allows(Configuration((B, C)))
