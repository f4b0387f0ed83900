"""Whom a leader lets go of, by literal standings of the members."""

from __future__ import annotations

from adsum.consensus.letting_go import DEAD_NS, LettingGo
from adsum.now import SECOND, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.progress import ProgressMode
from adsum.raft.status import PeerStatus, RaftStatus
from adsum.raft.types import Configuration, HardState, MemberId, Role, Term

A, B, C, D, E, F = (MemberId(name, "log") for name in "abcdef")
B_WIPED, C_WIPED = MemberId("b", "new"), MemberId("c", "new")


def status(
    voters: tuple[MemberId, ...], learners: tuple[MemberId, ...], answering: tuple[MemberId, ...]
) -> RaftStatus:
    """A leads."""
    peers = [
        PeerStatus(each, 1, ProgressMode.REPLICATE, each in answering, can_lead=True)
        for each in (*voters, *learners)
        if each != A
    ]
    return RaftStatus(
        role=Role.LEADER,
        leader=A,
        hard_state=HardState(Term(1), A, 1),
        first_index=1,
        last_index=1,
        stable=1,
        applied=1,
        configuration=Configuration(voters=voters, learners=learners),
        transferee=None,
        members=tuple(peers),
    )


def leaves(member: MemberId) -> ConfigurationChange:
    return ConfigurationChange((Step(ChangeVerb.LEAVE, member),))


class Looking:
    def __init__(self, *, removes_dead: bool = True, voters_min: int = 0) -> None:
        self.letting_go = LettingGo(removes_dead=removes_dead, voters_min=voters_min)

    def due(
        self,
        at_s: float,
        voters: tuple[MemberId, ...],
        silent: tuple[MemberId, ...],
        left: tuple[MemberId, ...] = (),
        said_alive: tuple[MemberId, ...] = (),
        learners: tuple[MemberId, ...] = (),
    ) -> list[ConfigurationChange]:
        """Gossip calls nobody alive unless told."""
        answering = tuple(each for each in (*voters, *learners) if each not in silent)
        alive = {each.node for each in said_alive}
        now, known = Now(int(at_s * SECOND), 0), status(voters, learners, answering)
        return self.letting_go.due(now, known, alive, {each.node for each in left})


def test_who_said_good_bye_goes_at_once() -> None:
    assert Looking().due(0, (A, B, C), silent=(C,), left=(C,)) == [leaves(C)]


def test_who_answers_stays_whatever_gossip_says() -> None:
    assert Looking().due(0, (A, B, C), silent=(), left=(C,)) == []


def test_whom_gossip_calls_alive_stays_however_long_it_does_not_answer() -> None:
    looking = Looking()
    for at_s in (0, 700):
        assert looking.due(at_s, (A, B, C), silent=(C,), said_alive=(C,)) == []


def test_the_dead_keep_their_vote_for_ten_minutes() -> None:
    looking = Looking()
    assert looking.due(0, (A, B, C), silent=(C,)) == []
    assert looking.due(DEAD_NS / SECOND - 1, (A, B, C), silent=(C,)) == []
    assert looking.due(DEAD_NS / SECOND, (A, B, C), silent=(C,)) == [leaves(C)]


def test_who_comes_back_has_ten_minutes_again() -> None:
    looking = Looking()
    looking.due(0, (A, B, C), silent=(C,))
    looking.due(500, (A, B, C), silent=())
    looking.due(501, (A, B, C), silent=(C,))
    assert looking.due(1_000, (A, B, C), silent=(C,)) == []
    assert looking.due(1_101, (A, B, C), silent=(C,)) == [leaves(C)]


def test_the_dead_go_at_once_when_somebody_votes_in_their_place() -> None:
    looking = Looking()
    assert looking.due(0, (A, B, C), silent=(C,)) == []
    assert looking.due(30, (A, B, C, D), silent=(C,)) == [leaves(C)]


def test_another_that_dies_too_is_no_replacement() -> None:
    looking = Looking()
    looking.due(0, (A, B, C, E), silent=(C,))
    assert looking.due(30, (A, B, C, D, E), silent=(C, D)) == []


def test_one_newcomer_takes_the_place_of_one() -> None:
    """A rack that reboots does not cost two votes because a server was added meanwhile."""
    looking = Looking()
    looking.due(0, (A, B, C, D, E), silent=(D, E))
    assert looking.due(30, (A, B, C, D, E, F), silent=(D, E)) == [leaves(D), leaves(E)]
    assert looking.due(31, (A, B, C, E, F), silent=(E,)) == []


def test_who_votes_again_after_a_wipe_takes_nobody_else_s_place() -> None:
    looking = Looking()
    looking.due(0, (A, B, C, D, E), silent=(C,))
    assert looking.due(30, (A, B_WIPED, C, D, E), silent=(C,)) == []


def test_the_former_self_of_who_answers_stays_whatever_gossip_says() -> None:
    """C was wiped and learns; its vote is for it, though D has come in the meantime."""
    looking = Looking()
    looking.due(0, (A, B, C), silent=(C,))
    assert looking.due(30, (A, B, C, D), silent=(C,), learners=(C_WIPED,)) == []


def test_nobody_goes_when_those_who_stay_could_not_decide() -> None:
    assert Looking().due(0, (A, B, C), silent=(B, C), left=(C,)) == []
    assert Looking().due(0, (A, B), silent=(B,), left=(B,)) == [leaves(B)]
    assert Looking(voters_min=3).due(0, (A, B, C), silent=(C,), left=(C,)) == []


def test_an_operator_may_keep_the_dead() -> None:
    looking = Looking(removes_dead=False)
    looking.due(0, (A, B, C), silent=(C,))
    assert looking.due(10_000, (A, B, C), silent=(C,)) == []
