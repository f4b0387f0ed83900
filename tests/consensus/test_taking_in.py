from __future__ import annotations

from adsum.consensus.bootstrap import AliveServer, ServerStanding
from adsum.consensus.commands import ProposeChange
from adsum.consensus.effects import AskStanding, ChangeMembership, TakingInEffect
from adsum.consensus.reports import ChangeEnded, StandingAnswered
from adsum.consensus.settings import ServerSettings
from adsum.consensus.taking_in import TakingInCore, due_changes
from adsum.effects import LogLine, Severity
from adsum.now import MILLISECOND, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.errors import ChangeRefused
from adsum.raft.types import Configuration, MemberId
from tests.consensus.support import Bench, leading

A, B, C, D = (MemberId(name, "log") for name in "abcd")
C_WIPED = MemberId("c", "new")
THREE = Configuration(voters=(A, B, C))


def standing(member: MemberId) -> ServerStanding:
    return ServerStanding(member, "dc1", 0, "", True)


def test_members_as_they_are_need_no_change() -> None:
    assert due_changes(THREE, [standing(B), standing(C)], []) == []


def learn(member: MemberId, *former: MemberId) -> ConfigurationChange:
    return ConfigurationChange(
        (Step(ChangeVerb.LEARN, member), *(Step(ChangeVerb.LEAVE, each) for each in former))
    )


def vote(member: MemberId, *former: MemberId) -> ConfigurationChange:
    return ConfigurationChange(
        (Step(ChangeVerb.VOTE, member), *(Step(ChangeVerb.LEAVE, each) for each in former))
    )


def test_a_newcomer_learns_first() -> None:
    assert due_changes(THREE, [standing(B), standing(D)], []) == [learn(D)]


def test_a_learner_votes_when_it_is_ripe_and_has_answered() -> None:
    learning = Configuration(voters=(A, B, C), learners=(D,))
    assert due_changes(learning, [standing(D)], []) == []
    assert due_changes(learning, [], [D]) == []
    assert due_changes(learning, [standing(D)], [D]) == [vote(D)]


def test_newcomers_come_before_votes() -> None:
    learning = Configuration(voters=(A, B, C), learners=(D,))
    e = MemberId("e", "log")
    assert due_changes(learning, [standing(D), standing(e)], [D]) == [learn(e), vote(D)]


def test_the_former_self_of_a_wiped_server_leaves_when_the_new_one_votes() -> None:
    assert due_changes(THREE, [standing(C_WIPED)], []) == [learn(C_WIPED)]
    learning = Configuration(voters=(A, B, C), learners=(C_WIPED,))
    assert due_changes(learning, [standing(C_WIPED)], [C_WIPED]) == [vote(C_WIPED, C)]


def test_a_former_self_that_only_learned_leaves_at_once() -> None:
    learning = Configuration(voters=(A, B, C), learners=(C_WIPED,))
    again = MemberId("c", "newer")
    assert due_changes(learning, [standing(again)], []) == [learn(again, C_WIPED)]


def test_who_was_removed_is_taken_in_again_only_with_another_log() -> None:
    removed = Configuration(voters=(A, B), removed=(C,))
    assert due_changes(removed, [standing(C)], []) == []
    assert due_changes(removed, [standing(C_WIPED)], []) == [learn(C_WIPED)]


def test_who_left_is_taken_in_again_when_it_runs() -> None:
    assert due_changes(Configuration(voters=(A, B)), [standing(C)], []) == [learn(C)]


def test_nothing_is_begun_in_the_middle_of_another_change() -> None:
    joint = Configuration(voters=(A, B), voters_outgoing=(A, B, C))
    assert due_changes(joint, [standing(D)], []) == []


# The core around it. A leads a cluster of one.

ALIVE = [AliveServer("a", "dc1", 0), AliveServer("d", "dc1", 0), AliveServer("e", "dc2", 0)]
LEARN_D = ConfigurationChange((Step(ChangeVerb.LEARN, D),))
SETTINGS = ServerSettings(stable_s=2.0)


def at(ms: int) -> Now:
    return Now(ms * MILLISECOND, ms)


def asked(core: TakingInCore, now: Now) -> AskStanding:
    (asking,) = core.tick(now, ALIVE)
    assert isinstance(asking, AskStanding)
    assert asking.node == "d"
    assert core.deadline() is None
    return asking


def answered(core: TakingInCore, now: Now, answer: ServerStanding | None) -> list[TakingInEffect]:
    core.report(now, StandingAnswered(asked(core, now).ticket, answer))
    return list(core.tick(now, ALIVE))


def test_each_second_a_leader_asks_the_others_of_its_datacenter_and_takes_in_whom_it_lacks() -> None:
    core = TakingInCore(leading(SETTINGS).core, at(0))
    assert core.tick(at(999), ALIVE) == ()
    assert answered(core, at(1000), standing(D)) == [ChangeMembership(LEARN_D)]
    assert core.report(at(1010), ChangeEnded(LEARN_D, None)) == ()  # of another round
    (proposed,) = answered(core, at(11_000), standing(D))
    assert isinstance(proposed, ChangeMembership)
    assert core.report(at(11_020), ChangeEnded(proposed.change, None)) == [
        LogLine(Severity.INFO, "the membership was changed: d to learn")
    ]
    assert core.deadline() == 12_020 * MILLISECOND


def test_what_was_refused_is_said_and_looked_at_again_a_second_later() -> None:
    core = TakingInCore(leading(SETTINGS).core, at(0))
    (proposed,) = answered(core, at(1000), standing(D))
    assert isinstance(proposed, ChangeMembership)
    assert core.report(at(1000), ChangeEnded(proposed.change, ChangeRefused("not now"))) == [
        LogLine(Severity.INFO, "the membership was not changed: not now")
    ]
    assert answered(core, at(2000), standing(D)) == [proposed]


def test_what_was_refused_keeps_nobody_else_out() -> None:
    """D cannot be promoted; F comes and cannot be taken in either: each has its turn."""
    bench = leading(SETTINGS)
    bench.core.command(bench.now, ProposeChange(LEARN_D, "token"))
    bench.settle()
    core, f = TakingInCore(bench.core, at(0)), MemberId("f", "log")
    alive = [AliveServer("d", "dc1", 0), AliveServer("f", "dc1", 0)]
    standings, proposed = {"d": standing(D), "f": standing(f)}, list[ConfigurationChange]()
    for number in range(1, 7):
        for asking in core.tick(at(number * 1000), alive):
            assert isinstance(asking, AskStanding)
            core.report(at(number * 1000), StandingAnswered(asking.ticket, standings[asking.node]))
        for effect in core.tick(at(number * 1000), alive):
            assert isinstance(effect, ChangeMembership)
            proposed.append(effect.change)
            core.report(at(number * 1000), ChangeEnded(effect.change, ChangeRefused("no")))
    assert proposed == [learn(f), learn(f), vote(D), learn(f), vote(D), learn(f)]


def test_who_is_of_another_cluster_or_somebody_else_is_not_taken_in() -> None:
    for number, answer in enumerate(
        (
            None,
            ServerStanding(D, "dc1", 0, "another", False),
            ServerStanding(D, "dc2", 0, "", True),
            ServerStanding(C, "dc1", 0, "", True),
        )
    ):
        core = TakingInCore(leading(SETTINGS).core, at(0))
        assert answered(core, at(1000), answer) == [], number
        assert core.deadline() == 2000 * MILLISECOND


def test_a_server_that_does_not_lead_asks_nobody() -> None:
    core = TakingInCore(Bench((A, B)).core, at(0))
    assert core.tick(at(1000), ALIVE) == ()
    assert core.deadline() == 2000 * MILLISECOND


def test_a_learner_votes_after_the_time_that_is_set() -> None:
    bench = leading(SETTINGS)
    bench.core.command(bench.now, ProposeChange(LEARN_D, "token"))
    bench.settle()
    core = TakingInCore(bench.core, at(0))
    assert answered(core, at(1000), standing(D)) == []
    assert answered(core, at(2999), standing(D)) == []
    assert answered(core, at(4000), standing(D)) == [
        ChangeMembership(ConfigurationChange((Step(ChangeVerb.VOTE, D),)))
    ]
