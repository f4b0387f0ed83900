"""News of owners that are no members yet: gossip brings a newcomer's services and its introduction in any
order. A small room, swept now and then; what finds no place in it comes with an exchange."""

from __future__ import annotations

from adsum.catalog.replication.deltas import Delta

WAITING_MAX = 256


class WaitingRoom:
    def __init__(self) -> None:
        self._waiting: dict[
            bytes, dict[bytes, tuple[bytes, Delta]]
        ] = {}  # owner → by payload, with the teller
        self._swept: dict[bytes, None] = {}  # who was here at the last sweep
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, teller: bytes, delta: Delta) -> bool:
        """False when there is no room."""
        if delta.encoded in self._waiting.get(delta.owner, ()):
            return True
        if self._count >= WAITING_MAX:
            return False
        self._waiting.setdefault(delta.owner, {})[delta.encoded] = (teller, delta)
        self._count += 1
        return True

    def take(self, owner: bytes) -> list[tuple[bytes, Delta]]:
        taken = list(self._waiting.pop(owner, {}).values())
        self._count -= len(taken)
        return taken

    def sweep(self) -> None:
        """Who waits for a second sweep will not be introduced: it is reaped, or nobody's."""
        for owner in self._swept:
            self.take(owner)
        self._swept = dict.fromkeys(self._waiting)
