"""What an owner publishes, as replication sees it: numbered slots with a version and opaque bytes.

A value's meaning is known to `catalog.records` alone; relays pass on bytes that they may not understand.
The digest of an owner is the xor over its live items of 64 bits each: it changes by two terms when an item
changes, and two holders with equal digests hold the same items. Tombstones are not in it, so when they are
forgotten is everybody's own business.
"""

from __future__ import annotations

import hashlib
import struct

from adsum.named import NamedTuple

SHORT = 8  # bytes of a node's uuid that stand for it
NODE_NUMBER = 0  # the slot of the node's own record
NODE_KEY = "node"  # which gets it
NUMBER_MAX = 200_000  # items an owner may have
VERSION_MAX = 1 << 32  # an owner that ever gets there begins a new generation
COUNTER_MAX = 1 << 53
VALUE_BYTES_MAX = 64 * 1024

_ITEM = struct.Struct(">IQ")
_SHARE = struct.Struct(">8sQQQ")


class Item(NamedTuple):
    number: int
    version: int  # of the owner when it wrote this; the higher one is the truth
    value: bytes | None  # None: removed


def term(item: Item) -> int:
    """An item's part in its owner's digest."""
    if item.value is None:
        return 0
    packed = _ITEM.pack(item.number, item.version)
    return int.from_bytes(hashlib.blake2b(packed + item.value, digest_size=8).digest(), "big")


def share(owner: bytes, generation: int, low_water: int, digest: int) -> int:
    """An owner's part in the root of a catalog. With how far it is known: who has all items but does not know
    that it has is not done."""
    packed = _SHARE.pack(owner, generation, low_water, digest)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "big")
