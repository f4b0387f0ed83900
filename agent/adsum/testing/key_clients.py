"""Clients of keys in a simulated world, each at one client agent: they read, write and compare registers, and
watch one.

What they were told is a history to be judged: an answer as it is, "it may have been done" as an operation
that may have happened, and every other refusal as one that did not, of which no trace may be found.
"""

from __future__ import annotations

from random import Random

from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.now import MILLISECOND, SECOND
from adsum.testing.checkers import demand
from adsum.testing.key_world import KeyAgent
from adsum.testing.linearizability import Operation
from adsum.testing.raft_machine import ClientCall

KEYS = ("x", "y")
THINK_NS_MAX = 150 * MILLISECOND
HANGS_UP_SHARE = 0.05
WAIT_NS_MAX = 10 * SECOND  # of one watch
WATCHED = b"watched"


class KeyClient:
    """One thing at a time."""

    def __init__(self, agent: KeyAgent, number: int, random: Random) -> None:
        self.history: list[Operation] = []
        self.refused: list[str] = []  # values that certainly were not written
        self.unknown = 0
        self.is_done = False
        self._agent = agent
        self._world = agent.world
        self._number = number
        self._random = random
        self._asked = 0
        self._last: dict[str, tuple[str, int]] = dict.fromkeys(KEYS, ("", 0))  # read: value and revision
        self._soon()

    def _soon(self) -> None:
        if not self.is_done:
            self._world.call(self._world.now_ns + self._random.randrange(1, THINK_NS_MAX), self._ask)

    def _ask(self) -> None:
        key = self._random.choice(KEYS)
        verb = self._random.choice(("set", "cas", "get"))
        self._asked += 1
        value = "" if verb == "get" else f"{self._number}.{self._asked}"
        expected, revision = self._last[key] if verb == "cas" else ("", 0)
        operation = Operation(self._number, ClientCall(verb, key, value, expected), self._world.now_ns)
        self.history.append(operation)
        pending = _Pending(self, operation, self._agent.life)
        if verb == "get":
            mode = self._random.choice((ReadMode.DEFAULT, ReadMode.CONSISTENT))
            self._agent.read(KeyRead(ReadShape.KEY, key.encode(), mode=mode), pending)
        else:
            cas = revision if verb == "cas" else None
            self._agent.write(KeyWrite(KeyVerb.PUT, key.encode(), value.encode(), cas=cas), pending)
        patience_ns = self._random.randrange(SECOND)
        if self._random.random() < HANGS_UP_SHARE:
            self._world.call(self._world.now_ns + patience_ns, pending.hang_up)
        self._look_after(pending)

    def _look_after(self, pending: _Pending) -> None:
        """Its agent may end meanwhile: then nobody answers."""
        if not pending.is_over and pending.life != self._agent.life:
            pending.is_over = True
            self.unknown += 1
            self._soon()
        elif not pending.is_over:
            self._world.call(self._world.now_ns + SECOND, lambda: self._look_after(pending))

    def ended(self, operation: Operation, outcome: StoreAnswer | KeysFound | KeyRefusal) -> None:
        match outcome:
            case KeysFound(keys=keys, records=records):
                value = records[0].value.decode() if keys else ""
                self._last[operation.call.key] = value, records[0].modify if keys else 0
                operation.answer, operation.returned_ns = value, self._world.now_ns
            case StoreAnswer(outcome=done):
                operation.answer = "yes" if done is StoreOutcome.DONE else "no"
                operation.returned_ns = self._world.now_ns
            case KeyRefusal(cause=KeyCause.UNKNOWN):
                self.unknown += 1
            case KeyRefusal():
                self.history.remove(operation)
                if operation.call.value:
                    self.refused.append(operation.call.value)
        self._soon()

    def gave_up(self, agent_life: int, pending: _Pending) -> None:
        if agent_life == self._agent.life:
            self._agent.give_up(pending)
            self._soon()


class _Pending:
    def __init__(self, client: KeyClient, operation: Operation, life: int) -> None:
        self.is_over = False
        self.life = life
        self._client = client
        self._operation = operation

    def __call__(self, outcome: StoreAnswer | KeysFound | KeyRefusal) -> None:
        demand(not self.is_over, f"{self._operation} was answered twice, or after it was given up")
        self.is_over = True
        self._client.ended(self._operation, outcome)

    def hang_up(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._client.gave_up(self.life, self)


class KeyWriter:
    """Writes 1, 2, 3 and so on under the watched key, each when the last is answered."""

    def __init__(self, agent: KeyAgent, random: Random) -> None:
        self.is_done = False
        self.last = 0
        self.is_acknowledged = False  # the last one
        self._agent = agent
        self._random = random
        self._life = agent.life
        self._write()

    def _write(self) -> None:
        self.last += 1
        self.is_acknowledged = False
        self._life = self._agent.life
        number = self.last

        def answered(outcome: StoreAnswer | KeyRefusal) -> None:
            if number == self.last:
                self.is_acknowledged = isinstance(outcome, StoreAnswer)
                self._again()

        self._agent.write(KeyWrite(KeyVerb.PUT, WATCHED, b"w%d" % number), answered)
        self._look_after(number)

    def _look_after(self, number: int) -> None:
        world = self._agent.world
        if number == self.last and not self.is_acknowledged and self._life != self._agent.life:
            self._again()
        elif number == self.last and not self.is_acknowledged:
            world.call(world.now_ns + SECOND, lambda: self._look_after(number))

    def _again(self) -> None:
        if self.is_done and self.is_acknowledged:
            return
        world = self._agent.world
        world.call(world.now_ns + self._random.randrange(1, SECOND), self._write)


class KeyWatcher:
    """As a client of the API watches: it asks for what is newer than it knows, and after a while anew."""

    def __init__(self, agent: KeyAgent, random: Random) -> None:
        self.value = 0
        self.changes = 0
        self._agent = agent
        self._world = agent.world
        self._random = random
        self._index = 0
        self._watch = object()
        self._ask()

    def _ask(self, *, waits: bool = True) -> None:
        life = self._agent.life
        watch = self._watch = object()

        def answered(outcome: KeysFound | KeyRefusal) -> None:
            if watch is self._watch:
                self._answered(outcome)

        def run_out() -> None:
            if watch is self._watch and life == self._agent.life:
                self._agent.give_up(answered)
                self._ask(waits=False)
            elif watch is self._watch:
                self._index = 0  # its agent ended, and it begins with another
                self._ask()

        read = KeyRead(ReadShape.KEY, WATCHED, since=self._index, waits=waits)
        self._agent.read(read, answered)
        self._world.call(self._world.now_ns + self._random.randrange(1, WAIT_NS_MAX), run_out)

    def _answered(self, outcome: KeysFound | KeyRefusal) -> None:
        self._watch = object()
        if isinstance(outcome, KeysFound):
            demand(not outcome.is_foreign, f"{self._index} is taken for an index from nowhere")
            demand(outcome.index >= self._index, f"the index fell from {self._index} to {outcome.index}")
            value = int(outcome.records[0].value[1:]) if outcome.keys else 0
            demand(value >= self.value, f"a watcher saw {self.value} and then {value}")
            self.changes += value > self.value
            self.value, self._index = value, outcome.index
        self._world.call(self._world.now_ns + self._random.randrange(1, 50 * MILLISECOND), self._ask)
