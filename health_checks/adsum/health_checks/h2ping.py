"""An H2PING check passes when the target answers an HTTP/2 PING. TLS unless told otherwise."""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckFailed, CheckResult, Surroundings, critical, passing
from adsum.health_checks.dial import Dialer, SocketStream, secured
from adsum.health_checks.http2 import Http2Client, Stream, require_h2
from adsum.userinfo import without_password


class H2PingAttempt:
    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._dialer = Dialer(surroundings)

    async def run(self) -> CheckResult:
        require_h2("H2PING")
        try:
            stream = await self._dialer.dial(self._definition.h2ping)
        except CheckFailed as error:
            raise self._dial_failed(str(error)) from error
        try:
            await self._ping(stream)
        finally:
            stream.close()
        return passing("HTTP2 ping was successful")

    def timed_out(self) -> CheckResult:
        if self._dialer.doing:
            return critical(str(self._dial_failed(f"{self._dialer.doing}: i/o timeout")))
        return critical("HTTP2 ping failed: context deadline exceeded")

    async def _ping(self, stream: SocketStream) -> None:
        definition = self._definition
        line: Stream = stream
        try:
            if definition.h2ping_use_tls:
                line = await secured(stream, self._surroundings, definition, definition.h2ping)
        except CheckFailed as error:
            raise self._dial_failed(str(error)) from error
        try:
            await Http2Client(line).ping()
        except CheckFailed as error:
            raise CheckFailed(f"HTTP2 ping failed: {error}") from error

    def _dial_failed(self, reason: str) -> CheckFailed:
        return CheckFailed(f"Failed to dial to {without_password(self._definition.h2ping)}: {reason}")
