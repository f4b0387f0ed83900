"""One core of consensus with nothing around it: a test says what comes in, and looks at what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeVar

from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import ConsensusEffect, StoreGroup
from adsum.consensus.reports import GroupStored
from adsum.consensus.settings import ServerSettings
from adsum.now import MILLISECOND, Now
from adsum.raft.core import RaftCore
from adsum.raft.messages import MessageStamp
from adsum.raft.types import Configuration, Entry, EntryKind, MemberId, Restored, SnapshotRef, Term, bootstrap

A, B, C = (MemberId(name, "log") for name in "abc")
STAMP = MessageStamp("test", 0)
FIRST = SnapshotRef(1, Term(1), 100, b"first")
ROUNDS_MAX = 50

Kind = TypeVar("Kind")


class Echo:
    """Answers with what it was told."""

    def __init__(self) -> None:
        self.words: list[bytes] = []

    def apply(self, entry: Entry) -> bytes:
        if entry.kind is EntryKind.COMMAND:
            self.words.append(entry.data)
        return b"heard " + entry.data

    def snapshot(self) -> Iterator[bytes]:
        return iter([b" ".join(self.words)])

    def read(self, pieces: Iterator[bytes]) -> list[bytes]:
        return b"".join(pieces).split()

    def restore(self, state: list[bytes]) -> None:
        self.words = state

    def hash(self) -> bytes:
        return b"\x01" + b" ".join(self.words)[-8:]


class Bench:
    """Time stands still unless the test moves it; what it must not miss stays in `effects`."""

    def __init__(self, voters: Sequence[MemberId] = (A,), settings: ServerSettings | None = None) -> None:
        self.now = Now(0, 0)
        self.machine = Echo()
        raft = RaftCore(
            me=A,
            stamp=STAMP,
            settings=(settings or ServerSettings()).raft,
            restored=Restored(snapshot=bootstrap(Configuration(tuple(voters)))),
            random=Random(1),
            now=self.now,
        )
        self.core = ConsensusCore(
            raft, self.machine, settings or ServerSettings(), newest=FIRST, now=self.now
        )
        self.effects: list[ConsensusEffect] = []

    def pass_ms(self, duration_ms: int) -> None:
        """One after the other, as a loop that is not late."""
        end_ns = self.now.monotonic_ns + duration_ms * MILLISECOND
        while (due_ns := self.core.deadline()) is not None and due_ns <= end_ns:
            due_ns = max(due_ns, self.now.monotonic_ns)
            self.now = Now(due_ns, due_ns // MILLISECOND)
            self.tick()
        self.now = Now(end_ns, end_ns // MILLISECOND)

    def tick(self) -> None:
        self.effects += self.core.tick(self.now)

    def taken(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind that came since they were last taken."""
        found: list[Kind] = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return found

    def store(self, *, needs_segment: bool = False) -> None:
        """The disk does all that it was asked."""
        for group in self.taken(StoreGroup):
            self.effects += self.core.report(self.now, GroupStored(group.ticket, needs_segment))

    def settle(self) -> None:
        """Everything that needs no time happens."""
        for _ in range(ROUNDS_MAX):
            self.store()
            due_ns = self.core.deadline()
            if (due_ns is None or due_ns > self.now.monotonic_ns) and not self.effects_of_disk():
                return
            self.tick()
        raise AssertionError("it does not come to rest")

    def effects_of_disk(self) -> bool:
        return any(isinstance(effect, StoreGroup) for effect in self.effects)


def leading(settings: ServerSettings | None = None) -> Bench:
    """A cluster of one, which leads and has committed its term's first entry."""
    bench = Bench((A,), settings)
    bench.core.raft.campaign()
    bench.settle()
    bench.effects.clear()
    assert bench.core.is_leader
    assert bench.core.applied == 2
    return bench
