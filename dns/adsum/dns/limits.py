"""How much of us one asker may take, and the rate at which a network may be answered over UDP.

A source address is easily forged, so answers to other hosts are limited per network prefix: whoever is
flooded with them in our name is flooded slowly. Over the rate every second question is answered by "ask over
TCP", which amplifies nothing and lets a real asker through; the rest get silence.

What the loop may be held for is limited for all askers together, this host's own among them.
"""

from __future__ import annotations

import enum

from adsum.allowance import Allowances
from adsum.frozen import dataclass
from adsum.now import MILLISECOND, SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsLimits:
    # A busy forwarder asks for a whole site from one address; 2,000 answers of 1,232 bytes are 20 Mbit/s.
    answers_per_s: int = 2000
    answers_burst: int = 4000
    prefixes_max: int = 4096

    pass_ns_max: int = 5 * MILLISECOND  # over a socket, before all else has its turn
    late_max: int = 256  # questions not known by their bytes that wait for the next pass, per socket
    # Whatever is not in the common form is served last, and may take a quarter of the loop's time.
    unusual_max: int = 256  # that wait, per socket
    unusual_ns_a_second: int = SECOND // 4
    unusual_ns_at_once: int = 100 * MILLISECOND

    # Whoever connects asks at once. So connections on which nothing was asked yet have few places of their
    # own, where the oldest makes room, and take none from those on which something was.
    tcp_newcomers_max: int = 64
    tcp_newcomers_per_host_max: int = 16
    tcp_first_question_timeout_s: float = 1.0
    tcp_connections_max: int = 512
    tcp_connections_per_host_max: int = 128  # so that one host cannot keep all others out
    tcp_idle_timeout_s: float = 10.0  # from one whole question to the next, as RFC 7766 advises: seconds
    tcp_send_timeout_s: float = 5.0
    tcp_question_bytes_max: int = 4096
    tcp_unread_bytes_max: int = 512 * 1024  # of questions that are not whole or must wait, of all connections

    recursions_max: int = 512


class RateVerdict(enum.Enum):
    ANSWER = enum.auto()
    SLIP = enum.auto()
    DROP = enum.auto()


class SourceRates:
    def __init__(self, limits: DnsLimits) -> None:
        self._prefixes: Allowances[bytes] = Allowances(
            a_second=limits.answers_per_s, at_once=limits.answers_burst, sources_max=limits.prefixes_max
        )
        self._is_slipping = False

    @property
    def networks(self) -> int:
        return len(self._prefixes)

    def judge(self, prefix: bytes, now_ns: int) -> RateVerdict:
        if self._prefixes.take(now_ns, prefix):
            return RateVerdict.ANSWER
        self._is_slipping = not self._is_slipping
        return RateVerdict.SLIP if self._is_slipping else RateVerdict.DROP
