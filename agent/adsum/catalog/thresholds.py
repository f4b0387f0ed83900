"""How many results in a row it takes to believe a check: success_before_passing and the failures_before_*.

Counters start as if the thresholds had been met, so the first run speaks at once; but a check registered as
passing needs all its failures before it is believed critical (Consul 1.8.7 flips it on the very first one).
"""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition, CheckStatus


class Thresholds:
    def __init__(self, definition: CheckDefinition) -> None:
        self._successes_wanted = definition.success_before_passing
        self._failures_wanted = definition.failures_before_critical
        # Without a setting of its own a warning is due when critical is (Consul >= 1.15).
        self._warnings_wanted = definition.failures_before_warning or self._failures_wanted
        self._successes = self._successes_wanted
        self._failures = 0 if definition.status == CheckStatus.PASSING else self._failures_wanted

    def believe(self, result: CheckStatus) -> CheckStatus | None:
        """The status to publish after this result; None leaves the present one."""
        if result is not CheckStatus.CRITICAL:
            self._successes += 1
            self._failures = 0
            return result if self._successes >= self._successes_wanted else None
        self._failures += 1
        self._successes = 0
        if self._failures >= self._failures_wanted:
            return CheckStatus.CRITICAL
        return CheckStatus.WARNING if self._failures >= self._warnings_wanted else None
