"""The state machine of the store: what committed entries do to keys.

A function of state and entry: nothing else is read, no clock, no chance, no order of a set. A command is
checked whole before anything is changed, so an error before the first change is an answer, and one after it
ends the process. Nothing in it is decided by a setting of one server: limits are looked at before an entry is
proposed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct

from adsum.kv import AnswerExtras, KeyRecord, StoreAnswer, StoreOutcome
from adsum.kv import encode as encode_answer
from adsum.raft.types import NO_OFFSET, Entry, EntryKind, RevisionOffset, Term
from adsum.store import external_commands, key_commands, locks, session_commands, transactions
from adsum.store.commands import (
    CONSUL,
    Acquire,
    CreateSession,
    Delete,
    DeleteTree,
    DeregisterExternal,
    EndSessions,
    ExpireSessions,
    NoteRemaining,
    Put,
    RegisterExternal,
    Release,
    RenewExternal,
    RunTransaction,
    StoreRequest,
    decode_request,
)
from adsum.store.external import ExternalTable
from adsum.store.history import HistoryBounds
from adsum.store.keyspace import Keyspace, Origin
from adsum.store.results import RESULT_BYTES_MAX, ResultTable
from adsum.store.sessions import SessionTable
from adsum.store.snapshot import StoreState, pieces_of, state_from
from adsum.transactions import Operation, TransactionAnswer

KEYSPACES = ("consul",)  # by number, as in the log
HISTORY_BOUNDS = HistoryBounds(changes_max=100_000, bytes_max=64 << 20)
RESULTS_BYTES_MAX = 16 << 20
HASH_FORMAT = b"\x01"
SESSIONS_LEVEL = 2  # from this apply level on there are sessions, and what came with them

Handler: TypeAlias = Callable[["StoreMachine", Any, StoreRequest, Origin], StoreAnswer]
FIRST_HANDLERS: dict[type[Struct], Handler] = {
    Put: key_commands.put,
    Delete: key_commands.delete,
    DeleteTree: key_commands.delete_tree,
}
HANDLERS: dict[type[Struct], Handler] = {
    **FIRST_HANDLERS,
    Acquire: locks.acquire,
    Release: locks.release,
    RunTransaction: transactions.run,
    RegisterExternal: external_commands.register,
    DeregisterExternal: external_commands.deregister,
    RenewExternal: external_commands.renew,
    CreateSession: session_commands.create,
    EndSessions: session_commands.end,
    ExpireSessions: session_commands.expire,
    NoteRemaining: session_commands.note_remaining,
}


class StoreMachine:
    def __init__(
        self,
        offset: RevisionOffset = NO_OFFSET,
        *,
        bounds: HistoryBounds = HISTORY_BOUNDS,
        results_bytes_max: int = RESULTS_BYTES_MAX,
    ) -> None:
        """`offset` as the log has it; before its index the snapshot's own holds."""
        self.applied = 0
        self.cluster_ms = 0
        self.term = Term(0)  # of the last entry
        self.knows_sessions = False  # at its apply level
        self.internal_errors = 0
        self.reads_refused = 0  # operations of transactions: they would have read too much
        self.is_changing = False  # the handler of a command says so before it changes anything
        self._offset = offset
        self._offset_before = 0
        self._bounds = bounds
        self._let_go: list[object] = []
        self.results = ResultTable(results_bytes_max)
        self.keyspaces = [Keyspace(name, bounds) for name in KEYSPACES]
        self.sessions = SessionTable()
        self.external = ExternalTable()
        self.writes = {command: [0] * len(StoreOutcome) for command in HANDLERS}  # run here, by outcome

    # What consensus does with it.

    def apply(self, entry: Entry) -> bytes:
        if self._let_go:
            self.let_go()
        self.applied, self.cluster_ms = entry.index, entry.time_ms
        self.term = entry.term
        self.knows_sessions = entry.apply_level >= SESSIONS_LEVEL
        for space in self.keyspaces:
            if space.delays.ends:
                space.delays.put_out(entry.time_ms)
        if entry.kind is not EntryKind.COMMAND:
            return b""
        try:
            request = decode_request(entry.data)
        except (DecodeError, UnicodeDecodeError):
            return self._without_change(StoreOutcome.MALFORMED)
        via = entry.dedup.client if entry.dedup is not None else ""
        origin = Origin(self.revision_of(entry.index), via, request.wall_ms)
        if entry.dedup is None:
            return encode_answer(self._run(request, origin))
        known = self.results.find(entry.dedup, seen=request.seen)
        if isinstance(known, bytes):
            return known
        if known is StoreOutcome.OLD_GENERATION:
            return self._without_change(known, self.results.generation_of(entry.dedup.client))
        if known is not None:
            # With the revision of now: whoever begins it anew knows that much then.
            return self._without_change(known, origin.revision)
        answer = self._run(request, origin)
        encoded = kept = encode_answer(answer)
        if len(encoded) > RESULT_BYTES_MAX:
            kept = encode_answer(StoreAnswer(answer.outcome, answer.revision, answer.index, answer.count))
        self.results.keep(entry.dedup, kept, origin.revision)
        return encoded

    def let_go(self, count: int = 1) -> bool:
        """Of so many blocks that an entry took away; True if there are more. Each entry lets one go, and
        whoever has time between entries some more: else a deleted tree would be kept until as much was
        written again."""
        if self._let_go and count:
            for space in self.keyspaces:
                space.let_go(count)
            del self._let_go[-count:]
        return bool(self._let_go)

    def snapshot(self) -> Iterator[bytes]:
        state = StoreState(
            *(self.applied, self.cluster_ms, self.offset, self.keyspaces, self.results, self.sessions),
            self.external,
        )
        return pieces_of(state.frozen())

    def read(self, pieces: Iterator[bytes]) -> StoreState:
        return state_from(pieces, KEYSPACES, self._bounds, self.results.bytes_max)

    def restore(self, state: StoreState) -> None:
        for space in self.keyspaces:
            self._let_go += [*space.table.cut(b"", None), *space.tombstones.cut(b"", None)]
            self._let_go += space.history.clear(0)
        self.applied, self.cluster_ms, self._offset_before = state.applied, state.cluster_ms, state.offset
        self.keyspaces, self.results, self.sessions = state.keyspaces, state.results, state.sessions
        self.external = state.external

    def hash(self) -> bytes | None:
        """Of what decides: records, tombstones, floors, how much is remembered. As many steps as there are
        keyspaces, for the rest has running sums. What is summed up otherwise begins with another byte."""
        told: list[object] = [self.applied, self.cluster_ms]
        told += [self.results.floor, len(self.results.rows), self.results.bytes_total]
        for space in self.keyspaces:
            standing = space.standing()
            if standing is None:
                return None
            told += standing
            if len(space.delays):
                told += space.delays.standing
        if self.sessions.revision:
            told += self.sessions.standing()
        if self.external.generation:
            told += self.external.standing()
        return HASH_FORMAT + zlib.crc32(repr(told).encode()).to_bytes(4, "big")

    def read_transaction(self, operations: Sequence[Operation]) -> TransactionAnswer:
        """One that changes nothing, without an entry."""
        return transactions.read(self, operations)

    # Revisions.

    @property
    def offset(self) -> int:
        return self.revision_of(self.applied) - self.applied

    def revision_of(self, index: int) -> int:
        value, from_index = self._offset
        return index + (max(value, self._offset_before) if index >= from_index else self._offset_before)

    # Commands.

    def _run(self, request: StoreRequest, origin: Origin) -> StoreAnswer:
        command = request.command
        keyspace = getattr(command, "keyspace", CONSUL)
        handler = (HANDLERS if self.knows_sessions else FIRST_HANDLERS).get(type(command))
        if handler is None or not 0 <= keyspace < len(self.keyspaces):
            return StoreAnswer(StoreOutcome.MALFORMED, 0, self.applied)
        self.is_changing = False
        try:
            answer = handler(self, command, request, origin)
        except (MemoryError, RecursionError):
            raise
        except Exception:
            if self.is_changing:
                raise
            self.internal_errors += 1
            self.writes[type(command)][StoreOutcome.INTERNAL_ERROR] += 1
            return StoreAnswer(StoreOutcome.INTERNAL_ERROR, 0, self.applied)
        if self.is_changing:
            for space in self.keyspaces:
                space.settle()
            if type(command) not in FIRST_HANDLERS:
                self.sessions.settle()
        self.writes[type(command)][answer.outcome] += 1
        return answer

    # For the handlers of commands.

    def unchanged(
        self, outcome: StoreOutcome, space: Keyspace, record: KeyRecord | None, request: StoreRequest
    ) -> StoreAnswer:
        shown = record if request.wants_records else None
        return StoreAnswer(outcome, space.revision, self.applied, 0, shown, shown)

    def refused(self, sentence: str, revision: int) -> StoreAnswer:
        extras = AnswerExtras(sentence=sentence)
        return StoreAnswer(StoreOutcome.REFUSED, revision, self.applied, extras=extras)

    def keys_held_by(self, session: str) -> int:
        return sum([space.held.count(session) for space in self.keyspaces])

    @property
    def bytes_total(self) -> int:
        """Of all that clients keep here."""
        keys = sum([space.table.bytes_total for space in self.keyspaces])
        return keys + self.sessions.bytes_total + self.external.bytes_total

    def keep_for_a_while(self, blocks: Sequence[object]) -> None:
        """What an entry took away, until `let_go`."""
        self._let_go += blocks

    # Inside.

    def _without_change(self, outcome: StoreOutcome, revision: int = 0) -> bytes:
        return encode_answer(StoreAnswer(outcome, revision, self.applied))
