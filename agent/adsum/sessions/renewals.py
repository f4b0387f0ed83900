"""Renewals on their way through the leader.

They come in batches, from any server, and all that come before a quorum is asked are asked for together; one
question is under way at a time. When leadership is proven each is looked at: what is about to end has to wait
for the outcome of that, and asks again; what the log says less of has to wait until that is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from adsum.kv import KeyCause, KeyRefusal
from adsum.session import Session
from adsum.sessions.effects import AnswerRenewals
from adsum.sessions.settings import RENEWALS_WAITING_MAX


class RenewalBatch:
    __slots__ = ("found", "ids", "left", "token")

    def __init__(self, token: object, ids: Sequence[str]) -> None:
        self.token = token
        self.ids = ids
        self.left = dict.fromkeys(ids)
        self.found: dict[str, Session | None] = {}


class Renewals:
    def __init__(self) -> None:
        self.gathered: list[tuple[RenewalBatch, str]] = []  # for the next question to the quorum
        self.held: dict[str, list[RenewalBatch]] = {}  # by the session whose end is under way
        self.noted: dict[str, list[RenewalBatch]] = {}  # by the session of which the log says less
        self.waiting = 0  # ids
        self._open: dict[RenewalBatch, None] = {}

    def has_room(self, ids: Sequence[str]) -> bool:
        return self.waiting + len(ids) <= RENEWALS_WAITING_MAX

    def gather(self, token: object, ids: Sequence[str]) -> AnswerRenewals | None:
        batch = RenewalBatch(token, ids)
        self._open[batch] = None
        self.waiting += len(batch.left)
        self.gathered += [(batch, each) for each in batch.left]
        return self._answer_of(batch)

    def take_gathered(self) -> list[tuple[RenewalBatch, str]]:
        gathered, self.gathered = self.gathered, []
        return gathered

    def settle(self, batch: RenewalBatch, session_id: str, session: Session | None) -> AnswerRenewals | None:
        """The batch's answer, if that was the last of it."""
        if session_id in batch.left:
            del batch.left[session_id]
            batch.found[session_id] = session
            self.waiting -= 1
        return self._answer_of(batch)

    def release(self, session_id: str) -> None:
        """What was to end it is over; leadership is proven anew for those that waited."""
        self.gathered += [(batch, session_id) for batch in self.held.pop(session_id, ())]

    def refuse_all(self, cause: KeyCause, sentence: str) -> list[AnswerRenewals]:
        refused = [AnswerRenewals(batch.token, KeyRefusal(cause, sentence)) for batch in self._open]
        self.gathered, self.held, self.noted, self.waiting = [], {}, {}, 0
        self._open = {}
        return refused

    def _answer_of(self, batch: RenewalBatch) -> AnswerRenewals | None:
        if batch.left or batch not in self._open:
            return None
        del self._open[batch]
        return AnswerRenewals(batch.token, [batch.found[each] for each in batch.ids])
