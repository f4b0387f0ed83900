"""Requests that came before, byte for byte, and are answered unparsed.

A client asks the same again and again, and in the same words on each of its connections: a proxy for the
instances that pass, a template for its next poll. What such bytes mean was decided when they came first, by
the parser, the rules for browsers and the router, so the next time it is looked up. DNS does the same with
its questions.

Whoever answers a request says in `Request.again` how to answer the same one anew; or, if that takes
a while, in `Request.begins_again` how to begin it. What is kept holds for one kind of listener: those on
loopback look at the Host header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from adsum.http.limits import HttpCounters
from adsum.http.request import TakesAnswer
from adsum.http.response import Response
from adsum.named import NamedTuple

REQUESTS_MAX = 16_384  # with what is kept of keys' answers (`api.key_reader`) some 30 MB
REQUESTS_BYTES_MAX = 4 << 20
LET_GO_AT_ONCE = 8  # of what was forgotten, for each that is kept: to free all of it holds the loop for 25 ms
REQUEST_BYTES_MAX = 1024  # the longest that is kept; Go's client and curl send some 150 bytes


class KnownRequest(NamedTuple):
    again: Callable[[], Response | None]  # None: not this way any more
    takes_gzip: bool
    fate: bytes  # what the Connection header says
    site_headers: bytes  # as `Response` has them


@final
class KnownBeginning(NamedTuple):
    begin: Callable[[TakesAnswer], None]
    takes_gzip: bool
    site_headers: bytes
    on_gone: None = None  # as a `Request` has it: the answer is sent all the same


class KnownRequests:
    def __init__(self, counters: HttpCounters) -> None:
        self._counters = counters
        self._by_bytes: dict[bytes, KnownRequest | KnownBeginning] = {}
        self._bytes_total = 0
        self._forgotten: list[KnownRequest | KnownBeginning] = []
        self.get = self._by_bytes.get

    def keep(self, data: bytes, known: KnownRequest | KnownBeginning) -> None:
        if len(data) > REQUEST_BYTES_MAX:
            return
        if data not in self._by_bytes:
            self._make_room(len(data))
        self._by_bytes[data] = known

    def _make_room(self, more_bytes: int) -> None:
        self._bytes_total += more_bytes
        del self._forgotten[-LET_GO_AT_ONCE:]
        if len(self._by_bytes) >= REQUESTS_MAX or self._bytes_total > REQUESTS_BYTES_MAX:
            self._counters.known_overflows += 1
            self._forgotten += self._by_bytes.values()
            self._by_bytes.clear()
            self._bytes_total = more_bytes
