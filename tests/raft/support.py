"""Small words for tests of consensus."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from adsum.now import Now
from adsum.raft.core import RaftCore
from adsum.raft.messages import MessageStamp
from adsum.raft.settings import RaftSettings
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    Restored,
    Term,
    bootstrap,
)

STAMP = MessageStamp("test", 0)
START = Now(0, 0)
A, B, C, D, E = (MemberId(name, "log") for name in "abcde")


def entry(index: int, term: int, data: bytes = b"", *, time_ms: int = 0, level: int = 1) -> Entry:
    return Entry(index, Term(term), EntryKind.COMMAND, time_ms, level, None, data)


def entries(first: int, terms: Iterable[int]) -> tuple[Entry, ...]:
    return tuple(entry(index, term) for index, term in enumerate(terms, start=first))


def restored(
    terms: Iterable[int] = (), *, term: int = 0, commit: int = 1, voters: tuple[MemberId, ...] = (A, B, C)
) -> Restored:
    """A founder's disk with entries of these terms behind the first snapshot."""
    log = entries(2, terms)
    last_term = max([term, *(each.term for each in log)])
    return Restored(HardState(Term(last_term), None, commit), bootstrap(Configuration(voters)), log)


def core(disk: Restored | None = None, *, me: MemberId = A, settings: RaftSettings | None = None) -> RaftCore:
    return RaftCore(
        me=me,
        stamp=STAMP,
        settings=settings or RaftSettings(),
        restored=disk or restored(),
        random=Random(1),
        now=START,
    )
