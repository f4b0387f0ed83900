"""Real processes; texts are Consul 1.8.7's for the same scripts."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.effects import CheckRan
from adsum.health_checks.runner import CheckResult, Options, Runner
from adsum.health_checks.script import FLOOD_BYTES
from adsum.now import MILLISECOND, SECOND
from tests.health_checks.support import Bench

SOON_NS = 100 * MILLISECOND


def shell(script: str, timeout_ns: int = 60 * SECOND) -> CheckDefinition:
    return CheckDefinition(args=("sh", "-c", script), timeout_ns=timeout_ns)


@pytest.mark.parametrize(
    ("script", "status", "output"),
    [
        ("echo out; echo err >&2", CheckStatus.PASSING, "out\nerr\n"),
        ("echo warn; exit 1", CheckStatus.WARNING, "warn\n"),
        ("echo crit; exit 2", CheckStatus.CRITICAL, "crit\n"),
        ("exit 255", CheckStatus.CRITICAL, ""),
        ("kill -9 $$", CheckStatus.CRITICAL, ""),
        ("cat", CheckStatus.PASSING, ""),
        ("printf '\\377\\376ok'", CheckStatus.PASSING, "\ufffd\ufffdok"),
        ("exec >&- 2>&-; exit 1", CheckStatus.WARNING, ""),
    ],
)
async def test_exit_code_decides_and_both_streams_are_the_output(
    bench: Bench, script: str, status: CheckStatus, output: str
) -> None:
    assert await bench.run(shell(script)) == CheckResult(status, output)


async def test_environment_is_the_agents(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADSUM_TEST", "inherited")
    assert (await bench.run(shell('echo "$ADSUM_TEST"'))).output == "inherited\n"


async def test_long_output_keeps_its_end(bench: Bench) -> None:
    result = await bench.run(shell("head -c 8991 /dev/zero | tr '\\0' x; echo the end."))
    assert result.output == "Captured 4096 of 9000 bytes\n...\n" + "x" * 4087 + "the end.\n"
    assert bench.counters.outputs_cut == 1


async def test_output_limit_of_the_agent_holds(bench: Bench) -> None:
    result = await bench.run(shell("printf 0123456789"), Options(output_bytes_max=4))
    assert result.output == "Captured 4 of 10 bytes\n...\n6789"


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("/nonexistent/x", "fork/exec /nonexistent/x: no such file or directory"),
        ("no-such-program-x", 'exec: "no-such-program-x": executable file not found in $PATH'),
        ("/tmp", "fork/exec /tmp: permission denied"),
        ("", "fork/exec : no such file or directory"),
        ("a\0b", "fork/exec a\0b: invalid argument"),
    ],
)
async def test_program_that_cannot_start_is_critical(bench: Bench, program: str, output: str) -> None:
    result = await bench.run(CheckDefinition(args=(program,)))
    assert result == CheckResult(CheckStatus.CRITICAL, output)


async def test_file_that_is_no_program_is_critical(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    path.write_text("no shebang")
    path.chmod(0o755)
    result = await bench.run(CheckDefinition(args=(str(path),)))
    assert result.output == f"fork/exec {path}: exec format error"


async def test_silent_timeout_is_one_line(bench: Bench) -> None:
    result = await bench.run(shell("sleep 600", SOON_NS))
    assert result == CheckResult(CheckStatus.CRITICAL, "Timed out (100ms) running check")


class Watched:
    """A script that has printed, and whose processes' lives show in who holds a pipe open."""

    def __init__(self, tmp_path: Path) -> None:
        self.fifo = tmp_path / "alive"
        os.mkfifo(self.fifo)

        self.said = b""
        self._descriptor = -1

    async def wait_until_running(self) -> None:
        """Opening for reading waits for a writer; the first line says that it printed."""
        self._descriptor = await trio.to_thread.run_sync(os.open, self.fifo, os.O_RDONLY)
        self.said = await trio.to_thread.run_sync(os.read, self._descriptor, 100)

    async def wait_until_gone(self) -> None:
        """End of file comes when the last holder is dead."""
        assert await trio.to_thread.run_sync(os.read, self._descriptor, 100) == b""
        os.close(self._descriptor)


async def test_timeout_shows_the_output_and_kills_grandchildren(
    bench: Bench, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    watched = Watched(tmp_path)
    script = f"echo part; exec 3>{watched.fifo}; (sleep 600) & echo up >&3; wait"
    definition = shell(script, 1 * SECOND)
    result = await bench.run_past_its_deadline(definition, mock_clock, watched.wait_until_running)
    assert result == CheckResult(CheckStatus.CRITICAL, "Timed out (1s) running check\n\npart\n")
    await watched.wait_until_gone()
    assert bench.counters.processes_left == 0


async def test_stopped_check_kills_its_processes_and_reports_nothing(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    watched = Watched(tmp_path)
    reported: list[CheckRan] = []
    runner = Runner(nursery, reported.append)
    runner.start("s", 1, shell(f"exec 3>{watched.fifo}; sleep 600 & echo up >&3; wait"))
    await watched.wait_until_running()
    runner.stop("s")
    await watched.wait_until_gone()
    await trio.testing.wait_all_tasks_blocked()
    assert reported == []


async def test_child_left_behind_with_the_output_open_times_out_and_is_killed(
    bench: Bench, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    """As Consul: the script itself has exited 0 long ago."""
    watched = Watched(tmp_path)
    definition = shell(f"(exec 3>{watched.fifo}; echo up >&3; exec sleep 600) & exit 0", 1 * SECOND)
    result = await bench.run_past_its_deadline(definition, mock_clock, watched.wait_until_running)
    assert result.output == "Timed out (1s) running check"
    await watched.wait_until_gone()


async def test_child_that_left_the_group_cannot_hold_the_check(
    bench: Bench, mock_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    watched = Watched(tmp_path)
    detached = f"setsid sh -c 'exec 3>{watched.fifo}; echo $$ >&3; exec sleep 600' & exit 0"
    definition = shell(detached, 1 * SECOND)
    result = await bench.run_past_its_deadline(definition, mock_clock, watched.wait_until_running)
    assert result.output == "Timed out (1s) running check"
    assert bench.counters.processes_left == 0
    os.kill(int(watched.said), 9)
    await watched.wait_until_gone()


async def test_a_script_that_may_not_be_killed_is_left_and_counted(
    bench: Bench, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs as somebody else by now."""
    started: list[trio.Process] = []
    open_process = trio.lowlevel.open_process

    async def remembered(*args: Any, **options: Any) -> trio.Process:
        started.append(await open_process(*args, **options))
        return started[0]

    def refused(_group: int, _number: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as kernel:
        kernel.setattr(trio.lowlevel, "open_process", remembered)
        kernel.setattr(os, "killpg", refused)
        result = await bench.run(shell("exec sleep 600", 1 * SECOND))
    started[0].kill()
    await started[0].wait()
    assert result == CheckResult(CheckStatus.CRITICAL, "Timed out (1s) running check")
    assert bench.counters.processes_left == 1


@pytest.mark.parametrize(
    ("place", "name", "refusal"),
    [
        (subprocess, "Popen", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
        (trio.to_thread, "run_sync", RuntimeError("can't start new thread")),
    ],
)
async def test_a_program_for_which_there_is_no_process_or_thread_is_critical(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: object, name: str, refusal: Exception
) -> None:
    def refused(*_args: object, **_kwargs: object) -> None:
        raise refusal

    await bench.run(shell("true"))  # its code is loaded, in a thread
    with monkeypatch.context() as kernel:
        kernel.setattr(place, name, refused)
        result = await bench.run(shell("true"))
    assert result.status is CheckStatus.CRITICAL
    assert result.output == "fork/exec sh: resource temporarily unavailable"
    assert bench.counters.internal_errors == 0


async def test_flood_is_read_slowly_and_ended_by_the_timeout(
    bench: Bench, mock_clock: trio.testing.MockClock
) -> None:
    async def until_slowed() -> None:
        while not bench.counters.floods_slowed:
            await trio.lowlevel.checkpoint()

    result = await bench.run_past_its_deadline(shell("yes", 1 * SECOND), mock_clock, until_slowed)
    captured = re.fullmatch(
        r"Timed out \(1s\) running check\n\nCaptured 4096 of (\d+) bytes\n.*", result.output, re.DOTALL
    )
    assert captured is not None
    assert FLOOD_BYTES < int(captured[1]) <= FLOOD_BYTES + 2 * 65536  # a pipe-full each time the clock moves
