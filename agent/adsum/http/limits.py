"""What one client, and all of them together, may cost the HTTP server, and the count of how often that was
reached.

The counters are plain integers that the metrics collector reads. Nothing that comes from the network
becomes a key: methods that we don't know share one name.
"""

from __future__ import annotations

from dataclasses import field

from adsum import frozen, mutable

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "other")
# Every cause is counted from the first scrape on.
REJECTED = (
    "header_too_large target_too_large body_too_large bodies_held version host coding "
    "tls_handshake handshake_timeout header_timeout body_timeout write_timeout idle_timeout "
    "connections_per_client connections foreign_origin foreign_link foreign_host "
    "blocked_endpoint write_source shortage"
)


@frozen.dataclass(frozen=True, slots=True)
class HttpLimits:
    header_bytes_max: int = 64 * KIBIBYTE
    target_bytes_max: int = 16 * KIBIBYTE
    body_bytes_max: int = MEBIBYTE  # Consul's own largest is half of it, for keys
    # Bodies of all requests together, so that many at their limit can't add up to the machine's memory.
    bodies_held_bytes_max: int = 64 * MEBIBYTE
    handshake_timeout_s: float = 5.0  # limits.https_handshake_timeout
    header_timeout_s: float = 10.0  # from the first byte of a request to the end of its headers
    progress_timeout_s: float = 10.0  # a body or an answer that stands still
    progress_bytes_per_s_min: int = KIBIBYTE  # and one that crawls
    # A client whose pooled connection we close just as it sends must guess whether the request was done.
    # An hour is longer than the pause between two beats of any TTL check we have seen.
    idle_timeout_s: float = 3600.0
    connections_per_client_max: int = 16_384
    connections_max: int = 65_536
    refusals_lingering_max: int = 256  # refused connections that may still read our sentence


@mutable.dataclass(slots=True)
class HttpCounters:
    """Requests by method and by the hundreds of their status, and everything that went another way."""

    requests: dict[str, list[int]] = field(default_factory=lambda: {method: [0] * 6 for method in METHODS})
    received_bytes: int = 0
    sent_bytes: int = 0
    connections_accepted: int = 0
    connections_open: int = 0
    tls_handshakes: int = 0
    parked: int = 0
    unparsed: int = 0  # answered by their bytes alone
    known_overflows: int = 0  # more requests or heads than are kept: all of them forgotten
    bodies_held_bytes: int = 0
    parse_errors: int = 0
    clients_gone: int = 0  # hung up before their answer
    handler_errors: int = 0  # our bugs
    accept_errors: int = 0
    rejected: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REJECTED.split(), 0))
