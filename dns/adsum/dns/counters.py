"""What DNS counts about itself: plain numbers, read by the metrics collector when it is scraped.

Every kind of answer and every reason exists from the start, with a zero, so no series appears later and no
stranger's packet can make a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from adsum.dns.wire import RCODE_NAMES, TYPE_NAMES

OTHER_TYPE = "other"
TRANSPORTS = ("udp", "tcp")


class Tally(NamedTuple):
    transport: str
    qtype: str
    rcode: str


def tally_of(transport: str, qtype: int, rcode: int) -> Tally:
    return Tally(transport, TYPE_NAMES.get(qtype, OTHER_TYPE), RCODE_NAMES[rcode])


def _all_tallies() -> dict[Tally, int]:
    qtypes = (*TYPE_NAMES.values(), OTHER_TYPE)
    rcodes = RCODE_NAMES.values()
    return {Tally(via, qtype, rcode): 0 for via in TRANSPORTS for qtype in qtypes for rcode in rcodes}


@dataclass(slots=True)
class DnsCounters:
    answered: dict[Tally, int] = field(default_factory=_all_tallies)
    fast: int = 0  # of those, answered by their very bytes
    full: int = 0  # of those, read by dnslib

    malformed: int = 0  # asked nothing; some were told so
    faults: int = 0  # questions over which we stumbled: our own bugs, each logged
    rate_limited: int = 0  # askers over their rate: silence
    rate_slipped: int = 0  # askers over their rate: sent on to TCP
    memory_overflows: int = 0  # how often all known questions were forgotten for want of room
    receive_errors: int = 0  # ICMP about earlier answers, mostly
    send_errors: int = 0  # answers the kernel did not take

    tcp_connections: int = 0  # open now
    tcp_accepted: int = 0
    tcp_turned_away: int = 0  # over the limit of connections
    tcp_timed_out: int = 0  # idle, or slow to ask
    tcp_slow_readers: int = 0
    tcp_oversized: int = 0

    recursions: int = 0  # under way now
    recursed: int = 0  # answered by a recursor
    recursion_failures: int = 0  # no recursor had an answer
    recursions_turned_away: int = 0  # over the limit of those under way
    recursor_timeouts: int = 0  # of one attempt
    recursor_errors: int = 0  # of one attempt: refused, SERVFAIL, unreachable
    recursor_mismatches: int = 0  # packets that were no answer to our question

    def by(self, label: str) -> dict[str, int]:
        """The answers by one of a tally's labels: transport, qtype or rcode."""
        sums: dict[str, int] = {}
        for tally, count in self.answered.items():
            value = getattr(tally, label)
            sums[value] = sums.get(value, 0) + count
        return sums
