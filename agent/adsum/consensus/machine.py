"""What stands on the log: consensus feeds it and never looks inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from adsum.raft.types import Entry


class StateMachine(Protocol):
    """Everything but `read`, and what `snapshot` returns, is used between two events and has to be quick."""

    def apply(self, entry: Entry) -> bytes:
        """Every committed entry in order, those of consensus itself too, for they carry time. The answer is
        for whoever proposed it. Nothing else may decide it: no clock, no lot, no order of a set. It never
        raises because of what was proposed; that is an answer, too."""

    def snapshot(self) -> Iterator[bytes]:
        """The state as it is at the call, in pieces of some 100 KB. The pieces are asked for later, in
        another thread, while `apply` goes on."""

    def read(self, pieces: Iterator[bytes]) -> Any:
        """In another thread, while `apply` goes on: the state that these pieces describe, wherever they were
        cut. It changes nothing yet. Whatever it raises says that they describe none, and ends the process."""

    def restore(self, state: Any) -> None:
        """What `read` returned replaces everything."""

    def hash(self) -> bytes | None:
        """Equal on every server that has applied the same entries, whether one by one or by a snapshot. The
        first byte says how it is made: only those that are made alike are compared. At most 32 bytes; None
        when it cannot be told right now."""
