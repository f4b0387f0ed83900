"""Which texts are hosts, where hosts come from others: plain IP literals, and nothing that must be looked up.

An IPv6 scope is free text to Python's `ipaddress`, and what resolves it minds a NUL as much as a length; so
it is checked here, where such a text is decoded, and no other part ever sees one that is odd. An address
that is nobody's own (unspecified, a multicast group) is refused too: what is sent there reaches others.
"""

from __future__ import annotations

import ipaddress
import re

from adsum.named import NamedTuple

HOST_CHARACTERS_MAX = 64
SCOPE = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # as Linux names interfaces (IFNAMSIZ), or a number


class Address(NamedTuple):
    host: str
    port: int


def is_ip_host(host: str) -> bool:
    if not host.isascii() or len(host) > HOST_CHARACTERS_MAX:
        return False
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        return False
    scope = literal.scope_id if isinstance(literal, ipaddress.IPv6Address) else None
    if scope is not None and SCOPE.fullmatch(scope) is None:
        return False
    return not (literal.is_unspecified or literal.is_multicast)
