"""Clients of a simulated cluster: each does one thing at a time, and remembers what it asked and heard.

A write that was accepted and not answered may be tried again, elsewhere and under the same sequence, while
the first try may yet come through: it must happen once. In the end some stay open: whether they happened is
for the log to say.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from adsum.agent.server_agent import ConsistentRead, Proposal
from adsum.dedup import DedupKey
from adsum.effects import Reply
from adsum.now import MILLISECOND, SECOND
from adsum.storage.files import SECTOR_BYTES
from adsum.testing.chosen_values import chosen_value
from adsum.testing.linearizability import Operation
from adsum.testing.raft_cluster import RaftCluster
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_server import SimulatedServer

End = Callable[[str | None], None]

KEYS = ("x", "y", "z")
PATIENCE_NS_MIN, PATIENCE_NS = SECOND // 4, 3 * SECOND
TRIES_MAX = 4
THINK_NS_MAX = 120 * MILLISECOND
ATTACKS_SHARE = 0.3  # of writes, where there is an attacker


class Clients:
    def __init__(
        self, cluster: RaftCluster, random: Random, *, count: int, attacker: Random | None = None
    ) -> None:
        """With an `attacker`, some values are chosen to mislead whoever reads the log."""
        self.history: list[Operation] = []
        self.is_done = False
        self.retries = 0
        self._cluster = cluster
        self._random = random
        self._attacker = attacker
        self._asked = 0
        self._last_written = dict.fromkeys(KEYS, "")
        for client in range(count):
            self._soon(client)

    def _soon(self, client: int) -> None:
        self._cluster.at(self._random.randrange(THINK_NS_MAX), lambda: self._ask(client))

    def _ask(self, client: int) -> None:
        if self.is_done:
            return
        server = self._pick()
        if server is None:
            self._soon(client)
            return
        self._asked += 1
        operation = Operation(client, self._call(client), self._cluster.now_ns, sequence=self._asked)
        self.history.append(operation)
        self._begin(client, server, operation)

    def _pick(self) -> SimulatedServer | None:
        """Mostly whoever leads, sometimes one who only thinks so, now and then anyone."""
        leaders = self._cluster.leaders()
        if leaders and self._random.random() < 0.9:
            return self._random.choice(leaders)
        up = self._cluster.up()
        return self._random.choice(up) if up else None

    def _call(self, client: int) -> ClientCall:
        key = self._random.choice(KEYS)
        verb = self._random.choice(("set", "cas", "get"))
        if verb == "get":
            return ClientCall("get", key)
        value = f"{client}.{self._asked}"
        call = ClientCall(verb, key, value, self._last_written[key] if verb == "cas" else "")
        self._last_written[key] = value
        if self._cluster.value_bytes_max:
            call = call._replace(ballast=bytes(self._random.randrange(self._cluster.value_bytes_max)))
        if self._attacker is not None and self._attacker.random() < ATTACKS_SHARE:
            head_bytes = len(call._replace(ballast=bytes(SECTOR_BYTES)).encoded()) - SECTOR_BYTES
            before_bytes = len(str(client)) + head_bytes
            call = call._replace(ballast=chosen_value(self._attacker, before_bytes))
        return call

    def _begin(self, client: int, server: SimulatedServer, operation: Operation, tries: int = 1) -> None:
        """The server holds it, sends it on and tries it again; the end comes with its answer, or never."""
        is_waiting = True
        what = "read" if operation.call.verb == "get" else "propose"
        self._cluster.table.began(what, client)

        def end(answer: str | None) -> None:
            nonlocal is_waiting
            if not is_waiting:
                return
            is_waiting = False
            self._cluster.table.ended(what, client)
            if answer is not None:
                operation.answer, operation.returned_ns = answer, self._cluster.now_ns
                self._soon(client)
            elif not self._tries_again(client, operation, tries):
                self._soon(client)

        def ask() -> None:
            if operation.call.verb == "get":
                self._read(server, operation, end)
            else:
                self._write(server, operation, end)

        self._cluster.at(self._random.randrange(PATIENCE_NS_MIN, PATIENCE_NS), lambda: end(None))
        self._cluster.later(server, 0, ask)  # a paused server finds it in its socket when it wakes

    def _tries_again(self, client: int, operation: Operation, tries: int) -> bool:
        """Under the same dedup key; a read is another read each time."""
        is_open = operation.call.verb != "get" and not self.is_done
        server = self._pick() if is_open and tries < TRIES_MAX and self._random.random() < 0.7 else None
        if server is None:
            return False
        self.retries += 1
        self._begin(client, server, operation, tries + 1)
        return True

    def _write(self, server: SimulatedServer, operation: Operation, end: End) -> None:
        dedup = DedupKey(str(operation.client), 1, operation.sequence, operation.sequence)

        def answered(reply: Reply) -> None:
            end(reply.value.decode() if isinstance(reply.value, bytes) else None)

        self._cluster.submit(server, Proposal(operation.call.encoded(), dedup), answered)

    def _read(self, server: SimulatedServer, operation: Operation, end: End) -> None:
        def answered(reply: Reply) -> None:
            if reply.refusal is not None:
                end(None)
                return
            operation.index = server.machine.index
            end(server.machine.get(operation.call.key))

        self._cluster.submit(server, ConsistentRead(), answered)
