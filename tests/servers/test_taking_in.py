from __future__ import annotations

from adsum.consensus.bootstrap import ServerStanding
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.types import Configuration, MemberId
from adsum.servers.taking_in import next_change

A, B, C, D = (MemberId(name, "log") for name in "abcd")
C_WIPED = MemberId("c", "new")
THREE = Configuration(voters=(A, B, C))


def standing(member: MemberId) -> ServerStanding:
    return ServerStanding(member, "dc1", 0, "", True)


def test_members_as_they_are_need_no_change() -> None:
    assert next_change(THREE, [standing(B), standing(C)], []) is None


def test_a_newcomer_learns_first() -> None:
    assert next_change(THREE, [standing(B), standing(D)], []) == ConfigurationChange(
        (Step(ChangeVerb.LEARN, D),)
    )


def test_a_learner_votes_when_it_is_ripe_and_has_answered() -> None:
    learning = Configuration(voters=(A, B, C), learners=(D,))
    assert next_change(learning, [standing(D)], []) is None
    assert next_change(learning, [], [D]) is None
    assert next_change(learning, [standing(D)], [D]) == ConfigurationChange((Step(ChangeVerb.VOTE, D),))


def test_the_former_self_of_a_wiped_server_leaves_when_the_new_one_votes() -> None:
    assert next_change(THREE, [standing(C_WIPED)], []) == ConfigurationChange(
        (Step(ChangeVerb.LEARN, C_WIPED),)
    )
    learning = Configuration(voters=(A, B, C), learners=(C_WIPED,))
    expected = ConfigurationChange((Step(ChangeVerb.VOTE, C_WIPED), Step(ChangeVerb.LEAVE, C)))
    assert next_change(learning, [standing(C_WIPED)], [C_WIPED]) == expected


def test_nothing_is_begun_in_the_middle_of_another_change() -> None:
    joint = Configuration(voters=(A, B), voters_outgoing=(A, B, C))
    assert next_change(joint, [standing(D)], []) is None
