"""Streams on gossip's port: pings, exchanges of rosters, calls by every method, and what we answer to those
that the agents open.
"""

from __future__ import annotations

from adsum.catalog.replication.bodies import COMPARE, CONFIRM, FETCH, ITEMS
from adsum.net.introduction import Purpose
from adsum.peers.keyrings import INSTALL, LIST, REMOVE, USE
from adsum.peers.owner_calls import DEREGISTER, OUTPUT, OWNERS, RETAG
from tests.fuzz.catalog import SERVICES, Catalog
from tests.fuzz.gossip import Gossip
from tests.fuzz.participants import AGENTS, EVERYBODY, FUZZER, SUBJECTS
from tests.fuzz.trees import Cbor, Input, Known
from tests.fuzz.values import Values

KEYS = (LIST, INSTALL, USE, REMOVE)
METHODS = (*KEYS, DEREGISTER, RETAG, OUTPUT, OWNERS, COMPARE, CONFIRM, FETCH, ITEMS)
CALLS_MAX = 8  # on one connection
# What becomes of a stream after the frames: closed, reset, left with half a frame, or held open.
ENDINGS = ("close", "close", "reset", "half", "hold")


class Exchanges:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random
        self._gossip = Gossip(values)
        self._catalog = Catalog(values)

    def stream(self) -> Input:
        """A ping, or an exchange with its closing turn."""
        purpose = self.random.choice((Purpose.PING, Purpose.SYNC, Purpose.SYNC, Purpose.SYNC))
        frames = [self._roster() for _ in range(self.random.randint(1, 3))] if purpose is Purpose.SYNC else []
        return self._opened(purpose, frames)

    def calls(self) -> Input:
        frames = [self._ask(number) for number in range(self.random.randint(1, CALLS_MAX))]
        if self.values.chance(0.3):
            frames.append(self.values.mutated(self.random.choice(([3, "topic", b""], [4, 0], [5], [6], [9]))))
        return self._opened(Purpose.CALLS, frames)

    def answer(self) -> Input:
        """What an agent is told that asks us: the turn of an exchange, or the outcome of a call."""
        if self.values.chance(0.3):
            content = {"to": "sync", "frames": [self._roster() for _ in range(self.random.randint(1, 2))]}
            return Input("answer", 0, content)
        bodies = (self._catalog.compared(), self._catalog.fetched(), self._catalog.fetched(), [1], [2], ["k"])
        body = Cbor(self.values.mutated(self.random.choice(bodies), times_max=1))
        outcome = [2, Known("ask"), "busy", "text"] if self.values.chance(0.1) else [1, Known("ask"), body]
        return Input("answer", 0, {"to": "call", "frames": [self.values.mutated(outcome, times_max=1)]})

    def _opened(self, purpose: Purpose, frames: list[object]) -> Input:
        who = FUZZER if self.values.chance(0.8) else self.random.choice(EVERYBODY)
        introduction: object = [0, 1, 1, who.node_id, "", 0, int(purpose)]
        if self.values.chance(0.2):
            introduction = self.values.mutated(introduction)
        content = {
            "introduction": Cbor(introduction),
            "frames": [Cbor(frame) for frame in frames],
            "ending": self.random.choice(ENDINGS),
        }
        door = "calls" if purpose is Purpose.CALLS else "stream"
        return Input(door, self.random.randrange(AGENTS), content)

    def _roster(self) -> object:
        parts = [self._part() for _ in range(self.random.randint(0, 12))]
        is_last = self.values.chance(0.8)
        wants_answer = self.values.chance(0.8)
        digest, advice = self.random.getrandbits(64), self.random.choice((0, 0, 1, (1 << 53) - 1))
        frame = [digest, self.values.chance(0.5), advice, wants_answer, is_last, parts]
        return self.values.mutated(frame, times_max=1)

    def _part(self) -> object:
        subject = self.random.choice(SUBJECTS)
        alive = Cbor(self.values.mutated(self._gossip.alive(subject), times_max=1))
        verdict: object = Cbor(self._gossip.claim()) if self.values.chance(0.4) else b""
        return [alive, verdict, self.random.choice((0, 1, 86_400, (1 << 64) - 1))]

    # Calls.

    def _ask(self, number: int) -> object:
        method = self.random.choice(METHODS)
        body = self._body(method)
        timeout_ms = self.random.choice((1, 1_000, 3_600_000))
        return self.values.mutated([0, number, method, timeout_ms, body], times_max=1)

    def _body(self, method: str) -> object:
        if method in KEYS:
            return self.values.text().encode()
        service = self.random.choice(SERVICES)
        shapes: dict[str, object] = {
            DEREGISTER: [service, self.random.choice(("", f"service:{service}", "serfHealth"))],
            RETAG: [service, ["v1", self.values.text()]],
            OUTPUT: [[f"service:{service}", "serfHealth"]],
            OWNERS: [self.random.choice(EVERYBODY).short],
            COMPARE: self._catalog.compare(),
            CONFIRM: self._catalog.compare(),
            FETCH: self._catalog.fetch(),
            ITEMS: self._catalog.items(),
        }
        return Cbor(self.values.mutated(shapes[method], times_max=1))
