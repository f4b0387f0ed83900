"""What must hold of a cluster, looked at on every step and only on what the step touched.

`Invariants` watches servers: one leader a term, one vote a term and no start that forgets it, logs that
match, one log for all, commits that only move forward and only by the rule, equal states at equal indexes.
`check_witness` judges clients with the log as the witness: in linear time, every acknowledged operation must
stand in the log where real time allows it, and replaying the log must give its answer. The search in
`linearizability` knows nothing of logs, and so checks both.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from adsum.raft.batch import Batch
from adsum.raft.core import RaftCore
from adsum.raft.messages import AppendReply, Message, VoteReply
from adsum.raft.replica import Replica
from adsum.raft.types import Entry, MemberId, Role
from adsum.testing.linearizability import Operation
from adsum.testing.raft_machine import Registers


class WatchedServer(Protocol):
    """What there is to look at."""

    @property
    def me(self) -> MemberId: ...

    @property
    def raft(self) -> RaftCore: ...

    @property
    def machine(self) -> Registers: ...


class Violation(AssertionError):
    """Safety is lost; the sentence says where it shows."""


def demand(is_so: bool, sentence: str) -> None:  # noqa: FBT001  # reads as the assertion it is
    if not is_so:
        raise Violation(sentence)


@dataclass(slots=True)
class Invariants:
    leaders: dict[int, MemberId] = field(default_factory=dict)  # by term
    votes: dict[tuple[MemberId, int], MemberId] = field(default_factory=dict)
    log: dict[int, Entry] = field(default_factory=dict)  # as it was applied, by whoever came first
    committed: dict[int, int] = field(default_factory=dict)  # index to term, as soon as anybody knows
    highest_commit: int = 0
    highest_commit_term: int = 0  # in which it was first seen: later leaders must have it
    digests: dict[int, int] = field(default_factory=dict)
    # By index and term: the entry, and the term before it.
    written: dict[tuple[int, int], tuple[int | None, Entry]] = field(default_factory=dict)
    promised: dict[MemberId, int] = field(default_factory=dict)  # the highest term somebody was told
    # The last index that the disk vouched for, with its term; None while a truncation is on its way.
    durable: dict[MemberId, tuple[int, int | None]] = field(default_factory=dict)
    _commits: dict[MemberId, int] = field(default_factory=dict)

    def booted(self, server: WatchedServer) -> None:
        """What only memory knew is forgotten; commits may be learned again. Promises are not."""
        self._commits[server.me] = 0
        replica = server.raft.replica
        promised = self.promised.get(server.me, 0)
        demand(replica.term >= promised, f"{server.me} forgot that it was in term {promised}")
        led = max((term for term, leader in self.leaders.items() if leader == server.me), default=0)
        demand(replica.term >= led, f"{server.me} forgot that it led term {led}")
        index, term = self.durable.get(server.me, (0, None))
        is_there = replica.log.last_index >= index and replica.log.term_at(index) in (None, term)
        demand(is_there or term is None, f"{server.me} forgot {index}@{term}, which was on its disk")
        given = self.votes.get((server.me, replica.term))
        demand(given in (None, replica.vote), f"{server.me} forgot its vote in term {replica.term}")

    def took(self, server: WatchedServer, batch: Batch) -> None:
        """Two logs that share an index and a term share everything before it: it is enough to look at each
        entry and at the term before it."""
        index, _term = self.durable.get(server.me, (0, None))
        if batch.install_snapshot is not None or (batch.truncate_from or index + 1) <= index:
            self.durable[server.me] = (0, None)  # whether that reaches the disk is open
        before: int | None = None
        for entry in batch.entries:
            before = before or server.raft.replica.log.term_at(entry.index - 1)
            known = self.written.setdefault((entry.index, entry.term), (before, entry))
            is_same = known[1] == entry and (None in (before, known[0]) or known[0] == before)
            demand(is_same, f"{server.me} has another log before {entry.index}@{entry.term}")
            before = entry.term

    def looked_at(self, server: WatchedServer) -> None:
        """After every step of a server."""
        replica = server.raft.replica
        log, before = replica.log, self._commits[server.me]
        demand(replica.counts.contradictions == 0, f"{server.me} met a second leader of its term")
        has_led = replica.role is Role.LEADER and self.leaders.get(replica.term) == server.me
        if replica.role is Role.LEADER:
            self._check_leader(server.me, replica)
        if log.commit == before:
            return
        demand(log.commit > before, f"{server.me} took back its commit {before}, now {log.commit}")
        self._commits[server.me] = log.commit
        if has_led:
            is_own = log.term_at(log.commit) == replica.term
            demand(is_own, f"{server.me} committed by counting an old term")
        for index in range(max(before + 1, log.first_index), log.commit + 1):
            term = log.term_at(index)
            assert term is not None
            known = self.committed.setdefault(index, term)
            demand(known == term, f"{server.me} committed {index}@{term}, which was committed as @{known}")
        if log.commit > self.highest_commit:
            self.highest_commit, self.highest_commit_term = log.commit, replica.term

    def stored(self, server: WatchedServer) -> None:
        """The disk has said so: the next start must find it."""
        log = server.raft.replica.log
        self.durable[server.me] = (log.stable, log.term_at(log.stable))

    def sent(self, message: Message) -> None:
        if isinstance(message, VoteReply | AppendReply) and not getattr(message, "is_prevote", False):
            self.promised[message.source] = max(message.term, self.promised.get(message.source, 0))
        if isinstance(message, VoteReply) and message.is_granted and not message.is_prevote:
            key = (message.source, message.term)
            chosen = self.votes.setdefault(key, message.target)
            demand(chosen == message.target, f"{message.source} voted twice in term {message.term}")

    def applied(self, server: WatchedServer, entry: Entry) -> None:
        known = self.log.setdefault(entry.index, entry)
        demand(known == entry, f"{server.me} applied another entry at {entry.index}")

    def rests(self, server: WatchedServer) -> None:
        """After a run of entries or a snapshot."""
        index, digest = server.machine.index, server.machine.digest
        if index > 1:
            known = self.digests.setdefault(index, digest)
            demand(known == digest, f"the state of {server.me} differs at {index}")

    def _check_leader(self, me: MemberId, replica: Replica) -> None:
        leader = self.leaders.get(replica.term)
        if leader == me:
            return
        demand(leader is None, f"{leader} and {me} both lead term {replica.term}")
        self.leaders[replica.term] = me
        if replica.term > self.highest_commit_term:  # an older one may learn of its election late
            index = self.highest_commit
            known, held = self.committed.get(index), replica.log.term_at(index)
            is_complete = known == held or index < replica.log.first_index
            demand(is_complete, f"leader {me} lacks {index}@{known}")


def check_witness(operations: Sequence[Operation], log: dict[int, Entry]) -> list[Operation]:
    """Raises `Violation`, or returns the operations that certainly happened, for the search."""
    _find_retried(operations, log)
    happened = [operation for operation in operations if _has_trace(operation, log)]
    answers, values_at = _replay(happened, log)
    for operation in happened:
        if operation.call.verb == "get":
            expected = values_at[operation.index, operation.call.key]
        else:
            expected = answers[operation.index]
        demand(operation.answer in (None, expected), f"{operation} was answered, the log says {expected!r}")
    _check_real_time(happened)
    return happened


def _find_retried(operations: Sequence[Operation], log: dict[int, Entry]) -> None:
    """Of several tries that reached the log, the first is the one that happened."""
    firsts: dict[tuple[str, int], Entry] = {}
    for _index, entry in sorted(log.items()):
        if entry.dedup is not None:
            firsts.setdefault((entry.dedup.client, entry.dedup.sequence), entry)
    for operation in operations:
        first = firsts.get((str(operation.client), operation.sequence))
        if first is not None:
            operation.index, operation.term = first.index, first.term


def _has_trace(operation: Operation, log: dict[int, Entry]) -> bool:
    is_acknowledged = operation.answer is not None
    if operation.call.verb == "get":
        return is_acknowledged  # a read that was not answered left nothing behind
    entry = log.get(operation.index)
    is_there = entry is not None and entry.term == operation.term and entry.data == operation.call.encoded()
    demand(is_there or not is_acknowledged, f"{operation} was acknowledged and is not in the log")
    return is_there


def _replay(
    operations: list[Operation], log: dict[int, Entry]
) -> tuple[dict[int, str], dict[tuple[int, str], str]]:
    """The answer of each entry, and each key's value at the indexes where it was read."""
    reads: dict[int, list[str]] = {}
    for operation in operations:
        if operation.call.verb == "get":
            reads.setdefault(operation.index, []).append(operation.call.key)
    machine = Registers()
    answers: dict[int, str] = {}
    values_at = {(1, key): "" for key in reads.get(1, [])}
    for index in range(min(log, default=2), max(log, default=1) + 1):
        demand(index in log, f"nobody applied {index}")
        answers[index] = machine.apply(log[index])
        for key in reads.get(index, []):
            values_at[index, key] = machine.get(key)
    return answers, values_at


def _check_real_time(operations: list[Operation]) -> None:
    """What ended before another began stands before it in the log; two reads may share a place."""
    returns = sorted(operations, key=lambda operation: operation.returned_ns)
    position, highest = 0, 0
    for operation in sorted(operations, key=lambda operation: operation.invoked_ns):
        while position < len(returns) and returns[position].returned_ns < operation.invoked_ns:
            highest = max(highest, returns[position].index)
            position += 1
        is_read = operation.call.verb == "get"
        is_after = operation.index >= highest if is_read else operation.index > highest
        demand(is_after, f"{operation} came after index {highest} was acknowledged")


def log_digest(log: dict[int, Entry]) -> int:
    """Of every entry, in order: equal in two runs of one seed."""
    digest = 0
    for index in sorted(log):
        digest = zlib.crc32(repr(log[index]).encode(), digest)
    return digest
