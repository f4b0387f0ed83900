"""What a name under our domains asks for: the grammar of `web.service.consul` and its relatives.

The kind is the rightmost label that names one (`node`, `service`, `addr`, …): what stands before it is the
subject, what follows may only be the data centre. A name that fits nothing is a fact about the name and
not an error: the zone answers it with NXDOMAIN, and `explain` repeats the reason.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Sequence
from functools import lru_cache

from adsum.dns.settings import DnsSettings
from adsum.dns.wire import SRV
from adsum.frozen import dataclass

UNSERVED_KINDS = frozenset({"connect", "ingress", "query", "virtual"})
KINDS = frozenset({"service", "node", "addr"}) | UNSERVED_KINDS
ADDRESS_VERSIONS = {8: 4, 32: 6}  # hex digits -> IP version
ADDRESSES_KEPT_MAX = 8192  # reading one takes longer than writing a record
NIBBLES = frozenset("0123456789abcdef")


class NameKind(enum.Enum):
    NODE = enum.auto()
    SERVICE = enum.auto()
    ADDRESS = enum.auto()
    POINTER = enum.auto()  # a name under in-addr.arpa or ip6.arpa
    NOTHING = enum.auto()  # ours, and nobody has it
    ELSEWHERE = enum.auto()  # outside our domains


@dataclass(frozen=True, slots=True)
class AskedName:
    kind: NameKind
    subject: str = ""  # a node's or service's name, or an address in its usual form
    tag: str = ""
    domain: str = ""  # the one of our domains that was asked
    reason: str = ""  # why it is NOTHING


def read_name(labels: Sequence[str], qtype: int, settings: DnsSettings) -> AskedName:
    """`labels` in lower case, without the root."""
    if labels[-1:] == ["arpa"]:
        return AskedName(NameKind.POINTER, subject=_reversed_address(labels), domain=settings.domains[0])
    for domain in sorted(settings.domains, key=len, reverse=True):
        own = domain.split(".")
        if list(labels[-len(own) :]) == own:
            return _read_own(labels[: -len(own)], qtype, domain, settings.datacenter.lower())
    return AskedName(NameKind.ELSEWHERE)


def _read_own(labels: Sequence[str], qtype: int, domain: str, datacenter: str) -> AskedName:
    kind, before, after = _split_at_kind(labels, qtype)
    if not kind:
        return _nothing(domain, "no label of it says what to look for (service, node or addr)")
    if kind in UNSERVED_KINDS:
        return _nothing(domain, f"names of the kind {kind} are not served")
    if not before:
        return _nothing(domain, f"nothing stands before {kind}")
    if kind == "addr":  # as in Consul, any data centre will do: the answer is in the name
        return _read_address(before, domain)
    if list(after) not in ([], [datacenter], [datacenter, "dc"]):
        return _nothing(domain, f"there is no data centre {'.'.join(after)} here, only {datacenter}")
    if kind == "node":
        return AskedName(NameKind.NODE, subject=".".join(before), domain=domain)
    return _read_service(before, domain)


def _split_at_kind(labels: Sequence[str], qtype: int) -> tuple[str, Sequence[str], Sequence[str]]:
    for at in range(len(labels) - 1, -1, -1):
        if labels[at] in KINDS:
            return labels[at], labels[:at], labels[at + 1 :]
        if qtype == SRV and labels[at].startswith("_"):  # _web._tcp.consul: the word service may be left out
            return "service", labels[: at + 1], labels[at + 1 :]
    return "", (), ()


def _read_service(labels: Sequence[str], domain: str) -> AskedName:
    subject, tag = labels[-1], ".".join(labels[:-1])
    if len(labels) == 2 and labels[0].startswith("_") and labels[1].startswith("_"):  # RFC 2782
        subject, tag = labels[0][1:], labels[1][1:]
        tag = "" if tag == "tcp" else tag
    return AskedName(NameKind.SERVICE, subject=subject, tag=tag, domain=domain)


def _read_address(labels: Sequence[str], domain: str) -> AskedName:
    digits = labels[0]
    version = ADDRESS_VERSIONS.get(len(digits))
    try:
        octets = bytes.fromhex(digits)
    except ValueError:
        version = None
    if len(labels) != 1 or version is None or len(octets) * 2 != len(digits):
        return _nothing(domain, "an address is written as 8 or 32 hexadecimal digits")
    return AskedName(NameKind.ADDRESS, subject=str(ipaddress.ip_address(octets)), domain=domain)


def _nothing(domain: str, reason: str) -> AskedName:
    return AskedName(NameKind.NOTHING, domain=domain, reason=reason)


def _reversed_address(labels: Sequence[str]) -> str:
    """The address that a reverse name spells, or "" for the names between addresses."""
    *digits, family, _arpa = labels if len(labels) > 2 else ("", "", "")
    try:
        if family == "in-addr" and len(digits) == 4:
            return str(ipaddress.IPv4Address(".".join(reversed(digits))))
        if family == "ip6" and len(digits) == 32 and all(digit in NIBBLES for digit in digits):
            return str(ipaddress.IPv6Address(int("".join(reversed(digits)), 16)))
    except ValueError:
        return ""
    return ""


@lru_cache(maxsize=ADDRESSES_KEPT_MAX)
def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address in a registration, if it is one: people also register host names."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A scoped address (fe80::1%eth0) means nothing to another host.
    return None if getattr(address, "scope_id", None) else address
