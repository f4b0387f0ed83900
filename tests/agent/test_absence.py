"""When an agent has not heard the others: on its way in, and behind a pause."""

from __future__ import annotations

from random import Random

from adsum.address import Address
from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import ConfirmCatalog, MemberAnswered, RegisterService
from adsum.agent.settings import AgentSettings
from adsum.catalog.model import Node
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.replication import bodies
from adsum.catalog.view import View
from adsum.effects import AskMember, Refusal, RefusalCause, Reply
from adsum.gossip.commands import Join, SyncAnswered, SyncFailed
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import OpenSync
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND, Now
from adsum.testing.cluster import AgentCluster
from adsum.testing.network import Conditions
from adsum.testing.samples import WEB
from tests.agent.test_cluster_state import Stage as RollStage
from tests.gossip.support import GENERATION, WALL_MS, profile, roster

NODE = Node(node_id="00000000-0000-0000-0000-000000000001", name="me", address="10.0.0.1", datacenter="dc1")
SEED = Address("10.0.0.200", 8301)


def at(time_ns: int) -> Now:
    return Now(time_ns, WALL_MS + time_ns // MILLISECOND)


def started(*, expects_others: bool) -> ClusterState:
    gossip = GossipCore(at(SECOND), GossipSettings(), MemberIdentity(profile("me"), GENERATION), Random(1))
    published = OwnCatalogWriter(View(at(SECOND), tag=1), NODE.node_id, "me")
    settings = AgentSettings(node=NODE)
    return ClusterState(at(SECOND), gossip, published, settings, Random(1), expects_others=expects_others)


def seen(cluster: ClusterState, time_ns: int) -> tuple[str, int]:
    return cluster.staleness(at(time_ns)), cluster.behind_ns(at(time_ns))


class Stage(RollStage):
    def exchange(self) -> None:
        """The next one with anybody, who has nothing else."""
        asked: list[AskMember] = []
        for _ in range(15):
            self.now_ns += 100 * MILLISECOND
            asked += [each for each in self.cluster.tick(self.now) if isinstance(each, AskMember)]
        (ask,) = asked
        self.cluster.receive(self.now, MemberAnswered(ask.ticket, bodies.compared([], is_more=False)))


# The way in.


def test_one_that_is_to_join_somebody_lacks_the_others_from_its_first_moment_on() -> None:
    cluster = started(expects_others=True)
    assert seen(cluster, SECOND) == ("joining", 0)
    assert seen(cluster, 61 * SECOND) == ("joining", MINUTE)
    (opened,) = [each for each in cluster.command(at(SECOND), 1, Join((SEED,))) if isinstance(each, OpenSync)]
    cluster.receive(at(2 * SECOND), SyncFailed(opened.ticket, "connection refused"))
    assert seen(cluster, 3 * SECOND) == ("joining", 2 * SECOND)


def test_one_that_is_told_of_nobody_is_alone_and_lacks_nothing() -> None:
    assert seen(started(expects_others=False), HOUR) == ("", 0)


def test_one_that_is_told_of_itself_alone_lacks_nothing_once_it_has_found_out() -> None:
    by_its_address = started(expects_others=True)
    by_its_address.command(at(SECOND), 1, Join((profile("me").address,)))
    assert seen(by_its_address, 2 * SECOND) == ("", 0)
    by_another = started(expects_others=True)
    (opened,) = [
        each for each in by_another.command(at(SECOND), 1, Join((SEED,))) if isinstance(each, OpenSync)
    ]
    by_another.receive(at(2 * SECOND), SyncAnswered(opened.ticket, roster()))
    assert seen(by_another, 2 * SECOND) == ("", 0)


def test_one_that_lacks_the_others_can_ask_nobody_for_a_proof() -> None:
    refusal = Refusal(
        RefusalCause.FAILED,
        "This agent can ask nobody whether what it knows is true (joining); without ?consistent it answers "
        "with that.",
    )
    joining = started(expects_others=True).command(at(SECOND), 1, ConfirmCatalog())
    assert joining == [Reply(1, refusal)]
    alone = started(expects_others=False).command(at(SECOND), 1, ConfirmCatalog())
    assert alone == [Reply(1, None)]


# Pauses.


def formed(members: int = 5) -> AgentCluster:
    cluster = AgentCluster(members, seed=3, conditions=Conditions(loss=0.02))
    cluster.join_all()
    cluster.run_for(20 * SECOND)
    return cluster


def staleness(cluster: AgentCluster, index: int) -> str:
    return cluster.agent(index).cluster.staleness(cluster.now)


def behind_s(cluster: AgentCluster, index: int) -> float:
    return cluster.agent(index).cluster.behind_ns(cluster.now) / SECOND


def run_until_current(cluster: AgentCluster, index: int) -> int:
    """How long it was stale, in milliseconds."""
    for waited_ms in range(20_000):
        if not staleness(cluster, index):
            return waited_ms
        cluster.run_for(MILLISECOND)
    raise AssertionError


def test_whoever_meets_its_cluster_lacks_the_others_until_it_has_their_entries() -> None:
    cluster = formed()
    cluster.give(0, RegisterService(WEB))
    cluster.kill(4)
    cluster.run_for(20 * SECOND)
    cluster.start(4)
    cluster.command(4, Join((cluster.hosts[0].address,)))
    while not cluster.agent(4).membership.others_present:
        cluster.run_for(MILLISECOND)
    assert staleness(cluster, 4) == "joining"
    assert run_until_current(cluster, 4) < 1_000
    assert cluster.agent(4).core.view.instances("web")


def test_what_a_saved_copy_said_of_members_is_as_old_as_it_until_the_first_exchange() -> None:
    """Also once they are met, for what is on them is from the copy still."""
    cluster = formed()
    cluster.run_for(70 * SECOND)
    cluster.kill(4)
    cluster.run_for(MINUTE)
    cluster.start(4)
    state = cluster.agent(4).cluster
    cluster.command(4, Join((cluster.hosts[0].address,)))
    while state.sharing.shows_saved:
        cluster.run_for(MILLISECOND)
    assert state.membership.others_present == 4
    assert staleness(cluster, 4) == "saved copy"
    assert behind_s(cluster, 4) >= 60
    assert run_until_current(cluster, 4) < 1_000
    assert behind_s(cluster, 4) < 3


def test_before_anything_runs_again_a_pause_is_known_by_the_time_that_has_passed() -> None:
    cluster = formed()
    cluster.pause(4)
    cluster.run_for(SECOND)
    assert (staleness(cluster, 4), behind_s(cluster, 4)) == ("", 0)
    cluster.run_for(119 * SECOND)
    assert staleness(cluster, 4) == "paused"
    assert 120 <= behind_s(cluster, 4) < 121


def test_a_pause_is_made_up_for_within_a_moment_and_not_before_what_it_missed_is_here() -> None:
    cluster = formed()
    cluster.pause(4)
    cluster.run_for(120 * SECOND)
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(SECOND)
    cluster.resume(4)
    view = cluster.agent(4).core.view
    assert staleness(cluster, 4) == "paused"
    assert behind_s(cluster, 4) >= 121
    assert run_until_current(cluster, 4) < 1_000
    assert view.instances("web")
    assert behind_s(cluster, 4) < 3


def test_a_pause_ends_with_rosters_compared_and_then_the_catalog_and_not_the_other_way_around() -> None:
    stage = Stage()
    stage.now_ns += SECOND
    stage.cluster.tick(stage.now)
    stage.meet("a")
    stage.exchange()
    assert stage.cluster.staleness(stage.now) == ""
    stage.now_ns += 10 * SECOND
    opened = [each for each in stage.cluster.tick(stage.now) if isinstance(each, OpenSync)]
    stage.exchange()
    assert stage.cluster.staleness(stage.now) == "paused"
    stage.cluster.receive(stage.now, SyncAnswered(opened[0].ticket, roster()))
    assert stage.cluster.staleness(stage.now) == "paused"
    stage.exchange()
    assert stage.cluster.staleness(stage.now) == ""


def test_the_age_is_that_of_the_pause_before_as_long_as_that_was_not_made_up_for() -> None:
    cluster = formed()
    cluster.pause(4)
    cluster.run_for(60 * SECOND)
    cluster.network.partition([4])
    cluster.resume(4)
    cluster.run_for(SECOND)
    cluster.pause(4)
    cluster.run_for(10 * SECOND)
    cluster.resume(4)
    cluster.run_for(SECOND)
    assert behind_s(cluster, 4) >= 72
    cluster.network.heal()
    run_until_current(cluster, 4)
    cluster.run_for(5 * SECOND)
    cluster.pause(4)
    cluster.run_for(10 * SECOND)
    assert 10 <= behind_s(cluster, 4) < 12


def test_alone_a_pause_makes_nothing_stale() -> None:
    cluster = AgentCluster(1)
    cluster.start(0)
    cluster.run_for(5 * SECOND)
    cluster.pause(0)
    cluster.run_for(HOUR)
    assert (staleness(cluster, 0), behind_s(cluster, 0)) == ("", 0)
    cluster.resume(0)
    cluster.run_for(SECOND)
    assert (staleness(cluster, 0), behind_s(cluster, 0)) == ("", 0)
    assert cluster.agent(0).membership.condition.pauses == 1
