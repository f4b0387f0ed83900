"""From a configuration to a running agent, and from a signal back to an exit status.

Everything that can fail for the operator to mend (a port that is taken, a data folder that another agent
holds) fails here before the loop starts, with one sentence and exit status 1.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import SystemRandom

import trio

from adsum.config.build import Loaded
from adsum.logs import setup
from adsum.logs.system_errors import UNWRITABLE, told
from adsum.process import crashes
from adsum.process.assembly import SAVED_OF_OTHERS, Assembly
from adsum.process.data_folder import DataFolder
from adsum.process.file_limit import raise_file_limit
from adsum.process.sockets import CannotStart
from adsum.process.system_clock import system_now
from adsum.storage.disk import OsDisk
from adsum.storage.failures import StorageFailed
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed, OwingDisk

log = logging.getLogger("agent")

REFUSALS = (CannotStart, StorageFailed, OSError)


def run_agent(loaded: Loaded, read_again: Callable[[], Loaded]) -> int:
    config = loaded.config
    try:
        stream = setup.start(config.log)
        for warning in loaded.warnings:
            log.warning(warning)
        folder = DataFolder(config.data_dir) if config.data_dir else None
        raise_file_limit()
        owed = Owed(OsDisk(Path(config.data_dir)), folder.renew) if folder else Owed(MemoryDisk())
        assembly = Assembly(loaded, read_again, owed, folder, SystemRandom(), stream)
        keep_pid(config.pid_file, owed)  # with the ports bound: a second agent leaves the first one's alone
    except REFUSALS as problem:
        return _refused(problem)
    try:
        try:
            crashes.begin(OwingDisk(owed), system_now().wall_ms, SAVED_OF_OTHERS)
        except REFUSALS as problem:
            return _refused(problem)
        exit_status = run_to_the_end(assembly, config.data_dir)
        with suppress(OSError, StorageFailed):  # with no room for it, it was not begun either
            crashes.end(owed.disk)
        return exit_status
    finally:
        remove_pid(config.pid_file)
        if folder is not None:
            folder.close()
        assembly.close_doors()


def _refused(problem: BaseException) -> int:
    print(f"The agent did not start: {problem}", file=sys.stderr)
    return 1


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


def keep_pid(path: str, owed: Owed) -> None:
    if path and (problem := owed.do(path, partial(_write_pid, path))):
        if problem.errno not in UNWRITABLE:
            raise CannotStart(f"the pid file {path} cannot be written: {problem.strerror}")
        log.warning("the pid file %s is not written yet: %s", path, told(problem))


def _write_pid(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")


def remove_pid(path: str) -> None:
    if path:
        with suppress(OSError):  # it was written when the disk could be
            Path(path).unlink(missing_ok=True)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
