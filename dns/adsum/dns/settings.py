"""What an operator may set about DNS: `dns_config`, `domain`, `alt_domain` and `recursors`, in our units.

A value, replaced as a whole when the configuration is reloaded. Defaults are Consul's, but for
`enable_truncate`: an answer that was trimmed says so, unless the configuration asks for silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from adsum.frozen import dataclass

RECURSOR_PORT = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Soa:
    refresh_s: int = 3600
    retry_s: int = 600
    expire_s: int = 86400
    # How long resolvers may remember that there was nothing. With 0 a service is found as soon as it is
    # there; asking again costs us microseconds.
    min_ttl_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recursor:
    host: str  # an IP address
    port: int = RECURSOR_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsSettings:
    domain: str = "consul."
    other_domains: tuple[str, ...] = ("adsum.",)
    datacenter: str = "dc1"

    node_ttl_s: int = 0
    service_ttl_s: Mapping[str, int] = field(default_factory=dict)  # a name, a prefix and *, or *
    soa: Soa = field(default_factory=Soa)

    only_passing: bool = False
    enable_additional_node_meta_txt: bool = True

    udp_answer_limit: int = 3  # only for askers without EDNS
    a_record_limit: int = 0  # 0 is none
    enable_truncate: bool = True
    disable_compression: bool = False
    # What fits through any path without fragments (DNS flag day 2020); askers on this host get what they ask.
    udp_bytes_max_other_hosts: int = 1232

    recursors: tuple[Recursor, ...] = ()
    recursor_timeout_s: float = 2.0

    @property
    def domains(self) -> tuple[str, ...]:
        """Lower case, without the last dot; the primary one first."""
        return tuple(dict.fromkeys(name.lower().strip(".") for name in (self.domain, *self.other_domains)))

    def ttl_s_of(self, service_name: str) -> int:
        """The exact name wins, then the longest prefix."""
        name = service_name.lower()
        best, best_length = 0, -1
        for pattern, ttl_s in self.service_ttl_s.items():
            if pattern.lower() == name:
                return ttl_s
            stem = pattern.lower().removesuffix("*")
            if pattern.endswith("*") and name.startswith(stem) and len(stem) > best_length:
                best, best_length = ttl_s, len(stem)
        return best
