"""A service of this host's own, as systemd sees it: `systemctl is-active NAME`.

Consul's check of this kind works on Windows only; on Linux the init system is the one to ask.
"""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckResult, Surroundings, critical, passing
from adsum.health_checks.output import Tail
from adsum.health_checks.script import critical_for_time, run_process

STATE_BYTES_MAX = 256  # one word, or a complaint of systemctl's


class OsServiceAttempt:
    def __init__(
        self, definition: CheckDefinition, surroundings: Surroundings, systemctl: str = "systemctl"
    ) -> None:
        self._definition = definition
        self._counters = surroundings.counters
        self._tail = Tail(STATE_BYTES_MAX)
        # "--": a name may start with a dash
        self._args = (systemctl, "is-active", "--", definition.os_service)

    async def run(self) -> CheckResult:
        name = self._definition.os_service
        if await run_process(self._args, self._tail, self._counters) == 0:
            return passing(f'Service "{name}" is healthy')
        return critical(f'Service "{name}" is not running: {self._tail.text().strip()}')

    def timed_out(self) -> CheckResult:
        return critical_for_time(self._definition, self._tail)
