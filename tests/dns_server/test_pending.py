from __future__ import annotations

from adsum.allowance import Allowance
from adsum.dns.answers import Transport
from adsum.dns.limits import DnsLimits
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.pending import Pending, Waiting, unusual_allowance
from adsum.now import MILLISECOND, SECOND

LIMITS = DnsLimits(
    late_max=2, unusual_max=3, unusual_ns_a_second=SECOND // 4, unusual_ns_at_once=20 * MILLISECOND
)


def waiting(packet: bytes) -> Waiting:
    return Waiting(packet, ("127.0.0.1", 53), Transport.UDP_HERE)


def pending(counters: DnsCounters, allowance: Allowance | None = None) -> Pending:
    return Pending(LIMITS, counters, allowance or unusual_allowance(LIMITS))


def test_each_sort_waits_in_order_and_the_newest_are_dropped_when_too_many_do() -> None:
    counters = DnsCounters()
    ours = pending(counters)
    for packet in (b"1", b"2", b"3", b"4", b"5"):
        ours.put_late(waiting(packet))
        ours.put_unusual(waiting(packet))
    assert len(ours) == 5
    assert (counters.late_dropped, counters.unusual_dropped) == (3, 2)
    assert [ours.next_late() for _ in range(3)] == [waiting(b"1"), waiting(b"2"), None]
    assert [ours.next_unusual(0) for _ in range(4)] == [waiting(b"1"), waiting(b"2"), waiting(b"3"), None]


def test_unusual_ones_are_dropped_while_they_have_had_their_share_of_the_time() -> None:
    counters = DnsCounters()
    ours = pending(counters)
    ours.charge_unusual(0, 30 * MILLISECOND)
    ours.put_unusual(waiting(b"1"))
    ours.put_unusual(waiting(b"2"))
    assert ours.next_unusual(30 * MILLISECOND) is None
    assert (len(ours), counters.unusual_dropped) == (0, 2)
    ours.put_unusual(waiting(b"3"))
    assert ours.next_unusual(41 * MILLISECOND) == waiting(b"3")


def test_what_is_unusual_on_one_socket_is_paid_for_on_all() -> None:
    counters = DnsCounters()
    allowance = unusual_allowance(LIMITS)
    one, other = pending(counters, allowance), pending(counters, allowance)
    one.charge_unusual(0, 20 * MILLISECOND)
    other.put_unusual(waiting(b"1"))
    assert other.next_unusual(0) is None


def test_late_ones_have_no_share_that_they_could_use_up() -> None:
    ours = pending(DnsCounters())
    ours.charge_unusual(0, SECOND)
    ours.put_late(waiting(b"1"))
    assert ours.has_late
    assert ours.next_late() == waiting(b"1")
