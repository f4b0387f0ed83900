"""Which keys each session holds, in one keyspace.

A large tree is deleted without a look at its keys (`adsum.store.keyspace`). What was held there stays in this
index until somebody needs it exactly: whoever goes through it looks at the records as well.
"""

from __future__ import annotations

from collections.abc import Callable

from adsum.kv import KeyRecord

HELD_KEYS_MAX = 10_000  # by one session; all are let go of in the one entry that ends it


class SessionKeys:
    def __init__(self, find: Callable[[bytes], KeyRecord | None]) -> None:
        self._find = find
        self._by_session: dict[str, dict[bytes, None]] = {}
        self._looked_through: dict[str, None] | None = None  # since blocks went; None: none ever did

    def move(self, key: bytes, held_by: str | None, holds: str | None) -> None:
        """From one session to another, each of which may be none."""
        if held_by is not None:
            keys = self._by_session.get(held_by)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    self.forget(held_by)
        if holds is not None:
            self._by_session.setdefault(holds, {})[key] = None

    def count(self, session: str, more: int = 0) -> int:
        """With so many more than stand here, exact from the most that one may hold: below it a server that
        came by a snapshot may say less than others."""
        keys = self._by_session.get(session, {})
        looked_through, count = self._looked_through, len(keys) + more
        if count >= HELD_KEYS_MAX and looked_through is not None and session not in looked_through:
            looked_through[session] = None
            keys = self._by_session[session] = dict.fromkeys(self.of(session))
        return len(keys) + more

    def of(self, session: str) -> list[bytes]:
        """Ascending: a server that came by a snapshot has learned of them in another order."""
        return [key for key, _record in self.records_of(session)]

    def records_of(self, session: str) -> list[tuple[bytes, KeyRecord]]:
        find = self._find
        return [
            (key, record)
            for key in sorted(self._by_session.get(session, ()))
            if (record := find(key)) is not None and record.lease == session
        ]

    def forget(self, session: str) -> None:
        """It has ended, and let go of all that it held."""
        self._by_session.pop(session, None)
        if self._looked_through:
            self._looked_through.pop(session, None)

    def blocks_went(self) -> None:
        """With keys that nobody looked at."""
        self._looked_through = {}

    def load(self, keys: list[bytes], records: list[KeyRecord]) -> None:
        """A piece of a table that is read back."""
        for key, record in zip(keys, records, strict=True):
            if record.lease is not None:
                self._by_session.setdefault(record.lease, {})[key] = None
