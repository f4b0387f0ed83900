"""What owners publish, as replication carries it: items, pushes, ranges, and the bodies of its questions."""

from __future__ import annotations

import struct

import cbor2

from adsum.catalog.replication.bodies import OwnerStanding
from adsum.catalog.replication.root import WORDS_BYTES
from adsum.owners import STORE
from tests.fuzz.participants import EVERYBODY, FUZZER
from tests.fuzz.trees import Cbor, Known
from tests.fuzz.values import Values

SERVICES = tuple(f"web-{n}" for n in range(12))
KINDS = ("", "ttl", "http", "connect-proxy", "mesh-gateway")
STANDING = struct.Struct(">8sQIIIB")  # as `bodies` packs one


class Catalog:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random

    def push(self) -> object:
        version = self._version()
        head = [0, self._owner(), self._generation(), version, self.random.randbytes(8)]
        return self.values.mutated([*head, [*self._rows(version), *self._notices()]], times_max=1)

    def span(self) -> object:
        version = self._version()
        head = [1, self._owner(), self._generation(), version, self.random.randbytes(8), self._rows(version)]
        return self.values.mutated([*head, 0, self.random.choice((0, 1, version)), 0], times_max=1)

    def record(self) -> object:
        service, random = self.random.choice(SERVICES), self.random
        kind = random.choice(KINDS)
        node = ["printer-1"] if self.values.chance(0.2) else []
        nested = cbor2.dumps({"a": {"b": [1, 2.5, "x"]}}) if self.values.chance(0.3) else b""
        records: tuple[list[object], ...] = (
            [0, "dc1", {"lan": self.values.host()}, {"role": "db"}, *node],
            [1, service, service, *self._described(), nested, nested, *node],
            [2, f"service:{service}", "alive", "notes", service, service, ["v1"], kind, *node],
            [3, random.choice((0, 1, 2, 3, 4_294_967_295)), random.randrange(3), "output"],
            [4, "later"],
        )
        return self.values.mutated(random.choice(records), times_max=2)

    def _described(self) -> list[object]:
        """From its kind to whether tags may be overridden."""
        kind, tagged = self.random.choice(KINDS), {"lan": [self.values.host(), 80]}
        return [kind, ["v1"], self.values.host(), 80, tagged, {"version": "1"}, 1, 1, True]

    # Questions, by the method they belong to.

    def compare(self) -> object:
        return [self.random.randrange(4), self.random.randbytes(WORDS_BYTES)]

    def fetch(self) -> object:
        return [self._standings(), [Cbor(self.span()) for _ in range(self.random.randint(0, 4))]]

    def items(self) -> object:
        return [self._owner(), self._generation(), [self.random.randrange(8) for _ in range(4)]]

    # Answers, to whoever asks us.

    def compared(self) -> object:
        return [0, self.values.chance(0.3), self._standings()]

    def fetched(self) -> object:
        return [0, [Cbor(self.span()) for _ in range(self.random.randint(1, 6))]]

    def _standings(self) -> bytes:
        members = self.random.choices(EVERYBODY, k=self.random.choice((0, 1, 8)))
        return b"".join(STANDING.pack(*self._standing(each.short)) for each in members)

    def _standing(self, owner: bytes) -> OwnerStanding:
        generation = self.random.choice((0, 1, 1_763_000_000_000, (1 << 53) - 1, (1 << 64) - 1))
        low_water, gc_version, mark = self.random.choices((0, 1, 40, (1 << 32) - 1), k=3)
        return OwnerStanding(owner, generation, low_water, gc_version, mark, self.random.choice((0, 255)))

    def _version(self) -> int:
        return self.random.choice((1, 5, 40, (1 << 32) - 1))

    def _owner(self) -> bytes:
        others = (self.random.choice(EVERYBODY).short, self.random.choice(EVERYBODY).short, STORE)
        return FUZZER.short if self.values.chance(0.6) else self.random.choice(others)

    def _generation(self) -> object:
        return self.random.choice((Known("life"), Known("life"), Known("now"), 1, (1 << 53) - 1))

    def _rows(self, version: int) -> list[object]:
        numbers = self.random.sample(range(30), k=self.random.randint(0, 3))
        return [[number, self.random.choice((0, version - 1)), Cbor(self.record())] for number in numbers]

    def _notices(self) -> list[object]:
        """Items that are gone, or to be fetched."""
        if self.values.chance(0.8):
            return []
        return [[self.random.choice((31, 199_999)), 0, *([True] if self.values.chance(0.7) else [])]]
