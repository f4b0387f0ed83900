"""Where to look for a cluster: the entries of `retry_join` and `start_join`, turned into addresses.

An entry is an IP address or a name, each with or without a port; IPv6 with a port stands in brackets. A name
stands for all its addresses, as in Consul, so one name in DNS can list a cluster's servers. One that does not
resolve takes nothing from the others.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import field

import trio

from adsum import frozen, mutable
from adsum.address import Address

ADDRESSES_MAX = 1_024  # of all entries
LOOKUP_TIMEOUT_S = 10.0

Lookup = Callable[[str], Awaitable[Sequence[str]]]  # from a name to IP addresses; raises OSError

_BRACKETED = re.compile(r"\[(?P<host>[^\[\]]+)\](?::(?P<port>[0-9]{1,5}))?")
_PLAIN = re.compile(r"(?P<host>[^\[\]:\s]+)(?::(?P<port>[0-9]{1,5}))?")
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


class BadEntry(ValueError):
    """The operator's entry cannot be an address; says what one looks like."""


@frozen.dataclass(frozen=True, slots=True)
class JoinEntry:
    text: str
    host: str
    port: int
    is_name: bool


@mutable.dataclass(slots=True)
class FoundAddresses:
    addresses: list[Address] = field(default_factory=list)  # in the order of the entries, each once
    failures: dict[str, str] = field(default_factory=dict)  # by entry, why it gave none


def parse(text: str, default_port: int) -> JoinEntry:
    if text.startswith("provider="):
        raise BadEntry(
            f"{text!r}: finding agents through a cloud's API is not supported; list addresses or a DNS name"
        )
    host, port = _host_and_port(text.strip(), default_port)
    if not 0 < port < 65_536:
        raise BadEntry(f"{text!r}: {port} is no port")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _NAME.fullmatch(host) or re.fullmatch(r"[0-9.]+", host):
            raise BadEntry(f"{text!r}: {_FORMS}") from None
        return JoinEntry(text, host, port, is_name=True)
    return JoinEntry(text, host, port, is_name=False)


_FORMS = (
    "an entry is an IP address or a DNS name, with or without a port: 10.0.0.1, 10.0.0.1:8301, [fd00::1]:8301"
)


def _host_and_port(text: str, default_port: int) -> tuple[str, int]:
    if text.count(":") > 1 and not text.startswith("["):
        return text, default_port
    found = _BRACKETED.fullmatch(text) or _PLAIN.fullmatch(text)
    if found is None:
        raise BadEntry(f"{text!r}: {_FORMS}")
    return found["host"], int(found["port"] or default_port)


async def system_lookup(name: str) -> list[str]:
    """As the host resolves names, /etc/hosts included."""
    answers = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in answers]


async def find(entries: Iterable[JoinEntry], lookup: Lookup = system_lookup) -> FoundAddresses:
    """All entries at once; the slowest name decides how long it takes."""
    entries = list(entries)
    hosts: dict[JoinEntry, Sequence[str]] = {}
    found = FoundAddresses()
    async with trio.open_nursery() as nursery:
        for entry in entries:
            if entry.is_name:
                nursery.start_soon(_look_up, entry, lookup, hosts, found.failures)
            else:
                hosts[entry] = [entry.host]
    addresses = dict.fromkeys(Address(host, entry.port) for entry in entries for host in hosts.get(entry, ()))
    found.addresses = list(addresses)[:ADDRESSES_MAX]
    return found


async def _look_up(
    entry: JoinEntry, lookup: Lookup, hosts: dict[JoinEntry, Sequence[str]], failures: dict[str, str]
) -> None:
    with trio.move_on_after(LOOKUP_TIMEOUT_S):
        try:
            hosts[entry] = await lookup(entry.host)
        except OSError as error:
            failures[entry.text] = f"{entry.host!r} does not resolve: {error.strerror or error}"
            return
        if not hosts[entry]:
            failures[entry.text] = f"{entry.host!r} has no addresses"
        return
    failures[entry.text] = f"{entry.host!r} was not resolved within {LOOKUP_TIMEOUT_S:g} s"
