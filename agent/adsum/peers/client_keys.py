"""The store of keys as a client agent reaches it: through the servers."""

from __future__ import annotations

from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeyWrite, ReadAnswered, WriteAnswered

NO_SERVERS = "this agent is a client, and what it would forward to a server is not built yet"


class ClientKeys:
    """It is a `KeyStore`."""

    waits_for = ""

    def write(self, write: KeyWrite, answered: WriteAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_SERVERS, NO_SERVERS))
        return write

    def read(self, read: KeyRead, answered: ReadAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_SERVERS, NO_SERVERS))
        return read

    def give_up(self, asked: object) -> None:
        """It was answered at once."""
