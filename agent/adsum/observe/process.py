"""What this process costs, as far as Python and Linux tell at next to no price.

The kernel's files about it are opened once: these figures are wanted most when no other file can be opened.
How many are open is the size of the folder that lists them, since Linux 6.2; before, they are counted. The
names are those that every client of Prometheus uses, and so are the alerts on them.
"""

from __future__ import annotations

import errno
import os
import resource
import time
from functools import cache
from pathlib import Path

import trio

from adsum.observe.series import counter, gauge, table

STATM = "/proc/self/statm"  # pages: whole, resident, …
STATM_BYTES_MAX = 256
OPEN_FILES = "/proc/self/fd"
BEGUN_FIELD = 19  # of /proc/self/stat, behind the name: in ticks since the host was started


def resident_bytes(_sources: object) -> int:
    return _pages(1) * resource.getpagesize()


def virtual_bytes(_sources: object) -> int:
    return _pages(0) * resource.getpagesize()


def open_files(sources: object) -> int:
    counted = os.fstat(_kept(OPEN_FILES)).st_size
    if counted:
        return counted
    try:
        return len(os.listdir(OPEN_FILES)) - 1  # the list itself
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        return files_max(sources)


def files_max(_sources: object) -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def processor_s(_sources: object) -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@cache
def begun_s() -> float:
    """Since 1970; a clock that is set later does not change it."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[BEGUN_FIELD])
    host_s = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - host_s + ticks / os.sysconf("SC_CLK_TCK")


def tasks(_sources: object) -> int:
    try:
        return trio.lowlevel.current_statistics().tasks_living
    except RuntimeError:
        return 0  # asked outside the loop, where there are none


def _pages(column: int) -> int:
    return int(os.pread(_kept(STATM), STATM_BYTES_MAX, 0).split()[column])


@cache
def _kept(path: str) -> int:
    """For as long as the process lives."""
    return os.open(path, os.O_RDONLY)


PROCESS = table(
    "Processor time that this process has taken.",
    counter("process_cpu_seconds_total", processor_s),
    "Files that this process may open.",
    gauge("process_max_fds", files_max),
    "Files that this process has open.",
    gauge("process_open_fds", open_files),
    "Memory that this process has.",
    gauge("process_resident_memory_bytes", resident_bytes),
    "When this process was started, in seconds since 1970.",
    gauge("process_start_time_seconds", lambda _sources: begun_s()),
    "Memory that this process might use.",
    gauge("process_virtual_memory_bytes", virtual_bytes),
)
