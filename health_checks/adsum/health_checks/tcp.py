"""A TCP check passes when the target accepts a connection and, where asked, completes a TLS handshake."""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckResult, Surroundings, critical, passing
from adsum.health_checks.dial import Dialer, split_address, start_tls, tls_context


class TcpAttempt:
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._dialer = Dialer(surroundings)

    async def run(self) -> CheckResult:
        stream = await self._dialer.dial(self._definition.tcp)
        try:
            if self._definition.tcp_use_tls:
                self._dialer.doing = f"dial tcp {self._definition.tcp}: tls handshake"
                context = await tls_context(self._surroundings, skip_verify=self._definition.tls_skip_verify)
                host = split_address(self._definition.tcp, "tcp")[0]
                await start_tls(stream, context, self._definition.tls_server_name or host or "localhost")
        finally:
            stream.close()
        return passing(f"TCP connect {self._definition.tcp}: Success")

    def timed_out(self) -> CheckResult:
        return critical(f"{self._dialer.doing or f'dial tcp {self._definition.tcp}'}: i/o timeout")
