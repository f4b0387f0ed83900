from __future__ import annotations

from adsum.dns.limits import DnsLimits
from adsum.process.file_limit import LEAST, MOST
from adsum.process.translate import dns_limits


def test_with_many_files_dns_has_its_usual_limits() -> None:
    assert dns_limits(MOST) == DnsLimits()


def test_with_few_files_one_host_has_half_of_the_places_at_most() -> None:
    assert dns_limits(LEAST) == DnsLimits(
        tcp_newcomers_max=4,
        tcp_newcomers_per_host_max=2,
        tcp_connections_max=2,
        tcp_connections_per_host_max=1,
        recursions_max=2,
    )
