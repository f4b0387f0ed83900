"""Requests that came before, byte for byte, and are answered unparsed.

A client asks the same again and again, and in the same words on each of its connections: a proxy for the
instances that pass, a template for its next poll. What such bytes mean was decided when they came first, by
the parser, the rules for browsers and the router, so the next time it is looked up. DNS does the same with
its questions.

Whoever answers a request says in `Request.again` how to answer the same one anew. What is kept holds for one
kind of listener: those on loopback look at the Host header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from adsum.http.limits import HttpCounters
from adsum.http.response import Response

REQUESTS_MAX = 1024
REQUEST_BYTES_MAX = 1024  # the longest that is kept; Go's client and curl send some 150 bytes


class KnownRequest(NamedTuple):
    again: Callable[[], Response | None]  # None: not this way any more
    takes_gzip: bool
    fate: bytes  # what the Connection header says
    site_headers: bytes  # as `Response` has them


class KnownRequests:
    def __init__(self, counters: HttpCounters) -> None:
        self._counters = counters
        self._by_bytes: dict[bytes, KnownRequest] = {}
        self.get = self._by_bytes.get

    def keep(self, data: bytes, known: KnownRequest) -> None:
        if len(data) > REQUEST_BYTES_MAX:
            return
        if len(self._by_bytes) >= REQUESTS_MAX:
            self._counters.known_overflows += 1
            self._by_bytes.clear()
        self._by_bytes[data] = known
