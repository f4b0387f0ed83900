"""Clusters founded from empty servers by the code that ships, in all kinds of trouble; and that code with one
rule broken, which the simulation has to notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from adsum.consensus import bootstrap, effects, founding, taking_in
from adsum.consensus.bootstrap import AliveServer, FoundNow, ServerStanding, cluster_id_of
from adsum.consensus.letting_go import LettingGo
from adsum.now import SECOND, Now
from adsum.raft import changer
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.leader import Leader
from adsum.raft.status import RaftStatus
from adsum.raft.types import BOOTSTRAP_INDEX, Configuration, MemberId
from adsum.storage import opening
from adsum.storage.consent import write_consent
from adsum.storage.files import Folder
from adsum.testing import founding_world
from adsum.testing.checkers import Violation
from adsum.testing.founding_swarm import found
from adsum.testing.founding_world import FoundingWorld
from adsum.testing.raft_server import SimulatedServer

SEEDS = 80

Mutation = Callable[[pytest.MonkeyPatch], None]


def test_whatever_happens_there_is_one_cluster_and_in_the_end_everybody_votes_in_it() -> None:
    happened = Counter[str]()
    for seed in range(SEEDS):
        outcome = found(seed)
        assert not outcome.failure, f"seed {seed} {outcome.kinds}: {outcome.failure}"
        happened.update(outcome.happened)
    for what in ("found", "member", "wipe", "join", "change", "crash", "pause", "power lost", "failed"):
        assert happened[what], what
    for what in ("consent", "taken away"):
        assert happened[what], what


def test_a_founder_that_is_wiped_before_anybody_else_has_written_anything_harms_nobody() -> None:
    """Two of three had heard it as candidate. They need its membership, and it will not come back."""
    outcome = found(806, kinds=("wipe", "one_way"))
    assert not outcome.failure
    assert outcome.happened["wipe"]


@pytest.mark.parametrize("has_grown", [False, True], ids=["as founded", "one voter more"])
def test_a_founder_that_comes_late_votes_for_one_that_was_started_on_a_later_snapshot(
    *, has_grown: bool
) -> None:
    """Of three founders the last has written nothing when its power goes. The others lead, and forget the
    founding for a snapshot; then one of them is lost, and the late one is needed."""
    world = FoundingWorld(1, servers=3)
    cluster = world.raft
    assert world.run_until_so(lambda: sum(map(bool, world.clusters_held())) == 2, within_ns=20 * SECOND)
    (late,) = [server for server in world.there() if not server.store.log.identity.cluster]
    assert late.store.log.snapshot is None
    cluster.crash(late.me)
    if has_grown:
        world.add()
    voters = 4 if has_grown else 3

    def has_settled() -> bool:
        configurations = [server.raft.replica.configuration for server in cluster.leaders()]
        return any(len(configuration.voters) == voters for configuration in configurations)

    assert world.run_until_so(has_settled, within_ns=20 * SECOND)
    world.run_for(3 * SECOND)
    for server in cluster.up():
        cluster.compact(server, 0)
    world.run_for(SECOND)
    leader = cluster.leaders()[0]
    lost = next(server for server in cluster.up() if server is not leader)
    cluster.crash(lost.me)
    cluster.crash(leader.me)
    assert not cluster.leaders()
    cluster.boot(leader.me)
    assert leader.store.opened.restored.snapshot.index > BOOTSTRAP_INDEX
    cluster.boot(late.me)
    assert world.run_until_so(lambda: bool(cluster.leaders()), within_ns=20 * SECOND)


def two_that_share_a_server(seed: int) -> FoundingWorld:
    """Two are expected, and three were started. The first agrees with the second, whose power goes at some
    operation of its disk; from then on that one meets the third only."""
    world = FoundingWorld(seed, servers=2, surplus=1)
    cluster = world.raft
    first, second, third = [server.me for server in world.there()]
    cluster.split([first, second], [third])
    cluster.store(second).disk.faults.crash_before = seed % 12
    world.run_until_so(lambda: "crash" in cluster.happened or bool(world.founded), within_ns=10 * SECOND)
    world.run_for(SECOND // 5)
    cluster.crash(second)
    world.network.heal()
    cluster.split([first], [second, third])
    cluster.boot(second)
    world.run_for(6 * SECOND)
    return world


STORIES = 36


def test_wherever_the_power_goes_a_server_that_two_sets_share_founds_with_one_of_them() -> None:
    """The world says no if it founds with both."""
    worlds = [two_that_share_a_server(seed) for seed in range(STORIES)]
    with_first = [world for world in worlds if world.clusters_held()[0]]
    with_third = [world for world in worlds if world.clusters_held()[2]]
    assert with_first
    assert with_third


def test_who_agreed_with_one_that_is_gone_for_good_says_what_to_do_and_founds_with_another() -> None:
    world = FoundingWorld(5, servers=2, surplus=1)
    first, second, third = world.there()
    for server in (first, second, third):
        world.raft.crash(server.me)
    write_consent(second.store.disk, ("n0", "n1"))
    world.take_away(first)
    world.raft.boot(second.me)
    world.raft.boot(third.me)
    world.run_for(10 * SECOND)
    assert world.clusters_held() == ["", ""]
    world.follow_advice()
    assert world.raft.happened["consent removed"] == 1
    assert world.run_until_so(lambda: all(world.clusters_held()), within_ns=10 * SECOND)


def founders_beside_two_that_expect_nothing(seed: int) -> list[str]:
    """All were started at the same moment; none: nobody founds."""
    world = FoundingWorld(seed, servers=3, bystanders=2)
    if not world.run_until_so(lambda: all(world.clusters_held()), within_ns=20 * SECOND):
        return []
    ((cluster_id, founders),) = world.founded.items()
    assert world.clusters_held() == [cluster_id] * 5
    return [voter.node for voter in founders.voters]


@pytest.mark.parametrize("seed", range(10))
def test_servers_that_expect_nothing_are_no_founders_and_are_taken_in(seed: int) -> None:
    assert founders_beside_two_that_expect_nothing(seed) == ["n0", "n1", "n2"]


def clusters_after_who_founded_alone_was_wiped() -> list[str]:
    """It was the only one that expected anything; the others have its cluster."""
    world = FoundingWorld(8, servers=1, bystanders=2)
    cluster = world.raft

    def are_voters() -> bool:
        configurations = [server.raft.replica.configuration for server in cluster.leaders()]
        return any(len(configuration.voters) == 3 for configuration in configurations)

    assert world.run_until_so(are_voters, within_ns=20 * SECOND)
    world.run_for(3 * SECOND)
    cluster.atlas.harmed[cluster.of_node("n0").me] = None  # the others hold everything
    world.wipe(cluster.of_node("n0"))
    cluster.pause(cluster.of_node("n1").me, 4 * SECOND)
    cluster.pause(cluster.of_node("n2").me, 4 * SECOND)
    cluster.boot(cluster.of_node("n0").me)
    world.run_for(20 * SECOND)
    return world.clusters_held()


def test_who_founded_alone_and_was_wiped_asks_those_that_expect_nothing() -> None:
    assert len(set(clusters_after_who_founded_alone_was_wiped())) == 1


def voters_of(world: FoundingWorld) -> list[MemberId]:
    """By the leader."""
    leaders = world.raft.leaders()
    return list(leaders[0].raft.replica.configuration.voters) if leaders else []


def three_of_whom_one_follows() -> tuple[FoundingWorld, SimulatedServer, SimulatedServer]:
    """With the leader, and one that is not."""
    world = FoundingWorld(1, servers=3)
    assert world.run_until_so(lambda: len(world.raft.up()) == 3, within_ns=20 * SECOND)
    world.run_for(2 * SECOND)
    (leader,) = world.raft.leaders()
    return world, leader, next(server for server in world.there() if server is not leader)


@pytest.mark.parametrize("is_wiped", [False, True], ids=["as it was", "wiped"])
def test_who_lives_and_is_unknown_to_the_leader_may_lose_its_vote_and_is_taken_in_again(
    *, is_wiped: bool
) -> None:
    """The leader can know no better: it is not answered, gossip says that nobody is there, and a fourth
    server has come. A wiped one had lost this vote anyway."""
    world, leader, lost = three_of_whom_one_follows()
    world.raft.cut(leader.me, lost.me)
    world.raft.cut(lost.me, leader.me)
    if is_wiped:
        world.wipe(lost)
        world.raft.boot(world.raft.of_node(lost.me.node).me)
    world.run_for(2 * SECOND)
    world.add()
    assert world.run_until_so(lambda: lost.me not in voters_of(world), within_ns=20 * SECOND)
    assert len(voters_of(world)) == 3
    world.network.heal()
    there = sorted(server.me for server in world.there())
    assert world.run_until_so(lambda: voters_of(world) == there, within_ns=20 * SECOND)


def voters_beside_one_that_stands_still() -> list[MemberId]:
    """Gossip calls it alive, and a fourth server comes."""
    world, _, still = three_of_whom_one_follows()
    world.raft.pause(still.me, 40 * SECOND)
    world.run_for(2 * SECOND)
    world.add()
    assert world.run_until_so(lambda: len(voters_of(world)) == 4, within_ns=20 * SECOND)
    world.run_for(5 * SECOND)
    return voters_of(world)


def test_who_stands_still_and_is_known_to_live_keeps_its_vote_when_a_newcomer_gets_one() -> None:
    assert len(voters_beside_one_that_stands_still()) == 4


def voters_with_one_down_and_one_wiped() -> tuple[list[MemberId], list[MemberId]]:
    """Of five, at first and when who was wiped votes again."""
    world = FoundingWorld(1, servers=5)
    cluster = world.raft
    assert world.run_until_so(lambda: len(cluster.up()) == 5, within_ns=20 * SECOND)
    world.run_for(2 * SECOND)
    at_first, leader = voters_of(world), cluster.leaders()[0]
    down, wiped, *_ = [server for server in world.there() if server is not leader]
    cluster.crash(down.me)
    world.run_for(2 * SECOND)
    world.wipe(wiped)
    cluster.boot(cluster.of_node(wiped.me.node).me)
    assert world.run_until_so(lambda: wiped.me not in voters_of(world), within_ns=20 * SECOND)
    world.run_for(5 * SECOND)
    return at_first, voters_of(world)


def test_who_votes_again_after_a_wipe_costs_no_other_its_vote() -> None:
    at_first, later = voters_with_one_down_and_one_wiped()
    assert [voter.node for voter in at_first] == [voter.node for voter in later]


def founded_after_a_pause() -> bool:
    """The host of one of two stands still when it has its answer, and the other is wiped meanwhile."""
    world = FoundingWorld(3, servers=2)
    first, second = world.there()

    def has_answer() -> bool:
        round_ = world.process(first.host).founding._round
        return round_ is not None and round_.answers.get("n1") == standing

    standing = replace(world.process(second.host).founding.standing(()), sees=("n0", "n1"))
    assert world.run_until_so(has_answer, within_ns=10 * SECOND)
    world.raft.pause(first.me, 3 * SECOND)
    world.wipe(second)
    world.raft.boot(world.raft.of_node("n1").me)
    return world.run_until_so(lambda: bool(world.raft.leaders()), within_ns=20 * SECOND)


def test_who_was_wiped_while_another_stood_still_is_no_founder() -> None:
    assert founded_after_a_pause()


def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    program = "from adsum.testing.founding_swarm import found; print([found(seed).digest for seed in (1, 9)])"
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1]


# The rules, broken.


def silence_is_taken_for_consent(patch: pytest.MonkeyPatch) -> None:
    """Who does not answer is left out."""

    def decide(
        own: ServerStanding, _alive: Sequence[AliveServer], answers: Mapping[str, ServerStanding | None]
    ) -> FoundNow:
        heard = [answer.member for answer in answers.values() if answer is not None and answer.is_empty]
        configuration = Configuration(voters=tuple(sorted([own.member, *heard])))
        return FoundNow(configuration, cluster_id_of(configuration))

    patch.setattr(founding, "decide", decide)


def who_has_a_log_is_asked_to_found_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bootstrap, "_objection", lambda _own, _node, _answer: None)
    patch.setattr(bootstrap, "_objection_of_bystander", lambda _own, _node, _answer: None)


def gossip_need_not_know_all_who_are_expected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding, "hindrance", lambda _own, _alive: None)
    patch.setattr(bootstrap, "hindrance", lambda _own, _alive: None)


def whom_the_others_see_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    def objection(own: ServerStanding, node: str, answer: ServerStanding) -> str | None:
        return original(own, node, replace(answer, sees=own.sees))

    original = bootstrap._objection
    patch.setattr(bootstrap, "_objection", objection)
    patch.setattr(founding.FoundingCore, "_is_bound_to_others", lambda _core, _founders: False)


def answers_are_believed_however_old_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding, "FRESH_NS", 1 << 62)


def votes_are_given_to_a_cluster_whose_membership_nobody_told(patch: pytest.MonkeyPatch) -> None:
    """Any message to this log takes it in, a candidate's too."""
    patch.setattr(founding, "FromLeader", object)


def the_former_self_leaves_before_the_new_one_votes(patch: pytest.MonkeyPatch) -> None:
    def due_changes(
        configuration: Configuration, standings: Sequence[ServerStanding], ripe: Sequence[MemberId]
    ) -> list[ConfigurationChange]:
        due = original(configuration, standings, ripe)
        if not due or due[0].steps[0].verb is not ChangeVerb.LEARN:
            return due
        node = due[0].steps[0].member.node
        former = [each for each in configuration.members() if each.node == node]
        return [ConfigurationChange((due[0].steps[0], *(Step(ChangeVerb.LEAVE, each) for each in former)))]

    original = taking_in.due_changes
    patch.setattr(taking_in, "due_changes", due_changes)


def an_unknown_log_votes_at_once(patch: pytest.MonkeyPatch) -> None:
    def due_changes(
        configuration: Configuration, standings: Sequence[ServerStanding], _ripe: Sequence[MemberId]
    ) -> list[ConfigurationChange]:
        due = original(configuration, standings, ())
        return [ConfigurationChange((Step(ChangeVerb.VOTE, each.steps[0].member),)) for each in due]

    def promote(self: changer._Draft, member: MemberId) -> None:
        self._remove(member)
        self.voters.append(member)

    original = taking_in.due_changes
    patch.setattr(taking_in, "due_changes", due_changes)
    patch.setattr(changer._Draft, "_promote", promote)
    patch.setattr(Leader, "_check_may_vote", lambda _leader, _member: None)


def a_doubt_is_forgotten_while_its_repair_is_interrupted(patch: pytest.MonkeyPatch) -> None:
    """RD2: no segments, no doubt, so it may found a cluster of its own."""

    def read_doubt(folder: Folder) -> opening.Doubt:
        doubt = original(folder)
        return doubt if doubt.is_settled else opening.Doubt()

    original = opening._read_doubt
    patch.setattr(opening, "_read_doubt", read_doubt)


def who_expects_nothing_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding, "bystanders", lambda _me, _datacenter, _alive: [])
    patch.setattr(bootstrap, "bystanders", lambda _me, _datacenter, _alive: [])


def who_expects_nothing_counts_as_a_founder(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bootstrap, "expects_founders", lambda _server: True)


def a_start_forgets_with_whom_it_agreed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding_world, "read_consent", lambda _folder: ())


def a_consent_is_given_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    def answer(
        core: founding.FoundingCore, ticket: int, founders: tuple[str, ...], alive: Sequence[AliveServer]
    ) -> Sequence[effects.FoundingEffect]:
        wanted = original(core, ticket, founders, alive)
        if not any(isinstance(each, effects.WriteConsent) for each in wanted):
            return wanted
        core._unanswered.clear()
        return [effects.AnswerStanding(ticket, core.standing(alive)), *wanted]

    original = founding.FoundingCore.answer
    patch.setattr(founding.FoundingCore, "answer", answer)


def a_consent_is_taken_back_unasked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(founding, "unsettled", lambda _me, _consent, _answers: None)


def the_dead_go_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LettingGo, "_is_dead", lambda *_all: True)


def who_votes_under_a_new_log_takes_any_place(patch: pytest.MonkeyPatch) -> None:
    """Also one that only has its own vote again."""

    def is_dead(
        _self: LettingGo,
        _now: Now,
        _member: MemberId,
        voters: Collection[MemberId],
        answering: Collection[MemberId | None],
    ) -> bool:
        return any(each.log != "a" and each in answering for each in voters)

    patch.setattr(LettingGo, "_is_dead", is_dead)


def gossip_is_not_asked_who_lives(patch: pytest.MonkeyPatch) -> None:
    def due(
        self: LettingGo, now: Now, status: RaftStatus, _alive: Collection[str], left: Collection[str]
    ) -> list[ConfigurationChange]:
        return original(self, now, status, (), left)

    original = LettingGo.due
    patch.setattr(LettingGo, "due", due)


# What is broken, what happens to it, the first seed, and within how many it must be noticed.
CASES: list[tuple[Mutation, str, int, int]] = [
    (silence_is_taken_for_consent, "loss split", 0, 10),
    (who_has_a_log_is_asked_to_found_again, "wipe", 0, 20),
    (gossip_need_not_know_all_who_are_expected, "loss", 0, 10),
    (whom_the_others_see_is_not_asked, "surplus", 0, 80),
    (votes_are_given_to_a_cluster_whose_membership_nobody_told, "wipe one_way", 400, 60),
    (the_former_self_leaves_before_the_new_one_votes, "wipe", 0, 20),
    (an_unknown_log_votes_at_once, "join", 0, 10),
    (a_doubt_is_forgotten_while_its_repair_is_interrupted, "broken_repair", 0, 60),
]


@pytest.mark.parametrize(
    ("mutation", "kinds", "first", "count"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_the_simulation_notices(
    mutation: Mutation, kinds: str, first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    runs = (found(seed, kinds=tuple(kinds.split())) for seed in range(first, first + count))
    noticed = next((outcome for outcome in runs if outcome.failure), None)
    assert noticed is not None, f"it lived through {count} seeds"
    print(f"{mutation.__name__} dies at seed {noticed.seed}: {noticed.failure}")


@pytest.mark.parametrize("mutation", [the_dead_go_at_once, who_votes_under_a_new_log_takes_any_place])
def test_a_vote_that_is_taken_away_while_nobody_came_is_noticed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation, match="nobody came in its place"):
        voters_with_one_down_and_one_wiped()


def test_the_vote_of_who_is_known_to_live_that_is_taken_away_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gossip_is_not_asked_who_lives(monkeypatch)
    with pytest.raises(Violation, match="known to live"):
        voters_beside_one_that_stands_still()


def test_a_founding_with_who_does_not_exist_any_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers_are_believed_however_old_they_are(monkeypatch)
    assert not founded_after_a_pause()


def test_who_is_asked_for_no_cluster_that_it_belongs_to_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    who_expects_nothing_is_not_asked(monkeypatch)
    with pytest.raises(Violation, match="both lead"):
        clusters_after_who_founded_alone_was_wiped()


def test_waiting_for_the_consent_of_who_expects_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    who_expects_nothing_counts_as_a_founder(monkeypatch)
    assert founders_beside_two_that_expect_nothing(0) == []


@pytest.mark.parametrize(
    "mutation",
    [
        a_start_forgets_with_whom_it_agreed,
        a_consent_is_given_before_it_is_written,
        a_consent_is_taken_back_unasked,
    ],
)
def test_two_clusters_of_sets_that_share_a_server_are_noticed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation, match="beside"):
        list(map(two_that_share_a_server, range(STORIES)))
