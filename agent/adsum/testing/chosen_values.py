"""Values of a client that knows the log's format, and wants a torn batch to be taken for a damaged one.

Such a value is full of batch headers, each at the start of a sector if the value's entry is the first of its
batch. All that the client lacks is the log's salt.
"""

from __future__ import annotations

import struct
import zlib
from random import Random

from adsum.storage.files import SECTOR_BYTES

# Before the data of a batch's first entry: the batch's header, the entry's, and its repeat key's numbers.
BEFORE_BYTES = 44 + 39 + 28
HEADERS = 3
BATCH_MAX, TERM_MAX = 400, 40


def chosen_value(random: Random, before_bytes: int) -> bytes:
    """`before_bytes` of the entry's data and of the name in its repeat key come before it."""
    shift = -(BEFORE_BYTES + before_bytes) % SECTOR_BYTES
    return bytes(shift) + b"".join(_forged(random).ljust(SECTOR_BYTES, b"v") for _ in range(HEADERS))


def _forged(random: Random) -> bytes:
    segment, batch, term = random.randrange(1, 9), random.randrange(BATCH_MAX), random.randrange(TERM_MAX)
    body = struct.pack("<QQQIII", segment, batch, term, SECTOR_BYTES * 8, 600, 0)
    return b"ADSB" + struct.pack("<I", zlib.crc32(body, zlib.crc32(segment.to_bytes(8, "little")))) + body
