"""What DNS counts about itself: plain numbers, read by the metrics collector when it is scraped.

Every kind of answer and every reason exists from the start, with a zero, so no series appears later and no
stranger's packet can make a new one.
"""

from __future__ import annotations

from dataclasses import field
from itertools import product

from adsum.dns.wire import RCODE_NAMES, TYPE_NAMES
from adsum.mutable import dataclass
from adsum.named import NamedTuple
from adsum.sockets.accepting import AcceptCounters

OTHER_TYPE = "other"
TRANSPORTS = ("udp", "tcp")


class AnswerLabels(NamedTuple):
    transport: str
    qtype: str
    rcode: str


def tally_of(transport: str, qtype: int, rcode: int) -> AnswerLabels:
    return AnswerLabels(transport, TYPE_NAMES.get(qtype, OTHER_TYPE), RCODE_NAMES[rcode])


def _all_tallies() -> dict[AnswerLabels, int]:
    labels = product(TRANSPORTS, (*TYPE_NAMES.values(), OTHER_TYPE), RCODE_NAMES.values())
    return {AnswerLabels(*each): 0 for each in labels}


@dataclass(slots=True)
class DnsCounters:
    answered: dict[AnswerLabels, int] = field(default_factory=_all_tallies)
    fast: int = 0  # of those, answered by their very bytes
    full: int = 0  # of those, not in the common form

    malformed: int = 0  # asked nothing; some were told so
    late_dropped: int = 0  # first asked when too many were waiting for their turn
    unusual_dropped: int = 0  # not in the common form, and over what those may take of the loop's time
    rate_limited: int = 0  # askers over their rate: silence
    rate_slipped: int = 0  # askers over their rate: sent on to TCP
    memory_overflows: int = 0  # how often all known questions were forgotten for want of room
    rendering_overflows: int = 0  # how often renderings were that nobody had asked for lately
    receive_errors: int = 0  # ICMP about earlier answers, mostly
    send_errors: int = 0  # answers the kernel did not take

    tcp_accepting: AcceptCounters = field(default_factory=AcceptCounters)
    tcp_newcomers: int = 0  # open now, and nothing was asked yet
    tcp_newcomers_displaced: int = 0  # closed to make room for others
    tcp_newcomers_timed_out: int = 0  # slow to ask their first question
    tcp_connections: int = 0  # open now, of those that asked something
    tcp_accepted: int = 0
    tcp_turned_away: int = 0  # over the limit of connections
    tcp_timed_out: int = 0  # idle, or slow to ask again
    tcp_slow_readers: int = 0
    tcp_oversized: int = 0
    tcp_unread_bytes: int = 0  # held now, of questions that are not whole or must wait
    tcp_unread_displaced: int = 0  # closed because all together held too much of that

    recursions: int = 0  # under way now
    recursed: int = 0  # answered by a recursor
    recursion_failures: int = 0  # no recursor had an answer
    recursions_turned_away: int = 0  # over the limit of those under way
    recursor_timeouts: int = 0  # of one attempt
    recursor_errors: int = 0  # of one attempt: refused, SERVFAIL, unreachable
    recursor_mismatches: int = 0  # packets that were no answer to our question
