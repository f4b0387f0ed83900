"""Workload: check-and-set. Everybody reads the same few keys, and writes or deletes one only as it was read:
of those who read the same, one may."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import KeyRead, KeysFound, KeyVerb, KeyWrite, ReadShape
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_calls import KeyCall
from adsum.testing.key_clients import KeyClient

FIRST_NUMBER = 200
KEYS = (b"compare/x", b"compare/y")
DELETES_SHARE = 0.2
READS_SHARE = 0.4  # of what is not due anyway


def compares(agents: Sequence[KeyAgent], random: Random) -> list[CompareClient]:
    return [
        CompareClient(agent, FIRST_NUMBER + place, Random(random.getrandbits(64)))
        for place, agent in enumerate(agents)
    ]


class CompareClient(KeyClient):
    _written = 0
    _read: tuple[bytes, bytes, int] = (KEYS[0], b"", 0)  # last: key, value, revision

    def choose(self) -> KeyWrite | KeyRead:
        if self.random.random() < READS_SHARE:
            return KeyRead(ReadShape.KEY, self.random.choice(KEYS))
        key, _value, revision = self._read
        if revision and self.random.random() < DELETES_SHARE:
            return KeyWrite(KeyVerb.DELETE, key, cas=revision)
        self._written += 1
        return KeyWrite(KeyVerb.PUT, key, b"%d.%d" % (self.number, self._written), cas=revision)

    def choose_last(self) -> KeyRead:
        return KeyRead(ReadShape.KEY, self.random.choice(KEYS))

    def expected(self, asked: KeyWrite | KeyRead) -> bytes:
        return self._read[1] if isinstance(asked, KeyWrite) else b""

    def heard(self, call: KeyCall) -> None:
        found, key = call.operation.outcome, call.operation.asked.key
        if isinstance(found, KeysFound) and found.keys:
            self._read = (key, found.records[0].value, found.records[0].modify)
        elif isinstance(found, KeysFound):
            self._read = (key, b"", 0)
