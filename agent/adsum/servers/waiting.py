"""Who waits for what the log will say: proposals for their entry, reads for their index.

A proposal went to an index in a term. When that index is applied with that term it is answered; with another
one it was lost, and nothing happened. When a snapshot passes over it, nobody here can tell any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from adsum.raft.errors import RaftRefused, TooManyReads
from adsum.raft.reads import ConfirmedRead
from adsum.raft.types import Entry, Position, Term
from adsum.servers.errors import NoLeader, OutcomeUnknown, Superseded

READS_MAX = 16_384  # as many as the API has connections

Answered = Callable[[bytes | Exception], None]  # runs on the loop and must be quick


class Proposals:
    """As many as the core lets be uncommitted and unapplied, in bytes; whoever gives up stays in it."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Term, Answered]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, position: Position, answered: Answered) -> None:
        """One that is in its place already is gone from this log; on another server it may yet win."""
        before = self._waiting.pop(position.index, None)
        self._waiting[position.index] = (position.term, answered)
        if before is not None:
            before[1](OutcomeUnknown("its place was given away, and nobody here can tell what became of it"))

    def applied(self, entry: Entry, result: bytes) -> None:
        waiting = self._waiting.pop(entry.index, None)
        if waiting is not None:
            term, answered = waiting
            answered(result if term == entry.term else Superseded("a later leader's entry took its place"))

    def passed(self, index: int) -> None:
        """A snapshot stands for everything up to here."""
        for each in [index_ for index_ in self._waiting if index_ <= index]:
            self._waiting.pop(each)[1](OutcomeUnknown("it was overtaken by a snapshot"))

    def end(self, why: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for _term, answered in waiting.values():
            answered(why)


ReadAnswered = Callable[[int | Exception], None]


class WaitingReads:
    """All that come between two batches share one question to the quorum."""

    def __init__(self) -> None:
        self._count = 0  # of all that wait
        self.gathered: list[ReadAnswered] = []
        self._asked: dict[int, list[ReadAnswered]] = {}
        self._confirmed: deque[tuple[int, list[ReadAnswered]]] = deque()
        self._context = 0

    def __len__(self) -> int:
        return self._count

    def add(self, answered: ReadAnswered) -> None:
        if self._count >= READS_MAX:
            raise TooManyReads(f"{self._count} reads wait for a quorum")
        self._count += 1
        self.gathered.append(answered)

    def ask(self, read_index: Callable[[int], None]) -> None:
        """What has gathered, as one question. What the core refuses, it refuses all of them."""
        group, self.gathered = self.gathered, []
        self._context += 1
        try:
            read_index(self._context)
        except RaftRefused as error:
            self._answer(group, error)
        else:
            self._asked[self._context] = group

    def confirmed(self, read: ConfirmedRead) -> None:
        group = self._asked.pop(read.context, None)
        if group is not None:
            self._confirmed.append((read.index, group))

    def applied(self, index: int) -> None:
        while self._confirmed and self._confirmed[0][0] <= index:
            read_index, group = self._confirmed.popleft()
            self._answer(group, read_index)

    def lost(self, why: Exception | None = None) -> None:
        """Leadership, or everything: those not confirmed will never be."""
        asked, self._asked = self._asked, {}
        for group in asked.values():
            self._answer(group, why or NoLeader("leadership was lost before the read was confirmed"))

    def end(self, why: Exception) -> None:
        self.lost(why)
        groups = [self.gathered, *(group for _index, group in self._confirmed)]
        self.gathered, self._confirmed = [], deque()
        for group in groups:
            self._answer(group, why)

    def _answer(self, group: list[ReadAnswered], outcome: int | Exception) -> None:
        self._count -= len(group)
        for answered in group:
            answered(outcome)
