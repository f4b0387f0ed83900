"""A world small enough that everything that can happen in it is gone through: two agents and what they ask,
the log as far as it is committed, and what may still be committed, in any order.

The agents are the shipped ones (`adsum.accepting`), and so is the state machine. A model stands beside it
that forgets nothing: which write was run under which name, and every change. What the machine answers is
compared with it.

What goes wrong is a choice as well: an agent asks again, and the earlier entry may be committed yet, before
or after, or never (its leader was followed by another); an entry is in the log twice; the server starts
again from a snapshot; another run of the same agent asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from adsum.accepting import AcceptedWrite
from adsum.dedup import DedupKey, WriteNumbers
from adsum.kv import (
    KeyCause,
    KeyRecord,
    KeyRefusal,
    KeyVerb,
    KeyWrite,
    StoreAnswer,
    StoreOutcome,
    decode_answer,
    encode,
)
from adsum.store.commands import Delete, DeleteTree, Put, StoreCommand, StoreRequest, encode_request
from adsum.store.history import HistoryBounds
from adsum.store.keyspace import Keyspace
from adsum.store.machine import StoreMachine
from tests.store.stores import entry

HISTORY = HistoryBounds(changes_max=2, bytes_max=1 << 20)
RESULTS_BYTES_MAX = 335  # of three answers
QUERIES = (
    (b"a", False),
    (b"a/b", False),
    (b"z", False),
    (b"a", True),
    (b"a/", True),
    (b"z", True),
    (b"", True),
)
REFUSED = (StoreOutcome.NOT_DONE, StoreOutcome.UNKNOWN, StoreOutcome.OLD_GENERATION)
Name = tuple[str, int, int]  # agent, its generation, sequence


class Asking(NamedTuple):
    """One write of a program. Where it compares, it is with what its agent finds when it begins."""

    verb: KeyVerb
    key: bytes
    value: bytes = b""
    flags: int = 0
    compares: bool = False


class Floating(NamedTuple):
    """An entry that may be committed yet."""

    number: int  # of the write; -1 is the other run's
    dedup: DedupKey
    data: bytes
    write: KeyWrite
    is_heard: bool  # by whoever asked: they no longer listen to earlier attempts
    is_second: bool = False


@dataclass
class Model:
    """A dict, and a memory without end."""

    records: dict[bytes, tuple[bytes, int, int, int]] = field(
        default_factory=dict
    )  # value, flags, create, modify
    changes: list[tuple[int, bytes]] = field(default_factory=list)
    run: dict[Name, tuple[int, StoreAnswer]] = field(default_factory=dict)  # the write's number, its answer
    trees: list[tuple[int, bytes]] = field(default_factory=list)
    revision: int = 0

    def answer(self, write: KeyWrite, index: int) -> StoreAnswer:
        """Of a write that nobody has run yet; here it is."""
        before = self.records.get(write.key)
        modify = before[3] if before is not None else 0
        gone: list[bytes] = []
        if write.verb is KeyVerb.DELETE_TREE:
            gone = [key for key in self.records if key.startswith(write.key)]
        elif write.verb is KeyVerb.DELETE and before is not None:
            gone = [write.key]
        is_compared = write.cas is not None and (write.verb is KeyVerb.PUT or before is not None)
        if is_compared and write.cas != modify:
            return StoreAnswer(StoreOutcome.COMPARE_FAILED, self.revision, index)
        if write.verb is KeyVerb.PUT:
            if before is not None and before[:2] == (write.value, write.flags):
                return StoreAnswer(StoreOutcome.DONE, self.revision, index)
            create = before[2] if before is not None else index
            self.records[write.key] = (write.value, write.flags, create, index)
            self.changes.append((index, write.key))
        if gone and write.verb is KeyVerb.DELETE_TREE:
            self.trees.append((index, write.key))
        for key in gone:
            del self.records[key]
            self.changes.append((index, key))
        count = len(gone) + (write.verb is KeyVerb.PUT)
        self.revision = index if count else self.revision
        return StoreAnswer(StoreOutcome.DONE, self.revision, index, count)

    def floor(self) -> int:
        """Of a history that is as long as it may be: changes of one revision go together."""
        kept = len(self.changes)
        while kept and len(self.changes) - kept + 1 <= HISTORY.changes_max:
            kept -= 1
        return self.changes[kept - 1][0] if kept else 0

    def last_change(self, key: bytes, *, is_prefix: bool) -> int:
        newest = 0
        for revision, changed in self.changes:
            if changed.startswith(key) if is_prefix else changed == key:
                newest = revision
        return newest

    def last_tree_over(self, key: bytes) -> int:
        """What a deleted tree says of a key in it is said of all that could have been in it."""
        return max([revision for revision, prefix in self.trees if key.startswith(prefix)], default=0)


class Agent:
    """It `BeginsWrites`, and has so many of them open at a time."""

    def __init__(
        self, world: SmallWorld, name: str, program: list[tuple[int, Asking]], open_max: int
    ) -> None:
        self.numbers = WriteNumbers(name, 5)
        self.to_begin = program
        self.open: dict[int, AcceptedWrite] = {}
        self.begun = 0
        self._open_max = open_max
        self._world = world

    def go_on(self) -> None:
        while self.to_begin and len(self.open) < self._open_max:
            number, asking = self.to_begin.pop(0)
            cas = self._world.model.records.get(asking.key, (b"", 0, 0, 0))[3] if asking.compares else None
            write = KeyWrite(asking.verb, asking.key, asking.value, asking.flags, cas)
            self.open[number] = AcceptedWrite(write, partial(self._world.heard, number), self)
            self.open[number].start()

    def begin(self, accepted: AcceptedWrite) -> None:
        number = next(each for each, open_ in self.open.items() if open_ is accepted)
        self.begun += 1
        assert isinstance(accepted.write, KeyWrite)
        self._world.float(number, accepted.key, accepted.write)

    def refusal_of(self, error: Exception) -> KeyRefusal:
        raise AssertionError(f"it is not told errors: {error}")


class SmallWorld:
    def __init__(self, programs: list[list[Asking]], faults: int) -> None:
        self.machine = StoreMachine(bounds=HISTORY, results_bytes_max=RESULTS_BYTES_MAX)
        self.model = Model()
        self.floating: list[Floating] = []
        self.faults = faults
        self.newest: dict[int, Floating] = {}  # of each write
        self.agents: list[Agent] = []
        self.said: set[StoreOutcome] = set()
        self.is_checking = False  # every step is, when it is gone for the first time
        self.is_restarted = False
        self.has_rival = False
        count = 0
        for number, program in enumerate(programs):
            numbered = list(enumerate(program, count))
            self.agents.append(Agent(self, f"agent-{number}", numbered, open_max=2 - number))
            count += len(program)
        for agent in self.agents:
            agent.go_on()

    # What can happen.

    def choices(self) -> list[tuple[str, int]]:
        found = [("commit", place) for place in range(len(self.floating))]
        if self.faults:
            found += [("repeat", number) for agent in self.agents for number in agent.open]
            found += [("twice", place) for place, each in enumerate(self.floating) if not each.is_second]
            if not self.is_restarted and self.machine.applied:
                found.append(("restart", 0))
            if not self.has_rival:
                found.append(("rival", 0))
        return found

    def do(self, what: str, which: int) -> None:
        if what != "commit":
            self.faults -= 1
        match what:
            case "commit":
                self._commit(self.floating.pop(which))
            case "repeat":
                self._repeat(which)
            case "twice":
                each = self.floating.pop(which)
                self.floating.append(each._replace(is_second=True, is_heard=False))
                self._commit(each)
            case "restart":
                self.is_restarted = True
                self.machine = restored(self.machine)
            case "rival":
                self.has_rival = True
                self.float(-1, DedupKey("agent-0", 7, 1, 1), KeyWrite(KeyVerb.PUT, b"a/b", b"rival"))

    def float(self, number: int, dedup: DedupKey, write: KeyWrite) -> None:
        data = encode_request(StoreRequest(command_of(write), 0, self.machine.applied))
        self._float(Floating(number, dedup, data, write, is_heard=True))

    def heard(self, number: int, outcome: StoreAnswer | KeyRefusal) -> None:
        """What an agent is told has to be so, however often the write was begun."""
        times = [answer for run, answer in self.model.run.values() if run == number]
        if isinstance(outcome, StoreAnswer):
            assert times == [outcome], f"write {number} was answered {outcome} and ran as {times}"
        elif outcome.cause is not KeyCause.UNKNOWN:
            assert not times, f"write {number} was refused as not done, and ran as {times}"

    def whole(self) -> str:
        """All that decides what can happen next, and what would be right then."""
        agents = [
            (vars(agent.numbers), agent.begun, [(number, each.key) for number, each in agent.open.items()])
            for agent in self.agents
        ]
        run = sorted(self.model.run)
        flags = (self.faults, self.is_restarted, self.has_rival)
        return repr((whole_of(self.machine), sorted(map(repr, self.floating)), agents, run, flags))

    # Inside.

    def _repeat(self, number: int) -> None:
        """Whoever asked hears no more of the attempts before."""
        copies = [place for place, each in enumerate(self.floating) if each.number == number]
        for place in copies:
            self.floating[place] = self.floating[place]._replace(is_heard=False)
        last = self.newest[number]
        dedup = last.dedup.again()
        self._float(last._replace(dedup=dedup, is_heard=True))

    def _float(self, entry_: Floating) -> None:
        self.newest[entry_.number] = entry_
        self.floating.append(entry_)

    def _commit(self, committed: Floating) -> None:
        space, index = self.machine.keyspaces[0], self.machine.applied + 1
        reported = []
        if self.is_checking:
            reported = [index_of(space, key, 0, is_prefix=is_prefix) for key, is_prefix in QUERIES]
        data, dedup = committed.data, committed.dedup
        answer = decode_answer(self.machine.apply(entry(index, data, dedup)))
        self.said.add(answer.outcome)
        self._compare(committed, answer, index)
        if self.is_checking:
            held = {key: (each.value, each.flags, each.create, each.modify) for key, each in items(space)}
            assert held == self.model.records
            assert space.revision == self.model.revision
            self._check_indexes(space, reported)
        if committed.is_heard and committed.number >= 0:
            agent = next(each for each in self.agents if committed.number in each.open)
            accepted = agent.open[committed.number]
            accepted(encode(answer))
            if accepted.is_over:
                del agent.open[committed.number]
                agent.go_on()

    def _compare(self, committed: Floating, answer: StoreAnswer, index: int) -> None:
        dedup = committed.dedup
        name = (dedup.client, dedup.generation, dedup.sequence)
        if name in self.model.run:
            allowed = [StoreOutcome.UNKNOWN]
            if not committed.is_heard:
                allowed += [StoreOutcome.NOT_DONE, StoreOutcome.OLD_GENERATION]
            _number, first = self.model.run[name]
            assert answer == first or answer.outcome in allowed, f"{name} was answered {first}, now {answer}"
        elif answer.outcome in REFUSED:
            is_old = answer.outcome is StoreOutcome.OLD_GENERATION
            assert self.has_rival or (len(self.model.run) > 3 and not is_old), "nothing was forgotten"
            assert answer.outcome is not StoreOutcome.UNKNOWN or dedup.attempt, "it is the first attempt"
        else:
            expected = self.model.answer(committed.write, index)
            assert answer == expected, f"{name} is to be answered {expected}, not {answer}"
            self.model.run[name] = (committed.number, answer)

    def _check_indexes(self, space: Keyspace, reported: list[int]) -> None:
        floor = self.model.floor()
        for (key, is_prefix), before in zip(QUERIES, reported, strict=True):
            now = index_of(space, key, before, is_prefix=is_prefix)
            assert now >= before, f"the index of {key!r} fell from {before} to {now}"
            assert not changed_since(space, key, now, is_prefix=is_prefix), f"{key!r} is asked for ever"
            last = self.model.last_change(key, is_prefix=is_prefix)
            said_until = last
            if is_prefix or key not in self.model.records:
                said_until = max(last, floor, self.model.last_tree_over(key))
            for index in range(self.machine.applied + 1):
                if changed_since(space, key, index, is_prefix=is_prefix):
                    assert index < said_until, f"a change of {key!r} after {index} that is none"
                else:
                    assert index >= last, f"a change of {key!r} after {index} is missed"


def command_of(write: KeyWrite) -> StoreCommand:
    match write.verb:
        case KeyVerb.PUT:
            return Put(write.key, write.value, flags=write.flags, cas=write.cas, skips_equal=True)
        case KeyVerb.DELETE:
            return Delete(write.key, cas=write.cas)
        case KeyVerb.DELETE_TREE:
            return DeleteTree(write.key)
        case _:
            raise AssertionError(f"nobody asks for {write.verb.name} here")


def restored(machine: StoreMachine) -> StoreMachine:
    """Another server that starts from its snapshot."""
    other = StoreMachine(bounds=HISTORY, results_bytes_max=RESULTS_BYTES_MAX)
    other.restore(other.read(machine.snapshot()))
    return other


def whole_of(machine: StoreMachine) -> tuple[object, ...]:
    space, results = machine.keyspaces[0], machine.results
    rows = [
        (client, row.generation, row.low_water, row.newest, sorted(row.answers.items()))
        for client, row in results.rows.items()
    ]
    floor = space.history.floor
    history = (floor, space.history.after(floor), space.revision, space.fence_floor)
    return (
        *(machine.applied, machine.offset, machine.cluster_ms, list(items(space)), history),
        *(
            list(space.tombstones.items(b"", None)),
            space.trees.all(),
            results.floor,
            results.bytes_total,
            rows,
        ),
    )


def items(space: Keyspace) -> Iterator[tuple[bytes, KeyRecord]]:
    return space.table.items(b"", None)


def index_of(space: Keyspace, key: bytes, since: int, *, is_prefix: bool) -> int:
    return space.index_below(key, since) if is_prefix else space.index_of(key, since)


def changed_since(space: Keyspace, key: bytes, index: int, *, is_prefix: bool) -> bool:
    return space.prefix_changed_since(key, index) if is_prefix else space.key_changed_since(key, index)
