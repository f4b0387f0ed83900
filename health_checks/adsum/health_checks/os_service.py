"""A service of this host's own, as systemd sees it: `systemctl is-active NAME`.

Consul's check of this kind works on Windows only; on Linux the init system is the one to ask.
"""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckResult, Surroundings, critical, passing
from adsum.health_checks.output import Tail
from adsum.health_checks.script import run_process, timed_out_text

STATE_BYTES_MAX = 256  # one word, or a complaint of systemctl's


class OsServiceAttempt:
    def __init__(
        self, definition: CheckDefinition, surroundings: Surroundings, systemctl: str = "systemctl"
    ) -> None:
        self._name = definition.os_service
        self._timeout_ns = definition.effective_timeout_ns
        self._counters = surroundings.counters
        self._tail = Tail(STATE_BYTES_MAX)
        self._args = (systemctl, "is-active", "--", self._name)  # "--": a name may start with a dash

    async def run(self) -> CheckResult:
        code = await run_process(self._args, self._tail, self._counters)
        if code == 0:
            return passing(f'Service "{self._name}" is healthy')
        return critical(f'Service "{self._name}" is not running: {self._tail.text().strip()}')

    def timed_out(self) -> CheckResult:
        return critical(timed_out_text(self._timeout_ns, self._tail))
