"""A UDP check passes unless the target refuses: most UDP services don't answer what they don't understand.

An empty datagram is sent. Any reply passes, and so does silence until the timeout; an ICMP port-unreachable
comes back as "connection refused" and is critical.
"""

from __future__ import annotations

from contextlib import closing

from adsum.health_checks.attempt import CheckFailed, CheckResult, critical, passing
from adsum.health_checks.dial import TargetAttempt, go_error


class UdpAttempt(TargetAttempt):
    network = "udp"
    is_sent = False

    async def run(self) -> CheckResult:
        with closing(await self._dialer.dial(self._definition.udp)) as stream:
            try:
                stream.socket.send(b"")
            except OSError as error:
                raise CheckFailed(f"write udp {self._definition.udp}: write: {go_error(error)}") from error
            self.is_sent = True
            await stream.receive_some()
        return self._success()

    def timed_out(self) -> CheckResult:
        return self._success() if self.is_sent else critical(f"{self._dialer.doing}: i/o timeout")

    def _success(self) -> CheckResult:
        return passing(f"UDP connect {self._definition.udp}: Success")
