"""The servers that an agent knew last, as they are kept for a start at which gossip has met nobody yet."""

from __future__ import annotations

from collections.abc import Mapping

import cbor2

from adsum.address import Address, is_ip_host
from adsum.cbor import BadEncoding, strict_loads

SAVED_MAX = 32
NODE_ID_BYTES = 16
PORT_MAX = 65_535


def encode(servers: Mapping[bytes, Address]) -> bytes:
    rows = [[node_id, *address] for node_id, address in sorted(servers.items())]
    return cbor2.dumps(rows[:SAVED_MAX])


def decode(content: bytes | None) -> dict[bytes, Address]:
    """What makes no sense is passed over: gossip will know better."""
    if content is None:
        return {}
    try:
        rows = strict_loads(content)
    except BadEncoding:
        return {}
    found = {}
    for row in rows[:SAVED_MAX] if isinstance(rows, list) else ():
        match row:
            case [bytes(node_id), str(host), int(port)] if (
                len(node_id) == NODE_ID_BYTES
                and is_ip_host(host)
                and 0 < port <= PORT_MAX
                and port is not True
            ):
                found[node_id] = Address(host, port)
            case _:
                pass
    return found
