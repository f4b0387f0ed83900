"""Heads of requests that came before: what their fields say is looked up, and not parsed again.

A client that writes sends other targets and other bodies each time, and the same fields before them. Those
are known by their bytes, from behind the request line to the empty line, and mean what they meant when they
came first, when llhttp split them and the parser examined them. So a head is learned only from a request that
llhttp read as one, whole and alone, and only if it was cut here at the same places; then llhttp, which
knows no more than these bytes, would cut the next one with such a head there, too.

Only the request line differs, so it has to be of the plainest form. Everything else goes to llhttp: other
lines, bodies that are not whole yet or have something behind them, and all fields that decide how a
message ends or what becomes of the connection, but for the length.

What is kept holds for one kind of listener, as the requests in `request_cache` do: with the fields it is kept
whether their Host and Origin were accepted.
"""

from __future__ import annotations

import re

from adsum.http.limits import HttpCounters
from adsum.http.request import Headers, Request
from adsum.named import NamedTuple

HEADS_MAX = 512
HEAD_BYTES_MAX = 512  # the longest that is kept; with a token Go's client sends some 170 bytes
FIELDS_MAX = 16
# A target has no fragment, and none of the bytes that only some servers take.
REQUEST_LINE = re.compile(rb"(GET|PUT|POST|DELETE|HEAD) (/[A-Za-z0-9\-._~!$&'()*+,;=:@/?%]*) HTTP/1\.1\r\n")
METHOD_NAMES = {name.encode(): name for name in ("GET", "PUT", "POST", "DELETE", "HEAD")}
HEAD_END = b"\r\n\r\n"
# llhttp takes the second for the first.
ENDING_FIELDS = frozenset(
    (b"connection", b"proxy-connection", b"upgrade", b"transfer-encoding", b"expect", b"trailer", b"te")
)


class KnownHead(NamedTuple):
    headers: Headers
    body_bytes: int


class KnownHeads:
    def __init__(self, counters: HttpCounters) -> None:
        self._counters = counters
        self._by_bytes: dict[bytes, KnownHead] = {}
        self.get = self._by_bytes.get

    def learn(self, data: bytes, request: Request) -> None:
        """`data` is what llhttp read as this request and nothing else; its fields are plain ones."""
        found = cut(data)
        if found is None:
            return
        method, target, head, body = found
        is_cut_alike = (method, target, body) == (request.method, request.target, request.body)
        if not is_cut_alike or len(head) > HEAD_BYTES_MAX or len(request.headers.pairs) > FIELDS_MAX:
            return
        if len(self._by_bytes) >= HEADS_MAX:
            self._counters.known_overflows += 1
            self._by_bytes.clear()
        self._by_bytes[head] = KnownHead(request.headers, len(body))


def are_plain(headers: Headers) -> bool:
    return not any(name.lower() in ENDING_FIELDS for name, _ in headers.pairs)


def cut(data: bytes) -> tuple[str, bytes, bytes, bytes] | None:
    """Method, target, the fields with the empty line, and all that follows. None where the line is not of the
    plainest form, or the head has no end."""
    line = REQUEST_LINE.match(data)
    if line is None:
        return None
    begin = line.end()
    end = data.find(HEAD_END, begin - 2) + len(HEAD_END)
    if end < begin:
        return None
    method, target = line.groups()
    return METHOD_NAMES[method], target, data[begin:end], data[end:]
