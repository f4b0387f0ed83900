"""What was heard or told here of late, by its mark: who says that it has something names it by four bytes.

A mark is a checksum of the payload. It decides nothing but whether to ask: two payloads of one mark would
cost the second one its first repair, and the comparison of rosters or catalogs brings it later.

Two halves: the older is forgotten when the younger is full or some seconds old, so nothing needs a time of
its own, and what is here was heard at most twice that long ago.
"""

from __future__ import annotations

import zlib

from adsum.gossip.wire import MARK_BYTES
from adsum.named import NamedTuple
from adsum.now import SECOND

HALF_NS = 4 * SECOND  # news is marked for less than one, however slowly it is told
HALF_MAX = 8_192
HALF_BYTES_MAX = 2 * 1024 * 1024  # as many flips with outputs; full datagrams would take 11 MB


class RecentPayload(NamedTuple):
    payload: bytes
    born_ns: int | None = None  # when it was first told by anybody, if that is known
    is_claim: bool = True  # or else carried for the catalog
    is_for_all: bool = False  # whoever it came from tells it to all, so it need not be pushed on


class RecentNews:
    def __init__(self) -> None:
        self._young: dict[bytes, RecentPayload] = {}
        self._old: dict[bytes, RecentPayload] = {}
        self._begun_ns = 0
        self._young_bytes = 0

    def get(self, mark: bytes) -> RecentPayload | None:
        return self._young.get(mark) or self._old.get(mark)

    def __contains__(self, mark: bytes) -> bool:
        return mark in self._young or mark in self._old

    def add(self, now_ns: int, mark: bytes, news: RecentPayload) -> None:
        is_full = len(self._young) >= HALF_MAX or self._young_bytes >= HALF_BYTES_MAX
        if is_full or now_ns - self._begun_ns >= HALF_NS:
            self._old, self._young, self._young_bytes, self._begun_ns = self._young, {}, 0, now_ns
        self._young[mark] = news
        self._young_bytes += len(news.payload)


def mark_of(payload: bytes) -> bytes:
    return zlib.crc32(payload).to_bytes(MARK_BYTES, "big")


def marks_of(packed: bytes) -> list[bytes]:
    return [packed[start : start + MARK_BYTES] for start in range(0, len(packed), MARK_BYTES)]
