"""A script check runs a program and reads its exit code: 0 passing, 1 warning, anything else critical.

The program leads a process group of its own, and the whole group is killed at the deadline or when the
check is removed. A run ends when the program has exited *and* nobody holds its output open any more, as in
Consul: a script that leaves a child behind with the pipe in its hand times out. A child that also left the
group can't be killed, but it holds nothing of ours: we close our end and go on.
The leader is reaped only after its output ended or its group was killed, so the group's number can't have
been given to somebody else in between.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Mapping

import trio

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.durations import format_duration
from adsum.health_checks.attempt import CheckFailed, CheckResult, Counters, Surroundings, critical
from adsum.health_checks.dial import go_error
from adsum.health_checks.output import Tail
from adsum.logs.system_errors import is_shortage_at_start

FLOOD_BYTES = 1024 * 1024  # a script that printed this much is read slowly from here on
FLOOD_PAUSE_S = 0.02  # one pipe-full each: 3 MB a second, for about half a percent of a core
REAP_TIMEOUT_S = 2.0  # a killed process is gone in milliseconds, unless it hangs in the kernel


class ScriptAttempt:
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._counters = surroundings.counters
        self._tail = Tail(surroundings.output_bytes_max(definition))

    async def run(self) -> CheckResult:
        code = await run_process(self._definition.args, self._tail, self._counters)
        self._counters.outputs_cut += self._tail.overflowed
        return CheckResult(exit_status(code), self._tail.captured_text())

    def timed_out(self) -> CheckResult:
        return critical_for_time(self._definition, self._tail)


def exit_status(code: int) -> CheckStatus:
    return {0: CheckStatus.PASSING, 1: CheckStatus.WARNING}.get(code, CheckStatus.CRITICAL)


def critical_for_time(definition: CheckDefinition, tail: Tail) -> CheckResult:
    text = f"Timed out ({format_duration(definition.effective_timeout_ns)}) running check"
    output = tail.captured_text()
    return critical(f"{text}\n\n{output}" if output else text)


async def run_process(
    args: tuple[str, ...],
    tail: Tail,
    counters: Counters,
    *,
    stdin: int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> int:
    """The exit code (negative for a signal), with what it printed in `tail`. Kills the group if cancelled."""
    try:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise CheckFailed(f"pipe: {go_error(error)}") from error
    output = trio.lowlevel.FdStream(read_end)
    try:
        try:
            process = await _start(args, stdin, write_end, environment)
        finally:
            os.close(write_end)
        try:
            await _read_all(output, tail, counters)
            return await process.wait()
        except BaseException:
            await _kill_group(process, counters)
            raise
    finally:
        output.close()


async def _start(
    args: tuple[str, ...], stdin: int, output: int, environment: Mapping[str, str] | None
) -> trio.Process:
    if not args[0]:  # Python would look through $PATH for it, and be told that a folder can't be run
        raise CheckFailed(f"fork/exec : {go_error(OSError(errno.ENOENT, ''))}")
    try:
        return await trio.lowlevel.open_process(
            args, stdin=stdin, stdout=output, stderr=output, process_group=0, env=environment
        )
    except FileNotFoundError as error:
        if "/" not in args[0]:
            raise CheckFailed(f'exec: "{args[0]}": executable file not found in $PATH') from error
        raise CheckFailed(f"fork/exec {args[0]}: {go_error(error)}") from error
    except OSError as error:
        raise CheckFailed(f"fork/exec {args[0]}: {go_error(error)}") from error
    except RuntimeError as error:
        # The limit of processes is one of threads as well, and it is a thread that starts the program.
        if not is_shortage_at_start(error):
            raise
        refused = OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        raise CheckFailed(f"fork/exec {args[0]}: {go_error(refused)}") from refused
    except ValueError as error:  # a NUL inside an argument
        raise CheckFailed(f"fork/exec {args[0]}: invalid argument") from error


async def _read_all(output: trio.lowlevel.FdStream, tail: Tail, counters: Counters) -> None:
    async for data in output:
        was_flooding = tail.total_bytes > FLOOD_BYTES
        tail.append(data)
        if tail.total_bytes > FLOOD_BYTES:
            counters.floods_slowed += not was_flooding
            await trio.sleep(FLOOD_PAUSE_S)


async def _kill_group(process: trio.Process, counters: Counters) -> None:
    # All of them are gone already, or none may be killed by us, as they run as somebody else.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.move_on_after(REAP_TIMEOUT_S, shield=True) as reaping:
        await process.wait()
    counters.processes_left += reaping.cancelled_caught
