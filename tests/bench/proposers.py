"""Proposers of entries: so many at once through one door, each repeating an entry until it is acknowledged.

The entries of one proposer are numbered, and the state machine notices a number that is skipped. So nothing
acknowledged can be lost unseen, however often leaders and proposers change.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.raft_machines import PROPOSAL
from tests.bench.raft_member import FRAME

ENTRY_BYTES = 300
CHUNK_BYTES = 1 << 18
ASK_S = 2.0


class Closed(Exception):
    """The member behind the door is gone, or is not the leader: ask another one."""


class Door:
    """To one member."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self.socket.connect(str(folder / "door"))
        except OSError as error:
            self.socket.close()
            raise Closed(str(error)) from error
        self.socket.settimeout(ASK_S)
        self._rest = b""

    def close(self) -> None:
        self.socket.close()

    def send(self, content: bytes) -> None:
        try:
            self.socket.sendall(content)
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> list[tuple[int, bytes, bytes]]:
        """All answers that are there, at least one: number, letter, content."""
        while True:
            try:
                chunk = self.socket.recv(CHUNK_BYTES)
            except OSError as error:
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed("it ended")
            self._rest += chunk
            answers = list(self._whole())
            if answers:
                return answers

    def ask(self, letter: bytes) -> dict[str, Any]:
        """S: how it stands; R: the same, confirmed by a quorum."""
        self.send(FRAME.pack(0, 0, letter))
        _number, answer, content = self.receive()[0]
        if answer != b"A":
            raise Closed(content.decode())
        standing: dict[str, Any] = json.loads(content)
        return standing

    def _whole(self) -> Iterator[tuple[int, bytes, bytes]]:
        offset, end, received = 0, len(self._rest), self._rest
        while offset + FRAME.size <= end:
            length, number, letter = FRAME.unpack_from(received, offset)
            start = offset + FRAME.size
            if start + length > end:
                break
            offset = start + length
            yield number, letter, received[start:offset]
        self._rest = received[offset:]


class Proposers:
    def __init__(self, count: int) -> None:
        self.acknowledged = [0] * count  # the last number of each
        self.latencies_s: list[float] = []
        self._asked_at = [0.0] * count
        self._filling = b"x" * (ENTRY_BYTES - PROPOSAL.size)

    def run(self, door: Door, until_s: float) -> int:
        """How many were acknowledged; `Closed` when the door does not lead to a leader any more."""
        now, before = time.perf_counter(), sum(self.acknowledged)
        frames = [self._frame(proposer, now) for proposer in range(len(self.acknowledged))]
        while frames:
            door.send(b"".join(frames))
            answers = door.receive()
            now = time.perf_counter()
            frames = [self._next(proposer, letter, now) for proposer, letter, _ in answers]
            if now >= until_s:
                return sum(self.acknowledged) - before
        return 0

    def _next(self, proposer: int, letter: bytes, now: float) -> bytes:
        if letter != b"A":
            raise Closed("it does not lead any more")
        self.acknowledged[proposer] += 1
        self.latencies_s.append(now - self._asked_at[proposer])
        return self._frame(proposer, now)

    def _frame(self, proposer: int, now: float) -> bytes:
        self._asked_at[proposer] = now
        sequence = self.acknowledged[proposer] + 1
        return FRAME.pack(ENTRY_BYTES, proposer, b"P") + PROPOSAL.pack(proposer, sequence) + self._filling
