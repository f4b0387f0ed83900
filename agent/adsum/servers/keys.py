"""The store of keys as the endpoints of a server see it: writes become commands in the log, reads are
answered from the copy here.

A read that may not be stale takes one question to the quorum at its beginning (all that come in one round of
the loop share it), also on a follower, which then waits until it has applied as much. Whoever waits for a
change is woken by the entry that makes it, and needs no other question: what this server has applied is
committed. A stale read is answered at once, but of a server that has heard no leader since it started: what
that has may be of long ago, so it takes the question, too, and is held until there is a leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from adsum.accepting import AcceptedWrite
from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import Turned
from adsum.consensus.errors import DiskIsFull, OutcomeUnknown
from adsum.dedup import WriteNumbers
from adsum.kv import (
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
    WriteAnswered,
)
from adsum.raft.errors import TooLarge
from adsum.raft.types import MemberId
from adsum.store.commands import (
    CONSUL,
    Delete,
    DeleteTree,
    Put,
    StoreCommand,
    StoreRequest,
    encode_request,
)
from adsum.store.keyspace import Keyspace
from adsum.store.machine import StoreMachine
from adsum.store.table import end_of
from adsum.store.waiters import KeyWaiters

Wake: TypeAlias = Callable[[], None]


class RunsConsensus(Protocol):
    """As a `ConsensusServer` does."""

    @property
    def leader(self) -> MemberId | None: ...

    @property
    def behind_ms(self) -> int: ...

    @property
    def waits_for(self) -> str: ...

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
    ) -> None:
        """`wake_all` calls each, and takes its time where they are many."""
        self.waiters = KeyWaiters()
        self.numbers = numbers
        self._server = server
        self._machine = machine
        self._wall_ms = wall_ms
        self._wake_all = wake_all
        self._has_heard_leader = False  # since this server started

    # What the endpoints ask.

    @property
    def waits_for(self) -> str:
        return self._server.waits_for

    def write(self, write: KeyWrite, answered: WriteAnswered) -> AcceptedWrite:
        accepted = AcceptedWrite(write, answered, self)
        accepted.start()
        return accepted

    def read(self, read: KeyRead, answered: ReadAnswered) -> _AcceptedRead:
        accepted = _AcceptedRead(self, read, answered)
        if read.mode is ReadMode.STALE and self._has_heard_leader:
            self.look(accepted)
        else:
            self._server.submit(SubmitRead(accepted))
        return accepted

    def give_up(self, asked: object) -> None:
        assert isinstance(asked, AcceptedWrite | _AcceptedRead), "as `write` and `read` return it"
        asked.give_up()
        self._server.give_up(asked)

    # What consensus tells.

    def turned(self, turned: Turned) -> None:
        self._has_heard_leader |= turned.leader is not None

    def applied(self) -> None:
        woken = self.waiters.woken(self._space)
        if woken:
            self._wake_all(woken)

    # Inside, for reads.

    @property
    def _space(self) -> Keyspace:
        return self._machine.keyspaces[CONSUL]

    def look(self, accepted: _AcceptedRead) -> None:
        """Answers it, or has it wait."""
        read, space = accepted.read, self._space
        is_foreign = read.since > self._machine.revision_of(self._machine.applied)
        if read.since and read.waits and not is_foreign and not _is_changed(space, read):
            accepted.wait()
            return
        keys, records = _found(space, read)
        index_of = space.index_of if read.shape is ReadShape.KEY else space.index_below
        index = index_of(read.key, 0 if is_foreign else read.since)
        has_leader, behind_ms = True, 0
        if read.mode is ReadMode.STALE:
            has_leader, behind_ms = self._server.leader is not None, self._server.behind_ms
        accepted.answer(KeysFound(index, keys, records, is_foreign, has_leader, behind_ms))

    # For `AcceptedWrite`.

    def begin(self, accepted: AcceptedWrite) -> None:
        seen = self._machine.revision_of(self._machine.applied)
        request = StoreRequest(_command_of(accepted.write), self._wall_ms(), seen)
        self._server.submit(SubmitProposal(encode_request(request), accepted, accepted.key))

    def refusal_of(self, error: Exception) -> KeyRefusal:
        return refusal_of(error)


class _AcceptedRead:
    """Called with the index up to which the copy here has to be applied, when it is."""

    __slots__ = ("_answered", "_is_over", "_is_waiting", "_keys", "read")

    def __init__(self, keys: ServerKeys, read: KeyRead, answered: ReadAnswered) -> None:
        self.read = read
        self._keys = keys
        self._answered = answered
        self._is_over = False
        self._is_waiting = False

    def __call__(self, outcome: int | Exception) -> None:
        if self._is_over:
            return
        if isinstance(outcome, Exception):
            self.refuse(refusal_of(outcome))
        else:
            self._keys.look(self)

    def wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._keys.waiters.add(self.read.key, self.wake, is_prefix=self._is_of_prefix)

    def wake(self) -> None:
        if not self._is_over:
            self._keys.look(self)

    def answer(self, found: KeysFound) -> None:
        self.give_up()
        self._answered(found)

    def refuse(self, refusal: KeyRefusal) -> None:
        self.give_up()
        self._answered(refusal)

    def give_up(self) -> None:
        self._is_over = True
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
        case DiskIsFull():
            return KeyRefusal(KeyCause.NO_ROOM, str(error))
        case TooLarge():
            return KeyRefusal(KeyCause.TOO_LARGE, str(error))
        case _:
            return KeyRefusal(KeyCause.NO_LEADER, str(error))


def _command_of(write: KeyWrite) -> StoreCommand:
    match write.verb:
        case KeyVerb.PUT:
            return Put(write.key, write.value, flags=write.flags, cas=write.cas, skips_equal=True)
        case KeyVerb.DELETE:
            return Delete(write.key, cas=write.cas)
        case KeyVerb.DELETE_TREE:
            return DeleteTree(write.key)


def _is_changed(space: Keyspace, read: KeyRead) -> bool:
    if read.shape is ReadShape.KEY:
        return space.key_changed_since(read.key, read.since)
    return space.prefix_changed_since(read.key, read.since)


def _found(space: Keyspace, read: KeyRead) -> tuple[list[bytes], list[KeyRecord]]:
    keys: list[bytes] = []
    records: list[KeyRecord] = []
    if read.shape is ReadShape.KEY:
        record = space.get(read.key)
        return ([read.key], [record]) if record is not None else (keys, records)
    if read.separator:
        return list(space.table.folders(read.key, read.separator)), records
    for some_keys, some_records in space.table.slices(read.key, end_of(read.key)):
        keys += some_keys
        if read.shape is ReadShape.TREE:
            records += some_records
    return keys, records
