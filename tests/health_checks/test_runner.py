from __future__ import annotations

import errno
import logging
import os

import pytest
import trio
import trio.testing

from adsum.catalog.definitions import CheckDefinition, CheckKind, CheckStatus
from adsum.catalog.effects import CheckRan
from adsum.health_checks import kinds
from adsum.health_checks.attempt import Surroundings
from adsum.health_checks.runner import CheckResult, Options, Runner
from adsum.health_checks.tcp import TcpAttempt
from adsum.now import MILLISECOND
from tests.health_checks.support import Bench, listen_only

PASSED = CheckResult(CheckStatus.PASSING, "let go")
CHECK = CheckDefinition(tcp="127.0.0.1:1")
SCRIPT = CheckDefinition(args=("true",))


class Gate:
    """Attempts that wait until they are let go, and tell how many are inside."""

    def __init__(self) -> None:
        self.opened = trio.Event()
        self.inside = 0
        self.most_inside = 0
        self.error: Exception | None = None

    def __call__(self, definition: CheckDefinition, surroundings: Surroundings) -> Gate:
        return self

    async def run(self) -> CheckResult:
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        try:
            if self.error is not None:
                raise self.error
            await self.opened.wait()
        finally:
            self.inside -= 1
        return PASSED

    def timed_out(self) -> CheckResult:
        return CheckResult(CheckStatus.CRITICAL, "timed out")


class Reports:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, CheckResult]] = []

    def __call__(self, ran: CheckRan) -> None:
        self.seen.append((ran.check_id, ran.run, CheckResult(ran.status, ran.output)))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()
    monkeypatch.setattr(kinds, "LOADED", dict.fromkeys(CheckKind, gate))
    return gate


@pytest.fixture
def reports() -> Reports:
    return Reports()


async def test_kind_is_loaded_once_by_the_first_of_its_checks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[CheckKind] = []

    def load(kind: CheckKind) -> kinds.Kind:
        loads.append(kind)
        return TcpAttempt

    monkeypatch.setattr(kinds, "LOADED", {})
    monkeypatch.setattr(kinds, "load", load)
    runner = bench.runner()
    definition = CheckDefinition(tcp=f"127.0.0.1:{await bench.serve(listen_only)}")
    results = []

    async def check() -> None:
        results.append((await runner.run_once(definition)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(check)
    assert results == [CheckStatus.PASSING] * 3
    assert loads == [CheckKind.TCP]


async def test_result_comes_by_report_with_its_run(
    nursery: trio.Nursery, gate: Gate, reports: Reports
) -> None:
    runner = Runner(nursery, reports)
    runner.start("c", 7, CHECK)
    assert reports.seen == []
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reports.seen == [("c", 7, PASSED)]
    assert runner.running == 0


async def test_runs_past_the_limit_wait_their_turn_in_order(
    nursery: trio.Nursery, gate: Gate, reports: Reports
) -> None:
    runner = Runner(nursery, reports, Options(network_runs_max=2))
    for number in range(6):
        runner.start(f"c{number}", 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    assert (runner.running, runner.waiting, runner.counters.queued) == (2, 4, 4)
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert gate.most_inside == 2
    assert sorted(check_id for check_id, _, _ in reports.seen[2:4]) == ["c2", "c3"]
    assert len(reports.seen) == 6


async def test_scripts_have_a_lane_of_their_own(nursery: trio.Nursery, gate: Gate, reports: Reports) -> None:
    runner = Runner(nursery, reports, Options(network_runs_max=1, process_runs_max=1))
    for check_id, definition in (("a", CHECK), ("b", CHECK), ("s", SCRIPT), ("t", SCRIPT)):
        runner.start(check_id, 1, definition)
    await trio.testing.wait_all_tasks_blocked()
    assert (gate.inside, runner.waiting) == (2, 2)
    gate.opened.set()


async def test_timeout_starts_when_the_run_does_not_when_it_queues(
    nursery: trio.Nursery, gate: Gate, reports: Reports, mock_clock: trio.testing.MockClock
) -> None:
    runner = Runner(nursery, reports, Options(network_runs_max=1))
    runner.start("first", 1, CHECK)
    runner.start("second", 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(10)
    await trio.testing.wait_all_tasks_blocked()
    assert [(check_id, result.output) for check_id, _, result in reports.seen] == [("first", "timed out")]
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reports.seen[1:] == [("second", 1, PASSED)]
    assert runner.counters.timeouts == 1


async def test_stopped_check_reports_nothing_and_frees_its_place(
    nursery: trio.Nursery, gate: Gate, reports: Reports
) -> None:
    runner = Runner(nursery, reports, Options(network_runs_max=1))
    for check_id in ("running", "waiting", "last"):
        runner.start(check_id, 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    runner.stop("running")
    runner.stop("waiting")
    runner.stop("never started")
    assert (runner.running, runner.waiting) == (1, 1)
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reports.seen == [("last", 1, PASSED)]
    assert (runner.running, runner.waiting) == (0, 0)


async def test_check_stopped_before_its_task_began_reports_nothing(
    nursery: trio.Nursery, reports: Reports
) -> None:
    """Such a run never waits for anything, so it isn't cancelled on its way."""
    runner = Runner(nursery, reports)
    runner.start("c", 1, CheckDefinition(tcp="no port"))
    runner.stop("c")
    await trio.testing.wait_all_tasks_blocked()
    assert reports.seen == []


async def test_newest_run_of_a_check_wins(nursery: trio.Nursery, gate: Gate, reports: Reports) -> None:
    runner = Runner(nursery, reports)
    runner.start("c", 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    runner.start("c", 2, CHECK)
    gate.opened.set()
    await trio.testing.wait_all_tasks_blocked()
    assert reports.seen == [("c", 2, PASSED)]
    assert runner.counters.replaced == 1


async def test_check_may_be_started_again_from_its_report(nursery: trio.Nursery, gate: Gate) -> None:
    seen: list[int] = []

    def report(ran: CheckRan) -> None:
        seen.append(ran.run)
        if ran.run < 5:
            runner.start(ran.check_id, ran.run + 1, CHECK)

    runner = Runner(nursery, report, Options(network_runs_max=1))
    gate.opened.set()
    runner.start("c", 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [1, 2, 3, 4, 5]


async def test_error_of_ours_is_a_critical_result_and_logged(
    nursery: trio.Nursery, gate: Gate, reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    gate.error = RuntimeError("oh no")
    runner = Runner(nursery, reports)
    with caplog.at_level(logging.ERROR):
        runner.start("c", 1, CheckDefinition(check_id="c", tcp="127.0.0.1:1"))
        await trio.testing.wait_all_tasks_blocked()
    text = "the agent could not run this check: RuntimeError: oh no"
    assert reports.seen == [("c", 1, CheckResult(CheckStatus.CRITICAL, text))]
    assert runner.counters.internal_errors == 1
    assert "check 'c' failed inside the agent" in caplog.text


async def test_error_of_ours_is_logged_once_a_minute(
    bench: Bench, gate: Gate, mock_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    gate.error = RuntimeError("oh no")
    runner = bench.runner()
    for _ in range(3):
        await runner.run_once(CHECK)
    assert len(caplog.records) == 1
    mock_clock.jump(60)
    await runner.run_once(CHECK)
    assert len(caplog.records) == 2


async def test_failing_runs_leave_no_descriptor_open(bench: Bench, refusing_port: int) -> None:
    port = await bench.serve_answer(b"HTTP/1.1 nonsense\r\n\r\n")
    silent = await bench.serve(listen_only)
    soon_ns = 20 * MILLISECOND
    definitions = [
        CheckDefinition(http=f"http://127.0.0.1:{port}/"),
        CheckDefinition(http=f"https://127.0.0.1:{port}/", timeout_ns=soon_ns),
        CheckDefinition(http=f"http://127.0.0.1:{silent}/", timeout_ns=soon_ns),
        CheckDefinition(tcp=f"localhost:{refusing_port}"),
        CheckDefinition(grpc=f"127.0.0.1:{port}", timeout_ns=soon_ns),
        CheckDefinition(h2ping=f"127.0.0.1:{silent}", timeout_ns=soon_ns),
        CheckDefinition(args=("sleep", "600"), timeout_ns=soon_ns),
        CheckDefinition(args=("/nonexistent/x",)),
    ]
    for definition in definitions:
        await bench.run(definition)
    await trio.testing.wait_all_tasks_blocked(0.01)
    before = os.listdir("/proc/self/fd")
    for definition in definitions:
        await bench.run(definition)
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert len(os.listdir("/proc/self/fd")) <= len(before)


@pytest.mark.parametrize(
    "definition", [CheckDefinition(ttl_ns=1), CheckDefinition(alias_service="x"), CheckDefinition()]
)
async def test_kinds_that_are_state_are_not_run(nursery: trio.Nursery, definition: CheckDefinition) -> None:
    result = await Runner(nursery, Reports()).run_once(definition)
    assert result.status is CheckStatus.CRITICAL
    assert "is not one that can be run" in result.output


async def test_results_are_counted_by_status(nursery: trio.Nursery) -> None:
    runner = Runner(nursery, Reports())
    for code in ("0", "0", "1", "2"):
        await runner.run_once(CheckDefinition(args=("sh", "-c", f"exit {code}")))
    counters = runner.counters
    assert (counters.runs, counters.passing, counters.warning, counters.critical) == (4, 2, 1, 1)


async def test_a_check_that_met_a_shortage_is_critical_and_no_bug(
    nursery: trio.Nursery, gate: Gate, reports: Reports, caplog: pytest.LogCaptureFixture
) -> None:
    gate.error = OSError(errno.EMFILE, "Too many open files")
    runner = Runner(nursery, reports)
    runner.start("c", 1, CHECK)
    await trio.testing.wait_all_tasks_blocked()
    ((_, _, result),) = reports.seen
    assert result.status is CheckStatus.CRITICAL
    assert result.output.startswith("the agent could not run this check: too many open files: raise")
    assert runner.counters.internal_errors == 0
    assert caplog.records == []
