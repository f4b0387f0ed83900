from __future__ import annotations

from adsum.dns.limits import DnsLimits
from adsum.net.gossiping import GossipingLimits
from adsum.net.streams import StreamLimits
from adsum.process.cluster_rim import gossiping_limits
from adsum.process.file_limit import LEAST, MOST
from adsum.process.translate import dns_limits


def test_with_many_files_every_room_has_its_usual_limits() -> None:
    assert dns_limits(MOST) == DnsLimits()
    assert gossiping_limits(MOST) == GossipingLimits()


def test_with_few_files_one_host_has_half_of_the_places_at_most() -> None:
    assert dns_limits(LEAST) == DnsLimits(
        tcp_newcomers_max=4,
        tcp_newcomers_per_host_max=2,
        tcp_connections_max=2,
        tcp_connections_per_host_max=1,
        recursions_max=2,
    )


def test_with_few_files_half_of_the_streams_are_for_pings_and_exchanges() -> None:
    streams = StreamLimits(
        openings_max=4,
        openings_per_host_max=2,
        streams_max=4,
        streams_per_host_max=2,
        syncs_max=2,
        callers_max=2,
        callers_of_strangers_max=1,
    )
    assert gossiping_limits(LEAST) == GossipingLimits(pings_max=1, syncs_max=2, streams=streams)
