"""What was given to the disk, and what has come back.

Every batch has a ticket, and tickets come back in order. Until one does, nothing that was promised in its
batch has left; what this server said to itself (its own vote) waits here for it. A disk that was asked and
stays silent for an election timeout counts as lost: whoever leads with it only seems to (B24). One that has
much to write and gets on with it is not silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from adsum.raft.messages import Message
from adsum.raft.types import NO_TICKET, MemberId, Ticket


class Tickets:
    __slots__ = ("_awaited", "_has_failed", "_last", "_me", "_own", "_patience_ticks", "_stored", "_ticks")

    def __init__(self, me: MemberId, patience_ticks: int) -> None:
        self._me = me
        self._patience_ticks = patience_ticks
        self._last = NO_TICKET
        self._awaited = NO_TICKET  # the last that needs the disk
        self._stored = NO_TICKET
        self._ticks = 0  # how long the disk has been silent though it was asked
        self._has_failed = False
        self._own: deque[tuple[Ticket, Message]] = deque()

    def next(self) -> Ticket:
        self._last = Ticket(self._last + 1)
        return self._last

    def kept_until_stored(self, messages: list[Message], *, must_sync: bool) -> list[Message]:
        """Of the batch with the last ticket: what is for others, and leaves when that is stored."""
        others = [message for message in messages if message.target != self._me]
        self._own.extend((self._last, message) for message in messages if message.target == self._me)
        if must_sync or others or self._own:
            self._awaited = self._last
        return others

    def stored(self, ticket: Ticket) -> bool:
        """False if that was known."""
        assert ticket <= self._last, "a ticket that was never given"
        if ticket <= self._stored:
            return False
        self._stored, self._ticks = ticket, 0
        return True

    def own_messages(self) -> Iterator[Message]:
        """What one said to oneself, once it is on disk."""
        while self._own and self._own[0][0] <= self._stored:
            yield self._own.popleft()[1]

    def tick(self) -> None:
        self._ticks = self._ticks + 1 if self._awaited > self._stored else 0

    def progressed(self) -> None:
        self._ticks = 0

    def fail(self) -> None:
        self._has_failed = True

    @property
    def is_disk_lost(self) -> bool:
        return self._has_failed or self._ticks >= self._patience_ticks
