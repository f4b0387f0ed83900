"""How much of us one asker may take, and the rate at which a network may be answered over UDP.

A source address is easily forged, so answers to other hosts are limited per network prefix: whoever is
flooded with them in our name is flooded slowly. Over the rate every second question is answered by "ask over
TCP", which amplifies nothing and lets a real asker through; the rest get silence.
"""

from __future__ import annotations

import enum

from adsum.frozen import dataclass
from adsum.now import SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsLimits:
    # A busy forwarder asks for a whole site from one address; 2,000 answers of 1,232 bytes are 20 Mbit/s.
    answers_per_s: int = 2000
    answers_burst: int = 4000
    prefixes_max: int = 4096

    tcp_connections_max: int = 512
    tcp_connections_per_host_max: int = 128  # so that one host cannot keep all others out
    tcp_idle_timeout_s: float = 10.0  # from one whole question to the next, as RFC 7766 advises: seconds
    tcp_send_timeout_s: float = 5.0
    tcp_question_bytes_max: int = 4096

    recursions_max: int = 512


class Verdict(enum.Enum):
    ANSWER = enum.auto()
    SLIP = enum.auto()
    DROP = enum.auto()


class SourceRates:
    """One virtual clock per prefix (GCRA): it may run ahead of the real one by the burst."""

    def __init__(self, limits: DnsLimits) -> None:
        self._cost_ns = SECOND // limits.answers_per_s
        self._credit_ns = self._cost_ns * limits.answers_burst
        self._prefixes_max = limits.prefixes_max
        self._paid_until_ns: dict[bytes, int] = {}
        self._is_slipping = False

    @property
    def networks(self) -> int:
        return len(self._paid_until_ns)

    def judge(self, prefix: bytes, now_ns: int) -> Verdict:
        paid_until_ns = max(self._paid_until_ns.get(prefix, 0), now_ns)
        if paid_until_ns - now_ns > self._credit_ns:
            self._is_slipping = not self._is_slipping
            return Verdict.SLIP if self._is_slipping else Verdict.DROP
        if prefix not in self._paid_until_ns and len(self._paid_until_ns) >= self._prefixes_max:
            self._make_room(now_ns)
        self._paid_until_ns[prefix] = paid_until_ns + self._cost_ns
        return Verdict.ANSWER

    def _make_room(self, now_ns: int) -> None:
        """Forget who owes nothing; if all do, forget everyone: forged sources must not lock out real ones."""
        owing = {prefix: until_ns for prefix, until_ns in self._paid_until_ns.items() if until_ns > now_ns}
        self._paid_until_ns = owing if len(owing) < self._prefixes_max else {}
