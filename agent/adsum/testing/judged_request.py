"""One thing that a client of keys asked, and all that it was told: what checkers judge."""

from __future__ import annotations

from dataclasses import dataclass

from adsum.kv import KeyRead, KeysFound, KeyVerb, KeyWrite, ReadMode, ReadShape, StoreAnswer
from adsum.testing.linearizability import NEVER


@dataclass(slots=True, eq=False)
class JudgedRequest:
    client: int
    asked: KeyWrite | KeyRead
    invoked_ns: int
    expected: bytes = b""  # what the client had read under the revision with which it compares
    returned_ns: int = NEVER
    outcome: StoreAnswer | KeysFound | None = None
    is_refused: bool = False  # certainly it was not done
    newest: int = 0  # index that any server had applied when it was answered
    position: int = 0  # in the order of all operations, as the witness found it

    @property
    def is_write(self) -> bool:
        return isinstance(self.asked, KeyWrite)

    @property
    def name(self) -> str:
        asked = self.asked
        if isinstance(asked, KeyRead):
            if asked.since:
                return "watch"
            if asked.shape is not ReadShape.KEY:
                return "list"
            return "stale get" if asked.mode is ReadMode.STALE else "get"
        if asked.verb is KeyVerb.DELETE_TREE:
            return "delete tree"
        if asked.cas is not None:
            return "compare"
        return "put" if asked.verb is KeyVerb.PUT else "delete"


OPERATIONS = ("put", "delete", "compare", "delete tree", "get", "stale get", "list", "watch")
