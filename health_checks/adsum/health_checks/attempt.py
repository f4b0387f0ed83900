"""One run of one check, and what every kind of check shares.

A kind is a class with `run`, which does the work, and `timed_out`, which says what there is to say when the
time is up: only the kind knows how far it got (a UDP check that heard nothing is healthy, an HTTP check that
has seen a status line keeps it). The deadline itself is the runner's, so no kind can forget it.
Whatever goes wrong with a target is a `CheckFailed`, whose text is the check's output, in Go's words where
Consul's users have seen them before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

import trio

from adsum import frozen, mutable
from adsum.catalog.definitions import OUTPUT_BYTES_MAX, CheckDefinition, CheckStatus
from adsum.health_checks.proxy import Proxies
from adsum.health_checks.tls import TlsContexts

NETWORK_RUNS_MAX = 1024  # a socket each; half of what 2,000 checks of hanging targets would open
PROCESS_RUNS_MAX = 64  # a process each; scripts are heavy, and the host has other work
RESOLVER_THREADS_MAX = 16  # a dead resolver holds a thread for as long as libc likes
USER_AGENT = "Consul Health Check"  # firewalls and access logs know this name


class CheckFailed(Exception):
    """The target's fault, or that of the definition: normal in operation. The text is the check's output."""


@frozen.dataclass(frozen=True, slots=True)
class CheckResult:
    status: CheckStatus
    output: str


def critical(output: str) -> CheckResult:
    return CheckResult(CheckStatus.CRITICAL, output)


def passing(output: str) -> CheckResult:
    return CheckResult(CheckStatus.PASSING, output)


class Attempt(Protocol):
    async def run(self) -> CheckResult:
        """May raise CheckFailed. Cancelled at the deadline."""

    def timed_out(self) -> CheckResult: ...


@mutable.dataclass(slots=True)
class Counters:
    """Since start. The metrics collector reads them; nothing here resets them."""

    runs: int = 0
    passing: int = 0
    warning: int = 0
    critical: int = 0
    timeouts: int = 0
    queued: int = 0  # had to wait because a lane was full
    replaced: int = 0  # started again while still running: the older run was cancelled
    bodies_cut: int = 0  # HTTP bodies and docker outputs longer than we read
    outputs_cut: int = 0  # script outputs longer than we keep
    floods_slowed: int = 0  # scripts read slowly because they print without end
    processes_left: int = 0  # killed, and still not gone when we stopped waiting
    internal_errors: int = 0  # bugs of ours, reported as a critical result and logged


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    output_bytes_max: int = OUTPUT_BYTES_MAX  # check_output_max_size; a definition may ask for less
    user_agent: str = USER_AGENT
    network_runs_max: int = NETWORK_RUNS_MAX
    process_runs_max: int = PROCESS_RUNS_MAX
    # HTTP proxies and DOCKER_HOST; scripts inherit the real one.
    environ: Mapping[str, str] = field(default_factory=dict)


class Surroundings:
    """What outlives a run and is shared by all of them."""

    def __init__(self, options: Options, counters: Counters) -> None:
        self.options = options
        self.counters = counters
        self.tls = TlsContexts()
        self.proxies = Proxies.from_environ(options.environ)
        # each may have a file open, and outlive its run
        self.resolver_threads = trio.CapacityLimiter(min(RESOLVER_THREADS_MAX, options.network_runs_max))

    def output_bytes_max(self, definition: CheckDefinition) -> int:
        asked = definition.output_max_size
        return min(asked, self.options.output_bytes_max) if asked > 0 else self.options.output_bytes_max
