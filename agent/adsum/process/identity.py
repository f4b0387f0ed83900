"""Who this agent is: a node id that stays, a name, and the address that others would reach it at."""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import socket
import struct
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from adsum.catalog.model import Node
from adsum.config.config import Config
from adsum.effects import WriteFile
from adsum.storage.disk import Disk

log = logging.getLogger("agent")

NODE_ID_PATH = "node-id"  # as Consul calls the file
# Reserved for documentation (RFC 5737): asking the kernel for its route sends nothing.
ANY_OUTSIDE_ADDRESS = "192.0.2.1"
# Consul's agents carry it in their node meta, and clients have seen it in DNS TXT answers.
SEGMENT_META = {"consul-network-segment": ""}
LOOPBACK = "127.0.0.1"
# Of Linux's netdevice(7): an interface's name in, its IPv4 address 20 bytes behind.
SIOCGIFADDR = 0x8915
NAME_BYTES_MAX = 15


def node_id(config: Config, disk: Disk, mint: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """The configured one, else the one kept on disk, else a new one that is kept before it is used."""
    if config.node_id:
        return config.node_id
    kept = disk.read(NODE_ID_PATH)
    with suppress(ValueError):
        text = (kept or b"").decode("ascii", errors="replace").strip()
        if str(uuid.UUID(text)) == text.lower():
            return text
    minted = str(mint())
    if kept is not None:
        aside = disk.set_aside(NODE_ID_PATH)
        log.error(
            "the node id on disk is none; it was set aside as %s, and this node is now %s", aside, minted
        )
    disk.change((node_id_file(minted),))
    return minted


def node_id_file(node_id: str) -> WriteFile:
    return WriteFile(NODE_ID_PATH, node_id.encode())


def own_node(config: Config, own_id: str) -> Node:
    address = config.advertise_address or outside_address()
    wide = config.advertise_address_wan or address
    return Node(
        node_id=own_id,
        name=config.node_name,
        address=address,
        datacenter=config.datacenter,
        tagged_addresses={**_by_family("lan", address), **_by_family("wan", wide), **config.tagged_addresses},
        meta={**SEGMENT_META, **config.node_meta},
    )


def outside_address() -> str:
    """That of the interface which leads out of this host. Where no way leads out of the network, it is the
    only one that the host has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ANY_OUTSIDE_ADDRESS, 9))
        except OSError:
            return only_address(interface_addresses(probe))
        return str(probe.getsockname()[0])


def only_address(found: Sequence[str]) -> str:
    own = [address for address in found if not ipaddress.ip_address(address).is_loopback]
    if len(own) == 1:
        return own[0]
    has = f"has several addresses ({', '.join(own)}) and no route out" if own else "has no address yet"
    log.warning(
        "this host %s, so others are told %s, which is no way to reach it: set advertise_addr or bind_addr",
        *(has, LOOPBACK),
    )
    return LOOPBACK


def interface_addresses(asked: socket.socket) -> list[str]:
    found = []
    for _, name in socket.if_nameindex():
        request = struct.pack("256s", name.encode()[:NAME_BYTES_MAX])
        try:
            answer = fcntl.ioctl(asked, SIOCGIFADDR, request)
        except OSError:  # it has none
            continue
        found.append(socket.inet_ntoa(answer[20:24]))
    return found


def _by_family(kind: str, address: str) -> dict[str, str]:
    try:
        version = ipaddress.ip_address(address).version
    except ValueError:  # a name, which resolves to whatever it does
        return {kind: address}
    return {kind: address, f"{kind}_ipv{version}": address}
