"""The store of keys as the endpoints of a server see it: writes become commands in the log, reads are
answered from the copy here.

A read that may not be stale takes one question to the quorum at its beginning, and all that come before it is
asked share it; also on a follower, which then waits until it has applied as much. Whoever waits for a change
is woken by the entry that makes it, and needs no other question: what this server has applied is committed. A
stale read is answered at once, but of a server that has heard no leader since it started: what that has may
be of long ago, so it takes the question, too, and is held until there is a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import trio

from adsum.accepting import AcceptedWrite
from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import StateDoubted, Turned
from adsum.consensus.errors import DiskIsFull, OutcomeUnknown, QueueFull, StateDiffers
from adsum.dedup import DedupKey, WriteNumbers
from adsum.external import ExternalItem
from adsum.kv import (
    RECORD_OVERHEAD_BYTES,
    KeyCause,
    KeyRead,
    KeyRecord,
    KeyRefusal,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadAnswered,
    ReadMode,
    ReadShape,
    ReadsKeyAgain,
    WriteAnswered,
)
from adsum.kv_history import HistoryAnswered, KeyHistory
from adsum.leading import ConsensusFigures
from adsum.mutable import dataclass
from adsum.raft.errors import TooLarge
from adsum.raft.types import MemberId
from adsum.servers.key_history import history_of
from adsum.servers.key_lists import KeyLists
from adsum.servers.making_commands import command_of, growth_at_most, growth_of, items_put_by
from adsum.servers.renewals import RenewsSessions, RenewsWithoutLeader
from adsum.servers.store_questions import AcceptedQuestion, StoreQuestions
from adsum.store.commands import CONSUL, StoreRequest, encode_request
from adsum.store.keyspace import Keyspace
from adsum.store.machine import SESSIONS_LEVEL, StoreMachine
from adsum.store.waiters import KeyWaiters
from adsum.store_requests import RenewAnswered, StoreChange, StoreRead, StoreReadAnswered
from adsum.transactions import Transaction

Wake: TypeAlias = Callable[[], None]


class StoreLimits(NamedTuple):
    """Of keys and what stands under them. They are looked at before a write enters the log: what is in it is
    done, whatever a server's limits are."""

    keys_max: int = 10_000_000
    bytes_max: int = 1 << 30
    # Of nodes without an agent: a little less than what agents take of one owner. A check has two places.
    external_max: int = 190_000
    external_bytes_max: int = 60 << 20


STORE_LIMITS = StoreLimits()
PLAIN_VERBS = (KeyVerb.PUT, KeyVerb.DELETE, KeyVerb.DELETE_TREE)
TOO_OLD = (
    "the log of consensus is written at apply level {}, so that servers of an earlier version can read it: "
    "sessions, locks, transactions, fenced writes and nodes without an agent come when all are upgraded"
)
BLOCKS_PER_TURN = 8  # let go of, in some milliseconds


@dataclass(slots=True)
class KeyCounters:
    reads: list[int] = field(default_factory=lambda: [0] * len(ReadMode))  # begun, by mode
    refused: list[int] = field(default_factory=lambda: [0] * len(KeyCause))  # reads and writes, by cause
    refused_keys_max: int = 0
    refused_bytes_max: int = 0
    wakes: int = 0  # of those who wait for a change


class StoreIsFull(Exception):
    pass


class LogIsTooOld(Exception):
    """It is written by rules that know less than what was asked for."""


class RunsConsensus(Protocol):
    """As a `ConsensusServer` does."""

    @property
    def leader(self) -> MemberId | None: ...

    @property
    def behind_ms(self) -> int: ...

    @property
    def waits_for(self) -> str: ...

    @property
    def read_turn(self) -> int | None: ...

    @property
    def apply_level(self) -> int:
        """That is in force here; 0 while there is no cluster."""
        ...

    @property
    def level_waits_for(self) -> list[str]:
        """The names of servers of an earlier version; a leader knows them."""
        ...

    @property
    def figures(self) -> ConsensusFigures | None: ...

    def submit(self, request: SubmitProposal | SubmitRead) -> None: ...

    def give_up(self, token: object) -> None: ...


class ServerKeys:
    """It is a `KeyStore`."""

    def __init__(
        self,
        server: RunsConsensus,
        machine: StoreMachine,
        numbers: WriteNumbers,
        wall_ms: Callable[[], int],
        wake_all: Callable[[list[Wake]], None],
        limits: StoreLimits = STORE_LIMITS,
        renewals: RenewsSessions | None = None,
    ) -> None:
        """`wake_all` calls each, and takes its time where they are many."""
        self.counters = KeyCounters()
        self.waiters = KeyWaiters()
        self.numbers = numbers
        self._server = server
        self._machine = machine
        self._wall_ms = wall_ms
        self._wake_all = wake_all
        self._lists = KeyLists(wake_all)
        self._questions = StoreQuestions(self, machine)
        self.renewals: RenewsSessions = renewals or RenewsWithoutLeader()
        self._limits = limits
        self.has_heard_leader = False  # since this server started
        self._gathered = _ReadsTogether(self, None)
        self._is_letting_go = False
        self._doubted: StateDoubted | None = None

    # What the endpoints ask.

    @property
    def waits_for(self) -> str:
        return self._server.waits_for

    @property
    def consensus(self) -> ConsensusFigures | None:
        return self._server.figures

    def write(self, write: KeyWrite | StoreChange, answered: WriteAnswered) -> AcceptedWrite:
        accepted = AcceptedWrite(write, answered, self)
        accepted.start()
        return accepted

    def read(self, read: KeyRead, answered: ReadAnswered) -> _AcceptedRead:
        accepted = _AcceptedRead(self, read, answered)
        self.counters.reads[read.mode] += 1
        if self._doubted is not None and self._is_doubted(accepted):
            return accepted
        if read.mode is ReadMode.STALE and self.has_heard_leader and not self._is_ahead(read):
            self.look(accepted)
        else:
            self.confirm(accepted)
        return accepted

    def read_again(self, reader: ReadsKeyAgain, asker: Any) -> None:
        is_stale = reader.mode is ReadMode.STALE
        if self._doubted is not None or (is_stale and not self.has_heard_leader):
            self.read(reader.read, partial(reader.told, asker))
            return
        self.counters.reads[reader.mode] += 1
        if is_stale:
            self._tell_again(((reader, asker),), self.standing(ReadMode.STALE))
            return
        gathered, is_new = self._gathering()
        gathered.again.append((reader, asker))
        if is_new:
            self._server.submit(SubmitRead(gathered))

    def ask(self, read: StoreRead, answered: StoreReadAnswered) -> AcceptedQuestion:
        self.counters.reads[read.mode] += 1
        return self._questions.ask(read, answered)

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        return self.renewals.renew(session_id, answered)

    def history(self, key: bytes, answered: HistoryAnswered) -> object:
        answered(self.history_of(key))
        return None

    def history_of(self, key: bytes) -> KeyHistory:
        """As this server has it, also without a leader."""
        return history_of(self._space, key, self.waiters.waiting_for(key))

    def give_up(self, asked: object) -> None:
        if isinstance(asked, AcceptedWrite):
            asked.give_up()
            self._server.give_up(asked)
        elif isinstance(asked, _AcceptedRead | AcceptedQuestion):
            asked.give_up()
        else:
            self.renewals.give_up(asked)

    # What consensus tells.

    def turned(self, turned: Turned) -> None:
        self.has_heard_leader |= turned.leader is not None

    def doubted(self, doubted: StateDoubted) -> None:
        """Whoever waits is told, or asks another server."""
        self._doubted = doubted if doubted.reason else None
        self._wake_all([*self.waiters.everybody(), *self._questions.everybody()])

    def applied(self) -> None:
        self._lists.changed(self._space.revision)
        woken = [*self.waiters.woken(self._space), *self._questions.woken()]
        if woken:
            self.counters.wakes += len(woken)
            self._wake_all(woken)
        if not self._is_letting_go and self._machine.let_go(0):
            self._let_go()

    # Inside, for reads.

    @property
    def _space(self) -> Keyspace:
        return self._machine.keyspaces[CONSUL]

    def confirm(self, accepted: _AcceptedRead | AcceptedQuestion) -> None:
        gathered, is_new = self._gathering()
        gathered.reads.append(accepted)
        if is_new:
            self._server.submit(SubmitRead(gathered))

    def _gathering(self) -> tuple[_ReadsTogether, bool]:
        """All that come before consensus asks; whether it is still to be told that somebody came."""
        turn, gathered = self._server.read_turn, self._gathered
        if turn is not None and gathered.turn == turn:
            return gathered, False
        self._gathered = _ReadsTogether(self, turn)
        return self._gathered, True

    def confirmed_again(self, asked: Sequence[tuple[ReadsKeyAgain, Any]], refusal: KeyRefusal | None) -> None:
        if refusal is None and self._doubted is None:
            self._tell_again(asked, self.standing(ReadMode.DEFAULT))
            return
        for reader, asker in asked:
            _AcceptedRead(self, reader.read, partial(reader.told, asker)).confirmed(refusal)

    def _tell_again(self, asked: Sequence[tuple[ReadsKeyAgain, Any]], standing: tuple[bool, int]) -> None:
        """While nothing changes, without a look into the table, or at the record."""
        space = self._space
        get, revision = space.table.get, space.revision
        for reader, asker in asked:
            if reader.revision != revision:
                record = get(reader.read.key)
                if record is None or record is not reader.record:
                    reader.told(asker, self._found(reader.read, record, standing))
                    continue
                reader.revision = revision
            reader.told_the_same(asker, standing)

    def _let_go(self) -> None:
        self._is_letting_go = self._machine.let_go(BLOCKS_PER_TURN)
        if self._is_letting_go:
            trio.lowlevel.current_trio_token().run_sync_soon(self._let_go)

    def _is_doubted(self, accepted: _AcceptedRead) -> bool:
        """Then it is refused."""
        refusal = self.doubt_of(accepted.read.mode)
        if refusal is not None:
            accepted.refuse(refusal)
        return refusal is not None

    def doubt_of(self, mode: ReadMode) -> KeyRefusal | None:
        doubted = self._doubted
        if doubted is not None and (doubted.has_stopped or mode is ReadMode.STALE):
            return KeyRefusal(KeyCause.DOUBTED, doubted.reason)
        return None

    def _is_ahead(self, read: KeyRead) -> bool:
        """Of what is applied here: another server may have given that index out."""
        return read.since > 0 and read.since > self._machine.revision_of(self._machine.applied)

    def look(self, accepted: _AcceptedRead) -> None:
        """Answers it, or has it wait."""
        read, space = accepted.read, self._space
        if self._doubted is not None and self._is_doubted(accepted):
            return
        is_foreign = self._is_ahead(read)
        if read.since and read.waits and not is_foreign and not _is_changed(space, read):
            accepted.wait()
            return
        since = 0 if is_foreign else read.since
        standing = self.standing(read.mode)
        if read.shape is ReadShape.KEY:
            record = space.get(read.key)
            accepted.answer(self._found(read, record, standing, since=since, is_foreign=is_foreign))
            return
        listed = self._lists.find(space, read)
        index = space.index_below(read.key, since)
        found = KeysFound(index, listed.keys, listed.records, is_foreign, *standing)
        if listed.is_whole:
            accepted.answer(found)
        else:
            accepted.leave()
            listed.waiting.append((accepted, found))

    def _found(
        self,
        read: KeyRead,
        record: KeyRecord | None,
        standing: tuple[bool, int],
        *,
        since: int = 0,
        is_foreign: bool = False,
    ) -> KeysFound:
        """Of one key."""
        if record is not None:
            return KeysFound(record.modify, [read.key], [record], is_foreign, *standing)
        return KeysFound(self._space.index_of(read.key, since), [], [], is_foreign, *standing)

    def standing(self, mode: ReadMode) -> tuple[bool, int]:
        """Whether a leader is known, and how long ago it was heard."""
        if mode is ReadMode.STALE:
            return self._server.leader is not None, self._server.behind_ms
        return True, 0

    def propose(
        self,
        write: KeyWrite | StoreChange,
        key: DedupKey,
        wall_ms: int,
        seen: int,
        answered: Callable[[bytes | Exception], None],
    ) -> None:
        """Under the name that whoever accepted it gave it; `answered` is what gives it up."""
        if isinstance(write, KeyWrite) and write.verb is KeyVerb.PUT and write.if_token is None:
            has_room = self._has_room(1, len(write.key) + RECORD_OVERHEAD_BYTES + len(write.value))
            if not has_room and (full := self._full(write)):
                answered(StoreIsFull(full))
                return
        elif refusal := self._why_not(write):
            answered(refusal)
            return
        request = StoreRequest(command_of(write), wall_ms, seen)
        self._server.submit(SubmitProposal(encode_request(request), answered, key))

    # For `AcceptedWrite`.

    def begin(self, accepted: AcceptedWrite) -> None:
        seen = self._machine.revision_of(self._machine.applied)
        self.propose(accepted.write, accepted.key, self._wall_ms(), seen, accepted)

    def refusal_of(self, error: Exception) -> KeyRefusal:
        return self.counted(refusal_of(error))

    def counted(self, refusal: KeyRefusal) -> KeyRefusal:
        self.counters.refused[refusal.cause] += 1
        return refusal

    def _why_not(self, write: KeyWrite | StoreChange) -> Exception | None:
        if isinstance(write, KeyWrite) and write.verb in PLAIN_VERBS and write.if_token is None:
            return None
        level = self._server.apply_level
        if level < SESSIONS_LEVEL:
            waits_for = self._server.level_waits_for
            names = f" ({', '.join(waits_for)} are not)" if waits_for else ""
            return LogIsTooOld(TOO_OLD.format(level) + names)
        has_room = isinstance(write, KeyWrite | Transaction) and self._has_room(*growth_at_most(write))
        full = "" if has_room else self._lacks_room(*growth_of(write, self._space))
        if not isinstance(write, KeyWrite):
            full = full or self._lacks_places(items_put_by(write))
        return StoreIsFull(full) if full else None

    def _lacks_places(self, items: Sequence[ExternalItem]) -> str:
        """What is there already always has its own."""
        external, limits = self._machine.external, self._limits
        new = [item for item in items if external.get(item.node, item.kind, item.id) is None]
        places = external.places + len(new)
        if not new or (places <= limits.external_max and external.bytes_total <= limits.external_bytes_max):
            return ""
        return (
            f"nodes without an agent, their services and checks have {external.places} places and "
            f"{external.bytes_total} bytes; they may have {limits.external_max} and "
            f"{limits.external_bytes_max}: deregister some first"
        )

    def _full(self, put: KeyWrite) -> str:
        before = self._space.get(put.key)
        if before is None:
            return self._lacks_room(1, len(put.key) + RECORD_OVERHEAD_BYTES + len(put.value))
        return self._lacks_room(0, len(put.value) - len(before.value))

    def _has_room(self, more_keys: int, more_bytes: int) -> bool:
        machine, limits = self._machine, self._limits
        is_few = len(self._space.table) + more_keys <= limits.keys_max
        return is_few and machine.bytes_total + more_bytes <= limits.bytes_max

    def _lacks_room(self, more_keys: int, more_bytes: int) -> str:
        """Why there is none; empty if there is. What makes nothing larger always has room."""
        table, limits = self._space.table, self._limits
        if more_keys > 0 and len(table) + more_keys > limits.keys_max:
            self.counters.refused_keys_max += 1
            return f"the store holds {limits.keys_max} keys, and may not hold more: delete some first"
        machine = self._machine
        bytes_total = table.bytes_total + machine.sessions.bytes_total + machine.external.bytes_total
        if more_bytes > 0 and bytes_total + more_bytes > limits.bytes_max:
            self.counters.refused_bytes_max += 1
            return (
                f"the store holds {bytes_total} bytes, and with this key it would exceed the "
                f"{limits.bytes_max} that it may hold: delete some keys first"
            )
        return ""


class _ReadsTogether:
    """Called with the index up to which the copy here has to be applied, when it is."""

    __slots__ = ("_keys", "again", "reads", "turn")

    def __init__(self, keys: ServerKeys, turn: int | None) -> None:
        self._keys = keys
        self.turn = turn  # of consensus, when the first of them came; None when no more may join
        self.reads: list[_AcceptedRead | AcceptedQuestion] = []
        self.again: list[tuple[ReadsKeyAgain, Any]] = []

    def __call__(self, outcome: int | Exception) -> None:
        self.turn = None  # it may have been refused within the turn
        refusal = refusal_of(outcome) if isinstance(outcome, Exception) else None
        if self.again:
            self._keys.confirmed_again(self.again, refusal)
        for read in self.reads:
            read.confirmed(refusal)


class _AcceptedRead:
    __slots__ = ("_answered", "_is_waiting", "_keys", "is_over", "read")

    def __init__(self, keys: ServerKeys, read: KeyRead, answered: ReadAnswered) -> None:
        self.read = read
        self._keys = keys
        self._answered = answered
        self.is_over = False
        self._is_waiting = False

    def confirmed(self, refusal: KeyRefusal | None) -> None:
        if self.is_over:
            return
        is_stale = self.read.mode is ReadMode.STALE and self._keys.has_heard_leader
        if refusal is not None and not is_stale:
            self.refuse(refusal)
        else:
            self._keys.look(self)

    def wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._keys.waiters.add(self.read.key, self.wake, is_prefix=self._is_of_prefix)

    def wake(self) -> None:
        if not self.is_over:
            self._keys.look(self)

    def answer(self, found: KeysFound) -> None:
        self.give_up()
        self._answered(found)

    def refuse(self, refusal: KeyRefusal) -> None:
        self.give_up()
        self._answered(self._keys.counted(refusal))

    def give_up(self) -> None:
        self.is_over = True
        self.leave()

    def leave(self) -> None:
        """A change wakes it no more."""
        if self._is_waiting:
            self._is_waiting = False
            self._keys.waiters.remove(self.read.key, self.wake, is_prefix=self._is_of_prefix)

    @property
    def _is_of_prefix(self) -> bool:
        return self.read.shape is not ReadShape.KEY


def refusal_of(error: Exception) -> KeyRefusal:
    match error:
        case OutcomeUnknown():
            return KeyRefusal(KeyCause.UNKNOWN, f"it may have been done: {error}; read the key to find out")
        case DiskIsFull() | StoreIsFull():
            return KeyRefusal(KeyCause.NO_ROOM, str(error))
        case QueueFull():
            return KeyRefusal(KeyCause.BUSY, str(error))
        case StateDiffers():
            return KeyRefusal(KeyCause.DOUBTED, str(error))
        case TooLarge():
            return KeyRefusal(KeyCause.TOO_LARGE, str(error))
        case LogIsTooOld():
            return KeyRefusal(KeyCause.FAILED, str(error))
        case _:
            return KeyRefusal(KeyCause.NO_LEADER, str(error))


def _is_changed(space: Keyspace, read: KeyRead) -> bool:
    if read.shape is ReadShape.KEY:
        return space.key_changed_since(read.key, read.since)
    return space.prefix_changed_since(read.key, read.since)
