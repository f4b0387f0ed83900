"""A TCP check passes when the target accepts a connection and, where asked, completes a TLS handshake."""

from __future__ import annotations

from contextlib import closing

from adsum.health_checks.attempt import CheckResult, critical, passing
from adsum.health_checks.dial import TargetAttempt, split_address


class TcpAttempt(TargetAttempt):
    async def run(self) -> CheckResult:
        target = self._definition.tcp
        with closing(await self._dialer.dial(target)) as stream:
            if self._definition.tcp_use_tls:
                self._dialer.doing = f"dial tcp {target}: tls handshake"
                await self._secured(stream, split_address(target, "tcp")[0])
        return passing(f"TCP connect {target}: Success")

    def timed_out(self) -> CheckResult:
        return critical(f"{self._dialer.doing or f'dial tcp {self._definition.tcp}'}: i/o timeout")
