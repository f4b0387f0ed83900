"""Runs checks when told to, and says what came of them. When to run, and what a result means, is the core's.

A run is one task with one deadline. Runs share two lanes, one for sockets and one for processes, each with
a limit; past it a run waits its turn, first come first served, and its timeout starts when its turn comes.
A lane's queue holds each check at most once, so it is never longer than the number of checks. Whatever a
target does, the run ends at its deadline with a result; `stop` ends it at once and silently.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field

import trio

from adsum.catalog.definitions import CheckDefinition, CheckKind, CheckStatus
from adsum.catalog.effects import CheckRan
from adsum.health_checks import kinds
from adsum.health_checks.attempt import CheckFailed, CheckResult, Counters, Options, Surroundings, critical
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told
from adsum.mutable import dataclass
from adsum.now import SECOND

__all__ = ["CheckResult", "Counters", "Options", "Runner"]

log = logging.getLogger("agent.checks")

FAILURE_CHARACTERS_MAX = 4096  # an error may quote a URL that the target chose
PROCESS_KINDS = frozenset((CheckKind.SCRIPT, CheckKind.OS_SERVICE))


class Runner:
    def __init__(
        self,
        nursery: trio.Nursery,
        report: Callable[[CheckRan], None],
        options: Options | None = None,
        counters: Counters | None = None,
    ) -> None:
        self.counters = counters or Counters()
        self._options = options or Options()
        self._surroundings = Surroundings(self._options, self.counters)
        self._nursery = nursery
        self._report = report
        self._runs: dict[str, RunningCheck] = {}
        self._complaints = Complaints(log)
        self._network = Lane(self._options.network_runs_max)
        self._processes = Lane(self._options.process_runs_max)

    def start(self, check_id: str, run: int, definition: CheckDefinition) -> None:
        """Never blocks; the result comes by `report`. A run of the same check still under way is stopped."""
        if check_id in self._runs:
            self.counters.replaced += 1
            self.stop(check_id)
        lane = self._processes if definition.kind in PROCESS_KINDS else self._network
        started = RunningCheck(check_id, run, definition, lane)
        self._runs[check_id] = started
        if lane.running < lane.runs_max:
            self._launch(started)
        else:
            self.counters.queued += 1
            lane.waiting[check_id] = started

    def stop(self, check_id: str) -> None:
        """Nothing is reported any more; what it started is ended."""
        stopped = self._runs.pop(check_id, None)
        if stopped is not None:
            stopped.lane.waiting.pop(check_id, None)
            stopped.scope.cancel()

    @property
    def running(self) -> int:
        return self._network.running + self._processes.running

    @property
    def waiting(self) -> int:
        return len(self._network.waiting) + len(self._processes.waiting)

    async def run_once(self, definition: CheckDefinition) -> CheckResult:
        """Raises nothing but Cancelled."""
        self.counters.runs += 1
        try:
            result = await self._attempt(definition)
        except CheckFailed as failure:
            result = critical(str(failure)[:FAILURE_CHARACTERS_MAX])
        except Exception as error:
            # Whatever a target made us do wrong, its check must get a result and the agent must live.
            if is_shortage(error):
                result = critical(f"the agent could not run this check: {told(error)}")
            else:
                self.counters.internal_errors += 1
                sentence = "check %r failed inside the agent"
                self._complaints.say("bug", sentence, definition.check_id, level=logging.ERROR, trace=error)
                result = critical(f"the agent could not run this check: {type(error).__name__}: {error}")
        self._count(result.status)
        return result

    async def _attempt(self, definition: CheckDefinition) -> CheckResult:
        kind = await kinds.get(definition.kind)
        attempt = kind(definition, self._surroundings)
        with trio.move_on_after(definition.effective_timeout_ns / SECOND):
            return await attempt.run()
        self.counters.timeouts += 1
        return attempt.timed_out()

    def _launch(self, run: RunningCheck) -> None:
        run.lane.running += 1
        self._nursery.start_soon(self._perform, run)

    async def _perform(self, run: RunningCheck) -> None:
        try:
            with run.scope:
                result = await self.run_once(run.definition)
                if self._runs.get(run.check_id) is run:
                    del self._runs[run.check_id]
                    self._report(CheckRan(run.check_id, run.number, result.status, result.output))
        finally:
            lane = run.lane
            lane.running -= 1
            if lane.waiting and lane.running < lane.runs_max:
                _check_id, following = lane.waiting.popitem(last=False)
                self._launch(following)

    def _count(self, status: CheckStatus) -> None:
        if status is CheckStatus.PASSING:
            self.counters.passing += 1
        elif status is CheckStatus.WARNING:
            self.counters.warning += 1
        else:
            self.counters.critical += 1


@dataclass(slots=True)
class Lane:
    runs_max: int
    running: int = 0
    waiting: OrderedDict[str, RunningCheck] = field(default_factory=OrderedDict)


@dataclass(slots=True, eq=False)
class RunningCheck:
    check_id: str
    number: int
    definition: CheckDefinition
    lane: Lane
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
