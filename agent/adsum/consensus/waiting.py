"""Who waits for what the log will say: proposals for their entry, reads for their index.

A proposal went to an index in a term. When that index is applied with that term it is answered; with another
one it was lost, and nothing happened. When a snapshot passes over it, nobody here can tell any more.

Answers are put into the list that is handed in, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeAlias

from adsum.consensus.commands import Token
from adsum.consensus.errors import NoLeader, OutcomeUnknown, Superseded
from adsum.mutable import dataclass
from adsum.now import MILLISECOND
from adsum.raft.errors import RaftRefused, TooManyReads
from adsum.raft.reads import ConfirmedRead
from adsum.raft.types import Entry, Position, Term

READS_MAX = 16_384  # as many as the API has connections
QUORUM_LATE_NS = 3 * MILLISECOND  # some ten times what an answer takes between busy servers of one site

Answers: TypeAlias = list[tuple[Token, bytes | int | Exception]]


class Proposals:
    """As many as the core lets be uncommitted and unapplied, in bytes; whoever gives up stays in it."""

    def __init__(self) -> None:
        self.by_index: dict[int, tuple[Term, Token]] = {}

    def __len__(self) -> int:
        return len(self.by_index)

    def add(self, position: Position, token: Token, answers: Answers) -> None:
        """One that is in its place already is gone from this log; on another server it may yet win."""
        index = position.index
        if index in self.by_index:
            why = OutcomeUnknown("its place was given away, and nobody here can tell what became of it")
            answers.append((self.by_index[index][1], why))
        self.by_index[index] = (position.term, token)

    def applied(self, entry: Entry, result: bytes, answers: Answers) -> None:
        waiting = self.by_index.pop(entry.index, None)
        if waiting is not None:
            term, token = waiting
            is_mine = term == entry.term
            answers.append(
                (token, result if is_mine else Superseded("a later leader's entry took its place"))
            )

    def passed(self, index: int, answers: Answers) -> None:
        """A snapshot stands for everything up to here."""
        for each in [index_ for index_ in self.by_index if index_ <= index]:
            _term, token = self.by_index.pop(each)
            answers.append((token, OutcomeUnknown("it was overtaken by a snapshot")))

    def end(self, why: Exception, answers: Answers) -> None:
        answers += [(token, why) for _term, token in self.by_index.values()]
        self.by_index.clear()


@dataclass(slots=True)
class ReadCounters:
    asked: int = 0  # questions to the quorum, each about all reads that had gathered
    late: int = 0  # after which everybody was asked


class AsksQuorum(Protocol):
    """As the core of raft does."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def is_asking(self) -> bool: ...

    def read_index(self, context: int) -> None: ...

    def ask_everybody(self) -> None: ...


class WaitingReads:
    """They share questions to the quorum: while one is under way, those that come gather for the next, which
    leaves one turn after the answer, for whoever was answered then may have asked again. Where the quorum is
    late with its answer they wait no longer, and everybody is asked."""

    def __init__(self) -> None:
        self.turn = 0  # reads that come while it stands are asked together
        self.counters = ReadCounters()
        self.late_ns: int | None = None  # when the question that is under way has taken too long
        self.lets_join = False  # the next question leaves in the next turn
        self._count = 0  # of all that wait
        self.gathered: list[Token] = []
        self._asked: dict[int, list[Token]] = {}
        self._confirmed: deque[tuple[int, list[Token]]] = deque()
        self._context = 0

    def __len__(self) -> int:
        return self._count

    def add(self, token: Token) -> None:
        if self._count >= READS_MAX:
            raise TooManyReads(f"{self._count} reads wait for a quorum")
        self._count += 1
        self.gathered.append(token)

    def hold(self, raft: AsksQuorum, now_ns: int) -> bool:
        """Whoever comes waits for the answer to the question that is under way, or joins the next one, which
        is about to leave."""
        return self.lets_join or (self.late_ns is not None and now_ns < self.late_ns and raft.is_asking)

    def take_turn(self, raft: AsksQuorum, now_ns: int, answers: Answers) -> None:
        is_asking = raft.is_asking
        if is_asking and self.late_ns is not None and now_ns < self.late_ns:
            return
        # Who leads no more has not been answered, and whoever comes now is asked about elsewhere at once.
        was_answered = raft.is_leader and not is_asking and self.late_ns is not None
        self.lets_join = was_answered and bool(self.gathered)
        if self.lets_join:
            self.late_ns = None
            return
        self.turn += 1
        has_gathered, was_awaited = bool(self.gathered), self.late_ns is not None
        if has_gathered:
            self.ask(raft.read_index, answers)
        if is_asking and (has_gathered or was_awaited):
            self.counters.late += 1
            raft.ask_everybody()
        self.late_ns = now_ns + QUORUM_LATE_NS if has_gathered else None

    def ask(self, read_index: Callable[[int], None], answers: Answers) -> None:
        """What has gathered, as one question. What the core refuses, it refuses all of them."""
        group, self.gathered = self.gathered, []
        self.counters.asked += 1
        self._context += 1
        try:
            read_index(self._context)
        except RaftRefused as error:
            self._answer(group, error, answers)
        else:
            self._asked[self._context] = group

    def confirmed(self, read: ConfirmedRead) -> None:
        group = self._asked.pop(read.context, None)
        if group is not None:
            self._confirmed.append((read.index, group))

    def applied(self, index: int, answers: Answers) -> None:
        while self._confirmed and self._confirmed[0][0] <= index:
            read_index, group = self._confirmed.popleft()
            self._answer(group, read_index, answers)

    def lost(self, answers: Answers, why: Exception | None = None) -> None:
        """Leadership, or everything: those not confirmed will never be."""
        asked, self._asked = self._asked, {}
        for group in asked.values():
            told = why or NoLeader("leadership was lost before the read was confirmed")
            self._answer(group, told, answers)

    def end(self, why: Exception, answers: Answers) -> None:
        self.lost(answers, why)
        groups = [self.gathered, *(group for _index, group in self._confirmed)]
        self.gathered, self._confirmed = [], deque()
        for group in groups:
            self._answer(group, why, answers)

    def _answer(self, group: list[Token], outcome: int | Exception, answers: Answers) -> None:
        self._count -= len(group)
        answers += [(token, outcome) for token in group]
