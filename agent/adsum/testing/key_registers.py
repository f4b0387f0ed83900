"""Workload: a few registers, written, deleted and read by everybody. No value is written by two requests."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import KeyRead, KeyVerb, KeyWrite, ReadMode, ReadShape
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_clients import KeyClient

FIRST_NUMBER = 100
KEYS = (b"register/x", b"register/y")
VERBS = ("put", "put", "put", "delete", "get", "get", "get")
MODES = (ReadMode.DEFAULT, ReadMode.DEFAULT, ReadMode.CONSISTENT, ReadMode.STALE)
FLAGS_BITS = 64


def registers(agents: Sequence[KeyAgent], random: Random) -> list[RegisterClient]:
    return [
        RegisterClient(agent, FIRST_NUMBER + place, Random(random.getrandbits(64)))
        for place, agent in enumerate(agents)
    ]


class RegisterClient(KeyClient):
    _written = 0

    def choose(self) -> KeyWrite | KeyRead:
        key = self.random.choice(KEYS)
        match self.random.choice(VERBS):
            case "put":
                self._written += 1
                flags = self.random.getrandbits(FLAGS_BITS)
                return KeyWrite(KeyVerb.PUT, key, b"%d.%d" % (self.number, self._written), flags)
            case "delete":
                return KeyWrite(KeyVerb.DELETE, key)
            case _:
                return KeyRead(ReadShape.KEY, key, mode=self.random.choice(MODES))

    def choose_last(self) -> KeyRead:
        return KeyRead(ReadShape.KEY, self.random.choice(KEYS))
