"""The store of keys of a server whose disk has no room for a log yet: everything else of the agent works, and
whoever asks for keys is told what is missing."""

from __future__ import annotations

from typing import Any

from adsum.kv import (
    KeyCause,
    KeyRead,
    KeyRefusal,
    KeyWrite,
    ReadAnswered,
    ReadsKeyAgain,
    WriteAnswered,
)
from adsum.kv_history import HistoryAnswered
from adsum.store_requests import RenewAnswered, StoreChange, StoreRead, StoreReadAnswered


class KeysWithoutRoom:
    """It is a `KeyStore`."""

    consensus = None

    def __init__(self, sentence: str) -> None:
        self.waits_for = sentence

    def write(self, _write: KeyWrite | StoreChange, answered: WriteAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_ROOM, self.waits_for))
        return None

    def read(self, _read: KeyRead, answered: ReadAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_ROOM, self.waits_for))
        return None

    def read_again(self, reader: ReadsKeyAgain, asker: Any) -> None:
        reader.told(asker, KeyRefusal(KeyCause.NO_ROOM, self.waits_for))

    def ask(self, _read: StoreRead, answered: StoreReadAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_ROOM, self.waits_for))
        return None

    def renew(self, _session_id: str, answered: RenewAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_ROOM, self.waits_for))
        return None

    def history(self, _key: bytes, answered: HistoryAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_ROOM, self.waits_for))
        return None

    def give_up(self, _asked: object) -> None:
        """It was answered at once."""
