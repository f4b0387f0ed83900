"""What other rooms read of gossip."""

from __future__ import annotations

from adsum.gossip.broadcasts import Class
from adsum.gossip.commands import ForceLeave, Leave
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.membership_view import NewsQueue
from adsum.gossip.order import MemberStatus, Standing
from adsum.gossip.wire import PacketKind
from adsum.now import SECOND
from tests.gossip.support import GENERATION, Stage, dead, forget, place, short, suspect


def test_a_short_id_has_the_name_of_its_member_or_mine_and_else_its_digits() -> None:
    stage = Stage("a", "b")
    forget(stage.core, "b")
    name_of = stage.core.membership.name_of
    assert (name_of(short("a")), name_of(short("me"))) == ("a", "me")
    assert name_of(short("b")) == short("b").hex()
    assert name_of(b"") == ""


def test_who_was_pruned_is_neither_listed_nor_counted() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    stage.tell("b", suspect("a", "b"))
    stage.tell("b", dead("c", "b"))
    stage.command(ForceLeave("d", is_pruned=True))
    stage.command(ForceLeave("e", is_pruned=False))
    membership = stage.core.membership
    assert [each.profile.name for each in membership.members()] == ["a", "b", "c", "e"]
    assert [each.profile.name for each in membership.present()] == ["a", "b"]
    assert membership.others_present == 2
    assert membership.counts() == {
        MemberStatus.ALIVE: 1,
        MemberStatus.SUSPECT: 1,
        MemberStatus.FAILED: 1,
        MemberStatus.LEFT: 1,
    }


def test_a_member_is_found_by_its_name_and_by_either_id() -> None:
    stage = Stage("a")
    found, membership = stage.member("a"), stage.core.membership
    assert membership.member(short("a")) is found
    assert membership.member_named("A") is found
    assert membership.member_by_id(found.profile.node_id) is found
    assert membership.member(short("me")) is None


def test_i_have_left_once_i_said_so() -> None:
    stage = Stage("a")
    membership = stage.core.membership
    assert membership.own_standing == Standing(GENERATION, 0, 0, 0)
    stage.command(Leave())
    assert membership.own_standing.status is MemberStatus.LEFT


def test_what_is_not_measured_has_no_coordinate() -> None:
    stage = Stage("a", "b")
    place(stage.core, "a", 0.02)
    membership = stage.core.membership
    far, here = membership.coordinate_of("a"), membership.coordinate_of("ME")
    assert far is not None
    assert here is membership.coordinate
    assert far.vector[0] == 0.02
    assert membership.coordinate_of("b") is None
    assert membership.coordinate_of("x") is None


def test_a_suspect_is_failed_when_its_verdict_is_due() -> None:
    stage = Stage("a", "b", "c", "d")
    stage.stop_probing()
    stage.tell("b", suspect("a", "b"))
    case, membership = stage.member("a").suspicion, stage.core.membership
    assert case is not None
    due_ns = membership.verdict_due_ns(stage.now, case)
    stage.run_for(due_ns - stage.now_ns - 1)
    assert stage.status("a") is MemberStatus.SUSPECT
    stage.run_for(1)
    assert stage.status("a") is MemberStatus.FAILED


def test_news_waits_in_the_queue_of_its_kind() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b"))
    queue = stage.core.membership.queue
    assert (queue(Class.MEMBERSHIP), queue(Class.EVENTS)) == (NewsQueue(waiting=1), NewsQueue())


def test_whom_nobody_probes_is_on_nobody_s_list() -> None:
    stage = Stage("a")
    stage.stand_still(16 * SECOND)
    assert stage.core.membership.is_forgotten(stage.now)
    stage.packet("a", PacketKind.PING, sequence=1, about=short("me"))
    assert not stage.core.membership.is_forgotten(stage.now)
    stage.stand_still(16 * SECOND)
    stage.packet("a", PacketKind.PING, sequence=2, about=short("before me"))
    assert stage.core.membership.is_forgotten(stage.now)


def test_whoever_forgot_all_others_is_forgotten_too() -> None:
    """Cut off for longer than the failed are remembered: each side has reaped the other."""
    stage = Stage("a")
    stage.core._merger.purge(stage.now, stage.member("a"), ChangeCause.REPLACED)
    stage.stand_still(16 * SECOND)
    assert stage.core.membership.is_forgotten(stage.now)


def test_a_stranger_s_ping_lists_nobody() -> None:
    stage = Stage("a")
    stage.stand_still(16 * SECOND)
    stage.packet("x", PacketKind.PING, sequence=1, about=short("me"))
    assert stage.core.membership.is_forgotten(stage.now)


def test_one_that_met_nobody_is_forgotten_by_nobody() -> None:
    alone = Stage()
    alone.stand_still(16 * SECOND)
    assert not alone.core.membership.is_forgotten(alone.now)


def test_while_some_have_failed_one_of_all_asks_for_them_at_a_time() -> None:
    stage = Stage("a", "b", "c", "d")
    misses_others = stage.core.membership.misses_others
    assert not any(misses_others() for _ in range(1_000))
    stage.tell("b", dead("a", "b"))
    asking = sum(misses_others() for _ in range(1_000))
    assert 200 <= asking <= 300  # of four that are left
