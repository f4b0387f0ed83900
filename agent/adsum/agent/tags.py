"""What a member says about itself beyond name and address: the description that rides in its claim.

Positional CBOR, so that these facts take some thirty of the 256 bytes; fields that a later version appends
are ignored. Everything bigger belongs into the catalog.
"""

from __future__ import annotations

from functools import lru_cache

from adsum.cbor import BadEncoding, canonical_array
from adsum.frozen import dataclass
from adsum.rows import RowCodec, counter, flag, text

TEXT_BYTES_MAX = 64
NUMBER_MAX = 1 << 31
TERM_MAX = 1 << 62
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
    # A server that leads consensus, in which epoch and term; of several that say so the highest does.
    leads_in_epoch: int = 0
    leads_in_term: int = 0  # 0: it does not lead

    @property
    def leads_in(self) -> tuple[int, int] | None:
        return (self.leads_in_epoch, self.leads_in_term) if self.leads_in_term else None


UNKNOWN = Tags()


def encode(tags: Tags) -> bytes:
    return _TAGS.encode(tags)


@lru_cache(REMEMBERED_MAX)
def decode(meta: bytes) -> Tags:
    """One that makes no sense costs its member nothing but what it would have said."""
    try:
        return _TAGS.decode(canonical_array(meta))
    except BadEncoding:
        return UNKNOWN


_TAGS = RowCodec(
    Tags,
    *(text("datacenter", TEXT_BYTES_MAX), text("build", TEXT_BYTES_MAX)),
    *(flag("is_server"), counter("server_port", 65_536), flag("is_bootstrap"), counter("expect", NUMBER_MAX)),
    counter("wan_port", 65_536, default=0),
    *(counter("leads_in_epoch", NUMBER_MAX, default=0), counter("leads_in_term", TERM_MAX, default=0)),
    by_name=True,
)
