"""What is asked of the store besides keys, as a server answers it: sessions, transactions that change
nothing, what became of a session.

As with keys, a question that may not be stale takes one to the quorum at its beginning, together with all
others of that moment, and whoever waits is woken by the entry that changes what was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from adsum.kv import KeyRefusal, ReadMode
from adsum.session import Session
from adsum.store.commands import CONSUL
from adsum.store.machine import StoreMachine
from adsum.store.session_waiters import SessionWaiters
from adsum.store_requests import (
    OF_ONE_SERVER,
    ConsensusFound,
    ConsensusRead,
    KeyHistoryRead,
    SessionRead,
    SessionsFound,
    SessionShape,
    SessionStory,
    SessionStoryRead,
    StoreFound,
    StoreRead,
    StoreReadAnswered,
    TransactionFound,
    TransactionRead,
)

if TYPE_CHECKING:
    from adsum.servers.keys import ServerKeys

Wake: TypeAlias = Callable[[], None]

KEYS_SHOWN_MAX = 64  # of those that a session holds


class StoreQuestions:
    def __init__(self, keys: ServerKeys, machine: StoreMachine) -> None:
        self._keys = keys
        self._machine = machine
        self._waiters = SessionWaiters()

    def ask(self, read: StoreRead, answered: StoreReadAnswered) -> AcceptedQuestion:
        accepted = AcceptedQuestion(self, self._keys, read, answered)
        if isinstance(read, OF_ONE_SERVER):
            self.look(accepted)
        elif (doubt := self._keys.doubt_of(read.mode)) is not None:
            accepted.refuse(doubt)
        elif read.mode is ReadMode.STALE and self._keys.has_heard_leader and not self._is_ahead(read):
            self.look(accepted)
        else:
            self._keys.confirm(accepted)
        return accepted

    def woken(self) -> list[Wake]:
        """By what was applied since the last look."""
        return self._waiters.woken(self._machine.sessions)

    def everybody(self) -> list[Wake]:
        return self._waiters.everybody()

    def look(self, accepted: AcceptedQuestion) -> None:
        """Answers it, or has it wait."""
        doubt = self._keys.doubt_of(accepted.read.mode)
        if doubt is not None:
            accepted.refuse(doubt)
            return
        match accepted.read:
            case SessionRead() as read:
                self._look_at_sessions(accepted, read)
            case TransactionRead(operations):
                answer = self._machine.read_transaction(operations)
                revision = self._machine.revision_of(self._machine.applied)
                accepted.answer(TransactionFound(revision, answer, *self._keys.standing(accepted.read.mode)))
            case SessionStoryRead(session_id):
                accepted.answer(self._story_of(session_id))
            case KeyHistoryRead(key):
                accepted.answer(self._keys.history_of(key))
            case ConsensusRead():
                seen = self._keys.consensus
                accepted.answer(ConsensusFound(seen.leader, seen.peers) if seen else ConsensusFound("", ()))

    def wait(self, accepted: AcceptedQuestion) -> None:
        self._waiters.add(accepted.wake, **_awaited(accepted.read))

    def leave(self, accepted: AcceptedQuestion) -> None:
        self._waiters.remove(accepted.wake, **_awaited(accepted.read))

    def _look_at_sessions(self, accepted: AcceptedQuestion, read: SessionRead) -> None:
        is_foreign = self._is_ahead(read)
        if read.since and read.waits and not is_foreign and not self._is_changed(read):
            self.wait(accepted)
            return
        index, sessions = self._sessions_of(read, 0 if is_foreign else read.since)
        standing = (is_foreign, *self._keys.standing(read.mode))
        accepted.answer(SessionsFound(index, sessions, *standing))

    def _is_changed(self, read: SessionRead) -> bool:
        table = self._machine.sessions
        match read.shape:
            case SessionShape.ONE:
                return table.changed_since(read.name, read.since)
            case SessionShape.OF_NODE:
                return table.node_changed_since(read.name, read.since)
            case SessionShape.ALL:
                return table.revision > read.since

    def _sessions_of(self, read: SessionRead, since: int) -> tuple[int, list[Session]]:
        table = self._machine.sessions
        match read.shape:
            case SessionShape.ONE:
                session = table.get(read.name)
                return table.index_of(read.name, since), [session] if session is not None else []
            case SessionShape.OF_NODE:
                return table.index_of_node(read.name, since), table.of_node(read.name)
            case SessionShape.ALL:
                return max(table.revision, since), table.all()

    def _story_of(self, session_id: str) -> SessionStory:
        table = self._machine.sessions
        held = self._machine.keyspaces[CONSUL].held.of(session_id)
        ended = table.ended.get(session_id)
        return SessionStory(table.get(session_id), ended, held[:KEYS_SHOWN_MAX], len(held))

    def _is_ahead(self, read: StoreRead) -> bool:
        return read.since > self._machine.revision_of(self._machine.applied)


class AcceptedQuestion:
    __slots__ = ("_answered", "_keys", "_questions", "is_over", "read")

    def __init__(
        self, questions: StoreQuestions, keys: ServerKeys, read: StoreRead, answered: StoreReadAnswered
    ) -> None:
        self.read = read
        self.is_over = False
        self._questions = questions
        self._keys = keys
        self._answered = answered

    def confirmed(self, refusal: KeyRefusal | None) -> None:
        if self.is_over:
            return
        is_stale = self.read.mode is ReadMode.STALE and self._keys.has_heard_leader
        if refusal is not None and not is_stale:
            self.refuse(refusal)
        else:
            self._questions.look(self)

    def refuse(self, refusal: KeyRefusal) -> None:
        self.give_up()
        self._answered(self._keys.counted(refusal))

    def wake(self) -> None:
        if not self.is_over:
            self._questions.look(self)

    def answer(self, found: StoreFound) -> None:
        self.give_up()
        self._answered(found)

    def give_up(self) -> None:
        self.is_over = True
        self._questions.leave(self)


def _awaited(read: StoreRead) -> dict[str, str]:
    """Only who asks for sessions waits."""
    match read:
        case SessionRead(SessionShape.ONE, id_):
            return {"id_": id_}
        case SessionRead(SessionShape.OF_NODE, node):
            return {"node": node}
        case _:
            return {}
