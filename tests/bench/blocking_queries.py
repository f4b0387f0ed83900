"""Thousands of blocking queries in one thread, each asked again with the index of its last answer, and when
each answer came. A selector and plain sockets: this shares its cores with the agents it watches, and a task
and a parser for each connection would cost more than they do.
"""

from __future__ import annotations

import re
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.bench.tools import LoadFailed
from tests.system.clusters import Member

CHUNK_BYTES = 256 * 1024
LOOK_S = 0.05
WAIT = "120s"
LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
INDEX = re.compile(rb"\r\nX-Consul-Index: (\d+)\r\n", re.IGNORECASE)
HEAD_END, LAST_CHUNK = b"\r\n\r\n", b"\r\n0\r\n\r\n"

Answered = Callable[[bytes, bytes, float], None]  # head, body and when it was here
Seen = Callable[[bytes, float], None]


class Line:
    """One kept connection to one agent, and one request on it at a time."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.answered: Answered | None = None
        self._received = b""
        with member.place.entered():
            self.sock = socket.create_connection(("127.0.0.1", member.place.ports.http))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method: str, target: str, answered: Answered, body: bytes = b"") -> None:
        assert self.answered is None, "one request at a time"
        self.answered = answered
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        self.sock.sendall(head.encode() + body)

    def hear(self) -> None:
        chunk, heard_s = self.sock.recv(CHUNK_BYTES), time.monotonic()
        if not chunk:
            raise LoadFailed(f"{self.member.name} closed a connection:\n{self.member.agent.log_tail()}")
        self._received += chunk
        head, end, body = self._received.partition(HEAD_END)
        if not end or not is_whole(head + b"\r\n", body):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise LoadFailed(f"{self.member.name}: {head.splitlines()[0]!r} {body[:200]!r}")
        answered, self.answered, self._received = self.answered, None, b""
        assert answered is not None, "an answer to nothing"
        answered(head + b"\r\n", body, heard_s)


def is_whole(head: bytes, body: bytes) -> bool:
    """Go sends in chunks what it did not hold whole."""
    length = LENGTH.search(head)
    return len(body) >= int(length[1]) if length else (b"\r\n" + body).endswith(LAST_CHUNK)


class BlockingQueries:
    def __init__(self) -> None:
        self.unanswered = 0  # of what was put
        self._selector = selectors.DefaultSelector()
        self._idle: dict[Member, list[Line]] = {}  # for requests that are answered at once
        self._lines: list[Line] = []

    def watch(self, member: Member, target: str, seen: Seen) -> Callable[[], None]:
        """`seen` is called with every answer, the first at once. Returns what ends it."""
        line = self._line(member)

        def answered(head: bytes, body: bytes, heard_s: float) -> None:
            index = INDEX.search(head)
            if index is None:
                raise LoadFailed(f"{member.name} answers {target} without an index")
            line.ask("GET", f"{target}?index={index[1].decode()}&wait={WAIT}", answered)
            seen(body, heard_s)

        line.ask("GET", target, answered)
        return lambda: self._end(line)

    def put(self, member: Member, target: str, body: bytes = b"") -> None:
        """Leaves at once. Its answer is only looked at for being a 200."""
        idle = self._idle.setdefault(member, [])
        line = idle.pop() if idle else self._line(member)

        def answered(_head: bytes, _body: bytes, _heard_s: float) -> None:
            idle.append(line)
            self.unanswered -= 1

        self.unanswered += 1
        line.ask("PUT", target, answered, body)

    def run_until(self, end_s: float, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Whether it was done by then."""
        while not is_done():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            for key, _events in self._selector.select(min(left_s, LOOK_S)):
                key.data.hear()
        return True

    def close(self) -> None:
        for line in self._lines:
            line.sock.close()
        self._selector.close()

    def _line(self, member: Member) -> Line:
        line = Line(member)
        self._selector.register(line.sock, selectors.EVENT_READ, line)
        self._lines.append(line)
        return line

    def _end(self, line: Line) -> None:
        self._selector.unregister(line.sock)
        self._lines.remove(line)
        line.sock.close()


@contextmanager
def blocking_queries() -> Iterator[BlockingQueries]:
    """With as many sockets as this process may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    queries = BlockingQueries()
    try:
        yield queries
    finally:
        queries.close()
