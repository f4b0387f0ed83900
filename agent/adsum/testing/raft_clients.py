"""Clients of a simulated cluster: each does one thing at a time, and remembers what it asked and heard.

Writes that were accepted and never answered stay open: whether they happened is for the log to say.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from adsum.now import MILLISECOND, SECOND
from adsum.raft.errors import Refused
from adsum.raft.types import Entry, Position
from adsum.testing.linearizability import Operation
from adsum.testing.raft_cluster import Cluster, Host
from adsum.testing.raft_machine import Call, Registers

End = Callable[[str | None], None]

KEYS = ("x", "y", "z")
PATIENCE_NS = 3 * SECOND
THINK_NS_MAX = 120 * MILLISECOND


class Clients:
    def __init__(self, cluster: Cluster, random: Random, *, count: int) -> None:
        self.history: list[Operation] = []
        self.is_done = False
        self._cluster = cluster
        self._random = random
        self._asked = 0
        self._last_written = dict.fromkeys(KEYS, "")
        for client in range(count):
            self._soon(client)

    def _soon(self, client: int) -> None:
        self._cluster.at(self._random.randrange(THINK_NS_MAX), lambda: self._ask(client))

    def _ask(self, client: int) -> None:
        if self.is_done:
            return
        host = self._pick()
        if host is None:
            self._soon(client)
            return
        self._asked += 1
        operation = Operation(client, self._call(client), self._cluster.now_ns)
        self._begin(client, host, operation, self._asked)

    def _pick(self) -> Host | None:
        """Mostly whoever leads, sometimes one who only thinks so, now and then anyone."""
        leaders = self._cluster.leaders()
        if leaders and self._random.random() < 0.9:
            return self._random.choice(leaders)
        up = self._cluster.up()
        return self._random.choice(up) if up else None

    def _call(self, client: int) -> Call:
        key = self._random.choice(KEYS)
        verb = self._random.choice(("set", "cas", "get"))
        if verb == "get":
            return Call("get", key)
        value = f"{client}.{self._asked}"
        call = Call(verb, key, value, self._last_written[key] if verb == "cas" else "")
        self._last_written[key] = value
        return call

    def _begin(self, client: int, host: Host, operation: Operation, context: int) -> None:
        """Proposed or asked; the end comes when the host has applied it, or never."""
        is_waiting = True

        def end(answer: str | None) -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                if answer is not None:
                    operation.answer, operation.returned_ns = answer, self._cluster.now_ns
                self._soon(client)

        def ask() -> None:
            try:
                if operation.call.verb == "get":
                    self._read(host, operation, end, context)
                else:
                    self._write(host, operation, end)
                self.history.append(operation)
            except Refused:
                end(None)

        self._cluster.at(PATIENCE_NS, lambda: end(None))
        self._cluster.later(host, 0, ask)  # a paused server finds it in its socket when it wakes

    def _write(self, host: Host, operation: Operation, end: End) -> None:
        position: Position = self._cluster.propose(host, operation.call.encoded())
        operation.index, operation.term = position

        def applied(entry: Entry, answer: str) -> None:
            end(answer if entry.term == position.term else None)  # another took its place: it never happened

        host.on_applied[position.index] = applied

    def _read(self, host: Host, operation: Operation, end: End, context: int) -> None:
        def confirmed(machine: Registers) -> None:
            operation.index = machine.index
            end(machine.get(operation.call.key))

        host.server.core.read_index(context)
        host.on_read[context] = confirmed
