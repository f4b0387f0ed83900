"""Workload: a set. Everybody adds elements, each its own key, below one prefix, and reads it as a list: what
was acknowledged is in it, what was refused is not.

A prefix serves for a few seconds, so that lists stay short; later its tree may be deleted. In the end
everybody reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import KeyRead, KeyVerb, KeyWrite, ReadShape
from adsum.now import SECOND
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_clients import KeyClient

FIRST_NUMBER = 300
PREFIX_NS = 8 * SECOND
VERBS = ("add",) * 10 + ("list",) * 5 + ("delete tree",)


def sets(agents: Sequence[KeyAgent], random: Random) -> list[SetClient]:
    return [
        SetClient(agent, FIRST_NUMBER + place, Random(random.getrandbits(64)))
        for place, agent in enumerate(agents)
    ]


class SetClient(KeyClient):
    _added = 0

    def choose(self) -> KeyWrite | KeyRead:
        now = self.world.now_ns // PREFIX_NS
        prefix = b"set/%d/" % now
        match self.random.choice(VERBS):
            case "add":
                self._added += 1
                return KeyWrite(KeyVerb.PUT, prefix + b"%d.%d" % (self.number, self._added), b"in")
            case "delete tree":
                return KeyWrite(KeyVerb.DELETE_TREE, b"set/%d/" % max(0, now - self.random.randrange(3)))
            case _:
                return KeyRead(self.random.choice((ReadShape.TREE, ReadShape.NAMES)), prefix)

    def choose_last(self) -> KeyRead:
        return KeyRead(ReadShape.TREE, b"set/")
