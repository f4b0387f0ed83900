"""An H2PING check passes when the target answers an HTTP/2 PING. TLS unless told otherwise."""

from __future__ import annotations

from contextlib import closing

from adsum.health_checks.attempt import CheckFailed, CheckResult, critical, passing
from adsum.health_checks.dial import Stream, TargetAttempt, split_address
from adsum.health_checks.http2 import Http2Client, require_h2
from adsum.userinfo import without_password


class H2PingAttempt(TargetAttempt):
    async def run(self) -> CheckResult:
        require_h2("H2PING")
        target = self._definition.h2ping
        try:
            stream = await self._dialer.dial(target)
        except CheckFailed as error:
            raise self._dial_failed(str(error)) from error
        with closing(stream):
            line: Stream = stream
            try:
                if self._definition.h2ping_use_tls:
                    line = await self._secured(stream, split_address(target, "tcp")[0], http2=True)
            except CheckFailed as error:
                raise self._dial_failed(str(error)) from error
            try:
                await Http2Client(line).ping()
            except CheckFailed as error:
                raise CheckFailed(f"HTTP2 ping failed: {error}") from error
        return passing("HTTP2 ping was successful")

    def timed_out(self) -> CheckResult:
        if self._dialer.doing:
            return critical(str(self._dial_failed(f"{self._dialer.doing}: i/o timeout")))
        return critical("HTTP2 ping failed: context deadline exceeded")

    def _dial_failed(self, reason: str) -> CheckFailed:
        return CheckFailed(f"Failed to dial to {without_password(self._definition.h2ping)}: {reason}")
