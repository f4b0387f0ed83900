"""The store as it ships, in the log of a simulated server: its snapshots carry the registers, too, index and
digest, which are what the checkers look at. What is done with each entry is for those who use it to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import cbor2

from adsum.raft.types import Entry
from adsum.store.machine import StoreMachine
from adsum.store.snapshot import StoreState
from adsum.testing.raft_machine import Registers


class LoggedStore(ABC):
    def __init__(self, store: StoreMachine) -> None:
        self.registers = Registers()
        self.store = store

    @abstractmethod
    def apply(self, entry: Entry) -> bytes: ...

    def snapshot(self) -> Iterator[bytes]:
        return iter([cbor2.dumps([self.registers.dump(), b"".join(self.store.snapshot())])])

    def read(self, pieces: Iterator[bytes]) -> tuple[Registers, StoreState | None]:
        content = b"".join(pieces)
        if not content:  # of a cluster that begins
            return Registers(), None
        head, state = cbor2.loads(content)
        return Registers(head), self.store.read(iter([state]))

    def restore(self, state: tuple[Registers, StoreState | None]) -> None:
        self.registers, store = state
        if store is not None:
            self.store.restore(store)

    def hash(self) -> bytes | None:
        return self.store.hash()
