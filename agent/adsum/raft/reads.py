"""Reads that wait until leadership is proven, without a write to the log.

A read may be served at an index once a quorum has answered a heartbeat that was *sent after* the read came:
until then a newer leader may have committed more. Heartbeats carry a counter, so one answer vouches for
every read before it, and reads that come between two broadcasts share the next. Before the leader has
committed an entry of its own term it does not even know what is committed: reads wait for that first.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class ConfirmedRead(NamedTuple):
    """The caller's word for it, and the index its answer must contain."""

    context: int
    index: int  # type: ignore[assignment]  # as in `types`


class ReadRounds:
    __slots__ = ("_asked", "_early", "round")

    def __init__(self) -> None:
        self.round = 0  # of the last broadcast
        self._early: list[int] = []  # came before the term's first commit
        self._asked: deque[tuple[int, ConfirmedRead]] = deque()  # with the round that will confirm each

    def __len__(self) -> int:
        return len(self._early) + len(self._asked)

    @property
    def wants_round(self) -> bool:
        return bool(self._asked) and self._asked[-1][0] > self.round

    @property
    def is_under_way(self) -> bool:
        """A round was sent for some of them, and no quorum has answered it yet."""
        return bool(self._asked) and self._asked[0][0] <= self.round

    def ask(self, context: int, commit: int | None) -> None:
        """`commit` is None as long as nothing of this term is committed."""
        if commit is None:
            self._early.append(context)
        else:
            self._asked.append((self.round + 1, ConfirmedRead(context, commit)))

    def begin(self, commit: int) -> None:
        """The term has its first commit."""
        early, self._early = self._early, []
        for context in early:
            self.ask(context, commit)

    def next_round(self) -> int:
        self.round += 1
        return self.round

    def confirm(self, agreed_round: int) -> list[ConfirmedRead]:
        assert agreed_round <= self.round, "an answer to a heartbeat that was never sent"
        confirmed = []
        while self._asked and self._asked[0][0] <= agreed_round:
            confirmed.append(self._asked.popleft()[1])
        return confirmed
