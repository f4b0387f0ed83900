"""Writes, from when a client of this agent asked until it is answered.

Each gets a name (`adsum.dedup`) and goes on to consensus, here on a server or through one. Where nobody
remembers so far back that a repeat could be told from a first attempt, a first attempt is begun anew, under
another name; and where another run of this agent has asked already, under a later generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from adsum.dedup import DedupKey, WriteNumbers
from adsum.kv import KeyCause, KeyRefusal, KeyWrite, StoreAnswer, StoreOutcome, WriteAnswered, decode_answer

if TYPE_CHECKING:
    from adsum.store_requests import StoreChange

BEGUN_MAX = 3  # each means that all that was remembered was forgotten meanwhile

FORGOTTEN = "nobody remembers whether this write was done before; read the key to find out"
NOT_MADE = "a server could not make sense of this write, so nothing was done; its log says more"
OVERTAKEN = "this write was begun three times, and each time forgotten; try again"


class BeginsWrites(Protocol):
    numbers: WriteNumbers

    def begin(self, accepted: AcceptedWrite) -> None:
        """Has it done, and calls it with what came of it; perhaps before it returns."""

    def refusal_of(self, error: Exception) -> KeyRefusal:
        """In words for whoever asked."""
        ...


class AcceptedWrite:
    """`start` has it begun; it is called with what came of that."""

    __slots__ = ("_answered", "_begins", "_begun", "is_over", "key", "write")

    def __init__(self, write: KeyWrite | StoreChange, answered: WriteAnswered, begins: BeginsWrites) -> None:
        self.write = write
        self.is_over = False
        self._answered = answered
        self._begins = begins
        self._begun = 0
        self.key: DedupKey  # under which it was begun last

    def start(self) -> None:
        self._begun += 1
        self.key = self._begins.numbers.begin()
        self._begins.begin(self)

    def __call__(self, outcome: bytes | StoreAnswer | Exception) -> None:
        """Bytes are an answer as it travels."""
        if self.is_over:
            return
        if isinstance(outcome, Exception):
            self._end(self._begins.refusal_of(outcome))
            return
        answer = decode_answer(outcome) if isinstance(outcome, bytes) else outcome
        match answer.outcome:
            case StoreOutcome.DONE | StoreOutcome.COMPARE_FAILED:
                self._end(answer)
            case StoreOutcome.NOT_DONE | StoreOutcome.OLD_GENERATION if self._begun == BEGUN_MAX:
                self._end(KeyRefusal(KeyCause.BUSY, OVERTAKEN))
            case StoreOutcome.NOT_DONE:
                self._begins.numbers.end(self.key)
                self.start()
            case StoreOutcome.OLD_GENERATION:
                self._begins.numbers.pass_over(answer.revision)
                self.start()
            case (
                StoreOutcome.REFUSED
                | StoreOutcome.NO_SESSION
                | StoreOutcome.HELD
                | StoreOutcome.FENCED
                | StoreOutcome.CONFLICT
            ):
                self._end(answer)
            case StoreOutcome.UNKNOWN:
                self._end(KeyRefusal(KeyCause.UNKNOWN, FORGOTTEN))
            case _:
                self._end(KeyRefusal(KeyCause.FAILED, NOT_MADE))

    def give_up(self) -> None:
        """Whoever asked has hung up."""
        self.is_over = True
        self._begins.numbers.end(self.key)

    def _end(self, outcome: StoreAnswer | KeyRefusal) -> None:
        self.is_over = True
        self._begins.numbers.end(self.key)
        self._answered(outcome)
