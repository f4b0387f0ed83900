"""What swarms of clients have in common, whatever those ask: faults happen for a while, then they end, and
all that was asked has to be answered. Which clients and faults there are, and what their answers are worth,
is for `key_swarm` and `lock_swarm` to say.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Generic, Protocol, TypeVar

from adsum.now import SECOND
from adsum.testing.checkers import demand
from adsum.testing.fault_table import Met, never_met, told_table
from adsum.testing.key_clients import KeyParticipant
from adsum.testing.key_nemesis import KeyNemesis
from adsum.testing.key_world import RESULTS_BYTES_MAX, KeyWorld

CALM_S = 2  # until there is a leader
OPERATIONS_MIN = 200  # answered
BRIEF_ONE_IN = 3  # of the seeds hold requests for so short a time that many are refused
BRIEF_HOLD_NS = SECOND // 2
FORGETFUL_ONE_IN = 4  # of the seeds remember so few answers that a repeated request may find its own gone
FORGETFUL_BYTES = 600

Workload = Callable[[Random], Sequence[KeyParticipant]]


def results_bytes_max(seed: int) -> int:
    return FORGETFUL_BYTES if seed % FORGETFUL_ONE_IN == 2 else RESULTS_BYTES_MAX


def hold_ns(seed: int) -> int | None:
    return BRIEF_HOLD_NS if seed % BRIEF_ONE_IN == 1 else None


class ClientSwarmRun(ABC):
    """Of one seed."""

    def __init__(self, world: KeyWorld, nemesis: KeyNemesis, kinds: Sequence[str], random: Random) -> None:
        self.kinds = tuple(kinds)
        self.nemesis = nemesis
        self.participants: list[KeyParticipant] = []
        self._driven = world
        self._random = random

    @property
    @abstractmethod
    def answered(self) -> int:
        """Requests, without those that wait for a change."""

    def go_through(self, workloads: Iterable[Workload], *, faults_s: int, recovery_s: int) -> None:
        """Raises `Violation`."""
        world = self._driven
        world.run_for(CALM_S * SECOND)
        for workload in workloads:
            self.participants += workload(Random(self._random.getrandbits(64)))
        self.nemesis.begin(list(self.kinds))
        world.run_for(faults_s * SECOND)
        self.nemesis.end()
        is_enough = world.run_until_so(self._is_enough, within_ns=recovery_s * SECOND)
        demand(is_enough, f"{self.answered} requests were answered, {recovery_s} s after the faults ended")
        for participant in self.participants:
            participant.stop()
        has_settled = world.run_until_so(self._has_settled, within_ns=recovery_s * SECOND)
        waiting = [type(each).__name__ for each in self.participants if not each.is_settled]
        demand(has_settled, f"{recovery_s} s after the faults ended, these wait: {waiting}")

    def _is_enough(self) -> bool:
        return self.nemesis.has_mended() and self.answered >= OPERATIONS_MIN

    def _has_settled(self) -> bool:
        return all(participant.is_settled for participant in self.participants)


class SeedOutcome(Protocol):
    @property
    def seed(self) -> int: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    @property
    def met(self) -> Met: ...

    @property
    def failure(self) -> str: ...


Outcome = TypeVar("Outcome", bound=SeedOutcome)


class SwarmReport(Generic[Outcome]):
    """On the terminal: failures at once, and at the end which fault met which operation."""

    def __init__(self, faults: Sequence[str], operations: Sequence[str]) -> None:
        self.failed: list[Outcome] = []
        self._met = Met()
        self._faults, self._operations = faults, operations

    def add(self, outcome: Outcome) -> None:
        self._met.update(outcome.met)
        if outcome.failure:
            self.failed.append(outcome)
            sys.stdout.write(f"seed {outcome.seed} ({' '.join(outcome.kinds)}): {outcome.failure}\n")
            sys.stdout.flush()

    def end(self, trace_of: Callable[[int], str], told: str) -> int:
        """With the trace of the first that failed, and what was `told` of all in the last line."""
        first = min((outcome.seed for outcome in self.failed), default=None)
        if first is not None:
            sys.stdout.write(trace_of(first) + "\n")
        sys.stdout.write(told_table(self._met, self._faults, self._operations) + "\n")
        missing = never_met(self._met, self._faults, self._operations)
        sys.stdout.write(
            f"Never met: {', '.join(missing)}.\n" if missing else "Each fault met each operation.\n"
        )
        named = f", first {first}" if first is not None else ""
        sys.stdout.write(f"{told}: {len(self.failed)} failed{named}.\n")
        return 1 if self.failed else 0
