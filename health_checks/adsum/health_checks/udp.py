"""A UDP check passes unless the target refuses: most UDP services don't answer what they don't understand.

An empty datagram is sent. Any reply passes, and so does silence until the timeout; an ICMP port-unreachable
comes back as "connection refused" and is critical.
"""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckFailed, CheckResult, Surroundings, critical, passing
from adsum.health_checks.dial import Dialer, go_error


class UdpAttempt:
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._dialer = Dialer(surroundings, "udp")
        self._is_sent = False

    async def run(self) -> CheckResult:
        stream = await self._dialer.dial(self._definition.udp)
        try:
            try:
                stream.socket.send(b"")
            except OSError as error:
                raise CheckFailed(f"write udp {self._definition.udp}: write: {go_error(error)}") from error
            self._is_sent = True
            await stream.receive_some()
        finally:
            stream.close()
        return self._success()

    def timed_out(self) -> CheckResult:
        return self._success() if self._is_sent else critical(f"{self._dialer.doing}: i/o timeout")

    def _success(self) -> CheckResult:
        return passing(f"UDP connect {self._definition.udp}: Success")
