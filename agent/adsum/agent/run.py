"""From a configuration to a running agent, and from a signal back to an exit status.

Everything that can fail for the operator to mend (a port that is taken, a data folder that another agent
holds) fails here before the loop starts, with one sentence and exit status 1.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import IO

import trio

from adsum.agent import crashes
from adsum.agent.assembly import SAVED_OF_OTHERS, Assembly
from adsum.agent.config.build import Loaded
from adsum.agent.file_limit import raise_file_limit
from adsum.agent.node import system_now
from adsum.agent.sockets import CannotStart
from adsum.observe import logs
from adsum.storage.disk import OsDisk
from adsum.storage.failures import StorageFailed
from adsum.storage.memory import MemoryDisk

log = logging.getLogger("agent")


def run_agent(loaded: Loaded, read_again: Callable[[], Loaded]) -> int:
    config = loaded.config
    try:
        stream = logs.start(config.log)
        for warning in loaded.warnings:
            log.warning(warning)
        lock = hold(config.data_dir)
        raise_file_limit()
        write_pid(config.pid_file)
        disk = OsDisk(Path(config.data_dir)) if config.data_dir else MemoryDisk()
        assembly = Assembly(loaded, read_again, disk, SystemRandom(), stream)
        crashes.begin(disk, system_now().wall_ms, SAVED_OF_OTHERS)
    except (CannotStart, OSError) as problem:
        print(f"The agent did not start: {problem}", file=sys.stderr)
        return 1
    try:
        exit_status = run_to_the_end(assembly, config.data_dir)
        with contextlib.suppress(OSError):  # a disk that fails is why it ends
            crashes.end(disk)
        return exit_status
    finally:
        remove_pid(config.pid_file)
        if lock is not None:
            lock.close()
        assembly.close_doors()


def run_to_the_end(assembly: Assembly, data_dir: str) -> int:
    exit_status = 0
    try:
        trio.run(assembly.run)
    except* CannotStart as problem:
        log.critical("the agent stops: %s", _first(problem))
        exit_status = 1
    except* StorageFailed as problem:
        where = f" in {data_dir}" if data_dir else ""
        log.critical("the agent stops, because it cannot keep what it promised%s: %s", where, _first(problem))
        exit_status = 1
    return exit_status


def hold(data_dir: str) -> IO[str] | None:
    """Two agents on one data folder would each undo what the other wrote."""
    if not data_dir:
        return None
    try:
        os.makedirs(data_dir, mode=0o700, exist_ok=True)
        path = Path(data_dir) / "lock"
        lock = open(path, "w", opener=_for_owner_only)  # noqa: SIM115 - held for the life of the process
    except OSError as problem:
        raise CannotStart(f"the data folder {data_dir} cannot be used: {problem.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CannotStart(f"the data folder {data_dir} is in use by another agent") from None
    return lock


def _for_owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def write_pid(path: str) -> None:
    if path:
        try:
            Path(path).write_text(f"{os.getpid()}\n")
        except OSError as problem:
            raise CannotStart(f"the pid file {path} cannot be written: {problem.strerror}") from None


def remove_pid(path: str) -> None:
    if path:
        Path(path).unlink(missing_ok=True)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
