"""How long a write takes on the leader, on a core that is fed by hand: at which moment each stage ends."""

from __future__ import annotations

import pytest

from adsum.consensus.commands import Propose
from adsum.now import MILLISECOND
from adsum.raft.messages import AppendReply, Heartbeat
from adsum.raft.types import Term
from adsum.servers.stages import WriteStage, WriteStages
from tests.consensus.support import STAMP, A, B, Bench
from tests.consensus.test_core import elected


class Timed:
    """A leader of three, whose turns take place when a test says so."""

    def __init__(self) -> None:
        self.bench = elected()
        self.stages = WriteStages(self.bench.core)

    def propose(self, *words: bytes) -> None:
        for word in words:
            self.bench.effects += self.bench.core.command(self.bench.now, Propose(word, word))

    def acknowledge(self, index: int) -> None:
        term = self.bench.core.raft.replica.term
        self.bench.core.receive(self.bench.now, AppendReply(STAMP, B, A, term, index))

    def turn(self, began_ms: int, ended_ms: int, carried_out_ms: int, arrived_ms: int | None = None) -> bool:
        arrived_ms = began_ms if arrived_ms is None else arrived_ms
        is_followed = self.stages.before_turn(arrived_ms * MILLISECOND, began_ms * MILLISECOND)
        self.bench.tick()
        if is_followed:
            self.stages.after_turn(ended_ms * MILLISECOND)
            self.stages.carried_out(carried_out_ms * MILLISECOND)
        return is_followed

    @property
    def times_ms(self) -> dict[str, float]:
        return {stage.name: round(self.stages.times[stage].total * 1_000, 6) for stage in WriteStage}

    @property
    def count(self) -> int:
        return sum(self.stages.whole.counts)


@pytest.fixture
def timed() -> Timed:
    return Timed()


def write(timed: Timed, index: int, from_ms: int) -> None:
    timed.propose(b"more")
    timed.turn(from_ms, from_ms, from_ms)
    timed.bench.store()
    timed.acknowledge(index)
    timed.turn(from_ms, from_ms, from_ms)


def test_each_stage_ends_when_the_loop_learns_of_it(timed: Timed) -> None:
    timed.propose(b"a", b"b")
    assert timed.turn(1, 2, 3, arrived_ms=0)  # given to the disk in this turn
    timed.bench.store()
    assert timed.turn(7, 8, 9)
    timed.acknowledge(4)
    assert timed.turn(17, 19, 22)
    assert timed.times_ms == {"QUEUE": 2, "SYNC": 5, "REPLICATE": 10, "APPLY": 2, "ANSWER": 3}
    assert timed.stages.committing.total == pytest.approx(0.017)
    assert timed.stages.whole.total == pytest.approx(0.022)
    assert timed.count == 1


def test_a_quorum_without_us_is_no_commit_yet_and_then_replicating_took_no_time(timed: Timed) -> None:
    timed.propose(b"a")
    timed.turn(0, 0, 0)
    timed.acknowledge(3)
    timed.turn(4, 4, 4)
    timed.bench.store()
    timed.turn(9, 9, 9)
    assert timed.times_ms == {"QUEUE": 0, "SYNC": 9, "REPLICATE": 0, "APPLY": 0, "ANSWER": 0}
    assert timed.count == 1


def test_while_the_disk_is_busy_a_write_is_in_the_queue(timed: Timed) -> None:
    timed.propose(b"before")
    timed.bench.tick()  # its group is under way
    timed.propose(b"a")
    assert timed.turn(10, 11, 12)
    assert timed.times_ms["QUEUE"] == 0
    timed.bench.store()
    assert timed.turn(15, 16, 17)
    assert timed.times_ms["QUEUE"] == 6


def test_one_is_followed_at_a_time_and_at_most_a_hundred_a_second(timed: Timed) -> None:
    write(timed, 3, from_ms=100)
    assert timed.count == 1
    assert timed.stages.due_ns == 110 * MILLISECOND
    write(timed, 4, from_ms=110)
    assert timed.count == 2


def test_a_turn_in_which_nothing_came_is_not_followed(timed: Timed) -> None:
    assert not timed.turn(1, 1, 1)


def test_one_that_was_followed_when_leadership_was_lost_is_forgotten(timed: Timed) -> None:
    timed.propose(b"a")
    assert timed.turn(0, 0, 0)
    timed.bench.core.receive(timed.bench.now, Heartbeat(STAMP, B, A, Term(9), 2, 1))
    assert not timed.turn(5, 5, 5)
    assert not timed.bench.core.is_leader
    assert timed.count == 0
    assert timed.times_ms["SYNC"] == 0


def test_a_follower_times_nothing() -> None:
    bench = Bench((A, B))
    assert not WriteStages(bench.core).before_turn(0, 0)
