"""The smallest state machine worth replicating: named registers, what each client was last told, and a digest
of everything ever applied.

A client has one request at a time, so one remembered answer is enough: an entry that carries a sequence
already answered is a retry of it, and changes nothing.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import cbor2

from adsum.raft.types import Entry, EntryKind


class ClientCall(NamedTuple):
    """What a client asks. `expected` makes a write conditional."""

    verb: str  # "set", "cas", "get"; or "remove", a cas that is also met where there is nothing
    key: str
    value: str = ""
    expected: str = ""
    ballast: bytes = b""  # goes with it into the log, and nowhere else

    def encoded(self) -> bytes:
        return cbor2.dumps(list(self) if self.ballast else list(self[:-1]))


def decoded(data: bytes) -> ClientCall:
    return ClientCall(*cbor2.loads(data))


class Registers:
    def __init__(self, dump: bytes = b"") -> None:
        self.values: dict[str, str] = {}
        self.answers: dict[
            str, tuple[int, str]
        ] = {}  # the last sequence of each client, and what it was told
        self.index = 0
        self.digest = 0
        if dump:
            self.index, self.digest, self.values, answers = cbor2.loads(dump)
            self.answers = {client: (sequence, answer) for client, (sequence, answer) in answers.items()}

    def dump(self) -> bytes:
        return cbor2.dumps([self.index, self.digest, self.values, self.answers])

    def apply(self, entry: Entry) -> str:
        """The answer to the client, if a client asked."""
        self.see(entry)
        return self._answer(entry) if entry.kind is EntryKind.COMMAND else ""

    def see(self, entry: Entry) -> None:
        self.index = entry.index
        header = f"{entry.index} {entry.term} {entry.kind} {entry.time_ms} {entry.apply_level} "
        self.digest = zlib.crc32(entry.data, zlib.crc32(header.encode(), self.digest))

    def get(self, key: str) -> str:
        return self.values.get(key, "")

    def _answer(self, entry: Entry) -> str:
        if entry.dedup is None:
            return self._perform(decoded(entry.data))
        client, sequence = entry.dedup.client, entry.dedup.sequence
        if not self._is_answered(client, sequence):
            self.answers[client] = (sequence, self._perform(decoded(entry.data)))
        return self.answers[client][1]

    def _is_answered(self, client: str, sequence: int) -> bool:
        return sequence <= self.answers.get(client, (0, ""))[0]

    def _perform(self, call: ClientCall) -> str:
        if call.verb == "cas" and self.get(call.key) != call.expected:
            return "no"
        self.values[call.key] = call.value
        return "yes"
