"""Addresses as members write them, turned into what a socket takes.

Only literal ones: the socket module would resolve a name then and there, and one claim about a member called
"example.com" would stop the loop for as long as DNS takes.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from adsum.address import Address

SCOPE_END = 1 << 32  # a number of 32 bits in the kernel's form of the address
SCOPE_DIGITS_MAX = 11
SocketAddress = tuple[Any, ...]  # as the socket module writes it: host, port, and two more for IPv6


class BadAddress(ValueError):
    """No literal IP address; nothing was sent."""


def socket_address(address: Address) -> tuple[socket.AddressFamily, SocketAddress]:
    host, port = address
    try:
        literal = ipaddress.ip_address(host)
    except ValueError as error:
        raise BadAddress(f"{host!r} is no IP address") from error
    if not 0 < port < 65_536:
        raise BadAddress(f"{port} is no port")
    if isinstance(literal, ipaddress.IPv4Address):
        return socket.AF_INET, (host, port)
    return socket.AF_INET6, (str(literal).partition("%")[0], port, 0, _scope(literal.scope_id))


def _scope(name: str | None) -> int:
    if name is None:
        return 0
    if name.isdecimal() and name.isascii() and int(name[:SCOPE_DIGITS_MAX]) < SCOPE_END:
        return int(name)
    try:
        return socket.if_nametoindex(name)
    except (OSError, ValueError) as error:  # no such interface, or a text that cannot be a name
        raise BadAddress(f"there is no network interface {name!r}") from error


def address_of(origin: SocketAddress) -> Address:
    return Address(origin[0], origin[1])
