"""What writers notice when a server that lost its disk is brought a large state.

Three members hold a million entries, 158 MB as a snapshot, and are written to at half of what they can take.
In one run nothing happens; in the other a follower's folder is wiped, and it comes back: as a stranger that
learns first, from the leader's snapshot, and votes again some time later. Latencies are counted from when a
write was due, so that nothing that holds the writer up is left out.
"""

from __future__ import annotations

import select
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.figure import Figure, informs, limit, milliseconds, per_second, plain, seconds
from tests.bench.proposers import Door, Proposers
from tests.bench.raft_machines import FILL_RECORDS, FILLER, PROPOSAL, TABLE_RECORDS
from tests.bench.raft_member import FRAME
from tests.bench.raft_members import Members, MembersFailed, members

PROPOSERS = 64
PEAK_S = 5.0
SHARE = 0.5  # of the peak
FILLS_AT_ONCE = 8
LEAD_IN_S = 3.0  # before the folder is wiped
RUN_S = 40.0  # in which each server makes a snapshot
P999_MS_MAX = 250.0
POLL_S = 0.1
WAIT_S_MAX = 120.0
WRITER = PROPOSERS  # its number among the proposers

Writing = Callable[[Callable[[], bool]], list[float]]  # until it is over; the latencies


class Watch(threading.Thread):
    """Beside the writers: wipes a follower, if one is given, and looks at what becomes of it."""

    def __init__(self, ours: Members, leader: int, wiped: int | None) -> None:
        super().__init__()
        self.caught_up_s = 0.0
        self.votes_again_s = 0.0
        self.held_ms = 0.0  # the leader's loop, at most
        self.terms: set[int] = set()
        self.problem: BaseException | None = None
        self._ours = ours
        self._leader = leader
        self._wiped = wiped

    def run(self) -> None:
        try:
            self._watch()
        except BaseException as problem:  # raised where the writer is
            self.problem = problem

    def _watch(self) -> None:
        began_s = time.monotonic()
        asked(self._ours, self._leader)  # what held its loop before is forgotten
        if self._wiped is not None:
            time.sleep(LEAD_IN_S)
            self._wipe(self._wiped)
        while time.monotonic() < began_s + RUN_S:
            self._look()
            time.sleep(POLL_S)

    def _wipe(self, wiped: int) -> None:
        self._ours.wipe(wiped)
        began_s = time.monotonic()
        self._ours.start(wiped)
        self._until(lambda goal: asked(self._ours, wiped)["applied"] >= goal)
        self.caught_up_s = time.monotonic() - began_s
        self._until(lambda _goal: asked(self._ours, wiped)["votes"])
        self.votes_again_s = time.monotonic() - began_s

    def _until(self, is_so: Callable[[int], bool]) -> None:
        """Asked with what the leader has applied a moment before."""
        end_s = time.monotonic() + WAIT_S_MAX
        while not is_so(self._look()):
            if time.monotonic() > end_s:
                raise MembersFailed(f"the wiped member is not back within {WAIT_S_MAX:.0f} s")
            time.sleep(POLL_S)

    def _look(self) -> int:
        standing = asked(self._ours, self._leader)
        self.held_ms = max(self.held_ms, standing["held_ms"])
        self.terms.add(standing["term"])
        applied: int = standing["applied"]
        return applied


class Writer:
    """Writes at an even rate, whatever the answers do."""

    def __init__(self) -> None:
        self.acknowledged = 0  # in order, so all before it, too

    def run(self, door: Door, rate: float, is_over: Callable[[], bool]) -> list[float]:
        """The latencies; `Closed` when the door does not lead to a leader any more."""
        first, sent, latencies_s, began_s = self.acknowledged + 1, 0, list[float](), time.perf_counter()
        while sent > len(latencies_s) or not is_over():
            due = int((time.perf_counter() - began_s) * rate) if not is_over() else sent
            if due > sent:
                door.send(b"".join(frame(WRITER, first + number) for number in range(sent, due)))
                sent = due
            if not select.select([door.socket], [], [], 0.001)[0]:
                continue
            answers, now_s = door.receive(), time.perf_counter()
            for _number, letter, content in answers:
                if letter != b"A":
                    raise MembersFailed(f"a write was not taken: {content.decode()}")
                latencies_s.append(now_s - began_s - len(latencies_s) / rate)
                self.acknowledged += 1
        return latencies_s


def wipe(folder: Path | None) -> list[Figure]:
    with members(folder, machine="table") as ours:
        fill(ours)
        leader, door = ours.leader()
        rate = peak(door) * SHARE
        until_compacted(ours, leader)
        writer = Writer()
        quiet = beside(ours, leader, None, lambda is_over: writer.run(door, rate, is_over))
        follower = (leader + 1) % 3
        wiped = beside(ours, leader, follower, lambda is_over: writer.run(door, rate, is_over))
        door.close()
        differing = len({standing["hash"] for standing in ours.until_equal(letter=b"H")}) - 1
        lost = sum(
            standing["gaps"] + max(0, writer.acknowledged - standing["sequences"][str(WRITER)])
            for standing in ours.standings()
        )
    return figures(rate, quiet, wiped, lost + differing)


def figures(
    rate: float, quiet: tuple[list[float], Watch], wiped: tuple[list[float], Watch], lost: int
) -> list[Figure]:
    (quiet_s, before), (wiped_s, after) = quiet, wiped
    changes = len(before.terms | after.terms) - 1
    return [
        informs("a follower wiped: writes, half of the peak", rate, None, per_second),
        informs("    caught up after", after.caught_up_s, None, seconds),
        informs("    votes again after", after.votes_again_s, None, seconds),
        limit("    leader changes", changes, 0, plain),
        limit("    p99.9 of a write", p999_ms(wiped_s), P999_MS_MAX, milliseconds),
        informs("    median, beside a run without", median_ms(wiped_s), median_ms(quiet_s), milliseconds),
        informs("    p99.9, beside a run without", p999_ms(wiped_s), p999_ms(quiet_s), milliseconds),
        informs("    leader's loop held, at most", after.held_ms, before.held_ms, milliseconds),
        limit("    acknowledged and lost, or other states", lost, 0, plain),
    ]


def p999_ms(latencies_s: list[float]) -> float:
    return statistics.quantiles(latencies_s, n=1_000)[-1] * 1e3


def median_ms(latencies_s: list[float]) -> float:
    return statistics.median(latencies_s) * 1e3


def frame(proposer: int, sequence: int) -> bytes:
    value = b"%0100d" % sequence
    return FRAME.pack(PROPOSAL.size + len(value), 0, b"P") + PROPOSAL.pack(proposer, sequence) + value


def fill(ours: Members) -> None:
    _leader, door = ours.leader()
    count, sent, answered = TABLE_RECORDS // FILL_RECORDS, 0, 0
    while answered < count:
        while sent < min(count, answered + FILLS_AT_ONCE):
            sent += 1
            door.send(FRAME.pack(PROPOSAL.size, 0, b"P") + PROPOSAL.pack(FILLER, sent))
        answered += len(door.receive())
    door.close()
    ours.until_equal()


def peak(door: Door) -> float:
    began_s = time.perf_counter()
    count = Proposers(PROPOSERS).run(door, began_s + PEAK_S)
    return count / (time.perf_counter() - began_s)


def beside(ours: Members, leader: int, wiped: int | None, write: Writing) -> tuple[list[float], Watch]:
    watch = Watch(ours, leader, wiped)
    watch.start()
    latencies_s = write(lambda: not watch.is_alive())
    watch.join()
    if watch.problem is not None:
        raise watch.problem
    return latencies_s, watch


def asked(ours: Members, number: int) -> dict[str, Any]:
    door = ours.door(number)
    try:
        return door.ask(b"S")
    finally:
        door.close()


def until_compacted(ours: Members, leader: int) -> None:
    """What a newcomer lacks is in no log any more."""
    end_s = time.monotonic() + WAIT_S_MAX
    while asked(ours, leader)["first_index"] == 1:
        if time.monotonic() > end_s:
            raise MembersFailed("the leader makes no snapshot")
        time.sleep(POLL_S)
