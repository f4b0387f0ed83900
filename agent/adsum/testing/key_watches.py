"""Workload: a few keys that one client changes and many watch, one or all of them. Nobody sees time go back,
and in the end everybody has seen the last change, without asking again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import KeyRead, KeysFound, KeyVerb, KeyWrite, ReadShape
from adsum.now import MILLISECOND, SECOND
from adsum.testing.checkers import demand
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_calls import KeyCall
from adsum.testing.key_clients import KeyClient, KeyParticipant

FIRST_NUMBER = 400
PREFIX = b"watched/"
KEYS = (b"watched/a", b"watched/b")
VERBS = ("put",) * 8 + ("delete",) * 2 + ("delete tree",)
WRITES_NS_MAX = SECOND  # between two
AGAIN_NS_MAX = 50 * MILLISECOND  # between an answer and the next question
WAIT_NS_MAX = 10 * SECOND
KEEPS_INDEX_SHARE = 0.5  # of the times that an agent ends


def watches(agents: Sequence[KeyAgent], random: Random) -> list[KeyParticipant]:
    numbers = iter(range(FIRST_NUMBER, FIRST_NUMBER + 100))
    writer = WatchedWriter(agents[0], next(numbers), random_of(random), think_ns_max=WRITES_NS_MAX)
    reads = [
        *(KeyRead(ReadShape.KEY, key) for key in KEYS),
        *(KeyRead(ReadShape.KEY, KEYS[0]), KeyRead(ReadShape.TREE, PREFIX)),
    ]
    watchers = [
        KeyWatcher(agent, next(numbers), read, random_of(random)) for agent in agents for read in reads
    ]
    return [writer, *watchers]


def random_of(random: Random) -> Random:
    return Random(random.getrandbits(64))


class WatchedWriter(KeyClient):
    _written = 0

    def choose(self) -> KeyWrite:
        key = self.random.choice(KEYS)
        match self.random.choice(VERBS):
            case "put":
                return self._put(key)
            case "delete":
                return KeyWrite(KeyVerb.DELETE, key)
            case _:
                return KeyWrite(KeyVerb.DELETE_TREE, PREFIX)

    def choose_last(self) -> KeyWrite:
        return self._put(KEYS[0])

    def _put(self, key: bytes) -> KeyWrite:
        self._written += 1
        return KeyWrite(KeyVerb.PUT, key, b"%d" % self._written)


class KeyWatcher:
    """As a client of the API watches: it asks for what is newer than it knows, and after a while anew. At the
    end it does so no more: whoever is not woken is found."""

    def __init__(self, agent: KeyAgent, number: int, read: KeyRead, random: Random) -> None:
        self.changes = 0
        self._agent = agent
        self._world = agent.world
        self._number = number
        self._read = read
        self._random = random
        self._index = 0
        self._seen: dict[bytes, bytes] = {}
        self._has_stopped = False
        self._ask()

    def stop(self) -> None:
        self._has_stopped = True

    @property
    def is_settled(self) -> bool:
        return self._seen == self._world.look(self._read)

    def _ask(self, *, waits: bool = True) -> None:
        if not self._agent.is_up:
            self._soon()
            return
        read = KeyRead(self._read.shape, self._read.key, since=self._index, waits=waits)
        call = KeyCall(self._agent, self._number, read, self._ended)

        def run_out() -> None:
            if not call.is_over and not self._has_stopped:
                call.give_up()
                self._ask(waits=False)

        self._world.call(self._world.now_ns + self._random.randrange(1, WAIT_NS_MAX), run_out)

    def _ended(self, call: KeyCall) -> None:
        found = call.operation.outcome
        if isinstance(found, KeysFound):
            demand(found.index >= self._index, f"the index fell from {self._index} to {found.index}")
            seen = {key: record.value for key, record in zip(found.keys, found.records, strict=True)}
            self.changes += seen != self._seen
            self._seen, self._index = seen, found.index
        elif not self._agent.is_up and self._random.random() >= KEEPS_INDEX_SHARE:
            self._index = 0
        self._soon()

    def _soon(self) -> None:
        self._world.call(self._world.now_ns + self._random.randrange(1, AGAIN_NS_MAX), self._ask)
