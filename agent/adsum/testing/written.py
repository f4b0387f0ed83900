"""What the stores of simulated servers did with each command in the log, by its index.

Whichever server comes to a command first is recorded, and all that come after it have to do the same and
answer the same. Revisions are indexes of the log here: nobody restores a backup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from adsum.kv import KeyRecord
from adsum.raft.types import Entry
from adsum.testing.checkers import demand

Changes: TypeAlias = tuple[tuple[bytes, KeyRecord | None], ...]


class Ran(NamedTuple):
    entry: Entry
    answer: bytes
    changes: Changes | None  # None: more than the history holds at once


class Written:
    def __init__(self, now_ns: Callable[[], int] = lambda: 0) -> None:
        self.by_index: dict[int, Ran] = {}
        self.first_ns: dict[int, int] = {}  # when the first server came to it
        self.newest = 0  # index: what came later, nobody can have been told
        self._now_ns = now_ns

    def add(self, ran: Ran) -> None:
        index = ran.entry.index
        known = self.by_index.setdefault(index, ran)
        self.first_ns.setdefault(index, self._now_ns())
        demand(known == ran, f"at {index} one server has {known}, and another {ran}")
        self.newest = max(self.newest, index)
