from __future__ import annotations

from adsum.gossip.evidence import ChangeCause
from adsum.gossip.rejoining import is_forgotten, misses_others
from adsum.gossip.wire import PacketKind
from adsum.now import SECOND
from tests.gossip.support import Stage, dead, short


def test_whom_nobody_probes_is_on_nobody_s_list() -> None:
    stage = Stage("a")
    stage.stand_still(16 * SECOND)
    assert is_forgotten(stage.core.shared, stage.now)
    stage.packet("a", PacketKind.PING, sequence=1, about=short("me"))
    assert not is_forgotten(stage.core.shared, stage.now)
    stage.stand_still(16 * SECOND)
    stage.packet("a", PacketKind.PING, sequence=2, about=short("before me"))
    assert is_forgotten(stage.core.shared, stage.now)


def test_whoever_forgot_all_others_is_forgotten_too() -> None:
    """Cut off for longer than the failed are remembered: each side has reaped the other."""
    stage = Stage("a")
    stage.core._merger.purge(stage.now, stage.member("a"), ChangeCause.REPLACED)
    stage.stand_still(16 * SECOND)
    assert is_forgotten(stage.core.shared, stage.now)


def test_a_stranger_s_ping_lists_nobody() -> None:
    stage = Stage("a")
    stage.stand_still(16 * SECOND)
    stage.packet("x", PacketKind.PING, sequence=1, about=short("me"))
    assert is_forgotten(stage.core.shared, stage.now)


def test_one_that_met_nobody_is_forgotten_by_nobody() -> None:
    alone = Stage()
    alone.stand_still(16 * SECOND)
    assert not is_forgotten(alone.core.shared, alone.now)


def test_while_some_have_failed_one_of_all_asks_for_them_at_a_time() -> None:
    stage = Stage("a", "b", "c", "d")
    shared = stage.core.shared
    assert not any(misses_others(shared) for _ in range(1_000))
    stage.tell("b", dead("a", "b"))
    asking = sum(misses_others(shared) for _ in range(1_000))
    assert 200 <= asking <= 300  # of four that are left
