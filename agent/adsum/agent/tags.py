"""What a member says about itself beyond name and address: the description that rides in its claim.

Positional CBOR, so that the six facts take some thirty of the 256 bytes; fields that a later version appends
are ignored. Everything bigger belongs into the catalog.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeGuard

import cbor2

from adsum.cbor import BadEncoding, strict_loads
from adsum.frozen import dataclass

TEXT_CHARACTERS_MAX = 64
NUMBER_MAX = 1 << 31
# Members that say the same of themselves, as most clients of a cluster do, are read once.
REMEMBERED_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    datacenter: str = ""
    build: str = ""
    is_server: bool = False
    server_port: int = 0
    is_bootstrap: bool = False
    expect: int = 0  # servers that are to be there before a cluster begins
    wan_port: int = 0  # where a server is joined from other datacenters


UNKNOWN = Tags()


def encode(tags: Tags) -> bytes:
    fields = [
        *(tags.datacenter, tags.build, tags.is_server, tags.server_port, tags.is_bootstrap, tags.expect),
        tags.wan_port,
    ]
    return cbor2.dumps(fields)


@lru_cache(REMEMBERED_MAX)
def decode(meta: bytes) -> Tags:
    """One that makes no sense costs its member nothing but what it would have said."""
    try:
        fields = strict_loads(meta)
    except BadEncoding:
        return UNKNOWN
    match fields:
        case [str(datacenter), str(build), bool(server), int(port), bool(bootstrap), int(expect), *later]:
            is_sane = len(datacenter) <= TEXT_CHARACTERS_MAX and len(build) <= TEXT_CHARACTERS_MAX
            wan_port = later[0] if later else 0
            if is_sane and is_port(port) and is_port(wan_port) and 0 <= expect < NUMBER_MAX:
                return Tags(
                    datacenter=datacenter,
                    build=build,
                    is_server=server,
                    server_port=port,
                    is_bootstrap=bootstrap,
                    expect=expect,
                    wan_port=wan_port,
                )
    return UNKNOWN


def is_port(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < 65_536
