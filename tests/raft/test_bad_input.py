"""Whatever arrives, a core stands: it counts, refuses or answers, and never takes back what is committed.

The messages here are well-typed, as the wire decoder hands them in, and otherwise arbitrary: from anybody,
of any term, with any index. Nobody forges them on purpose (calls between servers are authenticated); they
stand for confused peers, replays, and disks that forgot.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from random import Random

import pytest
from msgspec import structs

from adsum.now import MILLISECOND, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step, encode_configuration
from adsum.raft.core import RaftCore
from adsum.raft.errors import RaftRefused
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    MessageStamp,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Configuration, Entry, EntryKind, MemberId, Role, SnapshotMeta, Term
from tests.raft.support import STAMP, A, B, C, D, core, entry, restored

STAMPS = [STAMP] * 12 + [MessageStamp("another", 0), MessageStamp("test", 1), MessageStamp("test", 0, 2)]
WIPED = MemberId(A.node, "before the disk was wiped")
KINDS = (
    *(Append, Append, AppendReply, AppendRejected, Heartbeat, HeartbeatReply),
    *(SnapshotOffer, TimeoutNow, VoteRequest, VoteReply),
)


class Confusion:
    """A server among peers that say anything at all."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = RaftSettings(append_bytes_max=200, inflight_messages_max=2, uncommitted_bytes_max=500)
        self.server: RaftCore = core(restored([1, 1, 2]), settings=settings)
        self.seen = Counter[type[Message]]()

        self.is_calm = bool(seed % 2)  # nobody speaks of later terms, so that it may lead for a while
        if self.is_calm:
            self.lead()

    def lead(self) -> None:
        self.server.campaign()
        for is_prevote in (True, False):
            self.drain()
            term = Term(self.server.replica.term + is_prevote)
            self.server.step(VoteReply(STAMP, B, A, term, is_prevote, True, 0, Term(0)))
        assert self.server.replica.role is Role.LEADER

    def go_on(self) -> None:
        server, before = self.server, self.server.replica.log.commit
        match self.random.randrange(8):
            case 0:
                now = server.replica.now
                server.tick(Now(now.monotonic_ns + 50 * MILLISECOND, now.wall_ms + 50))
            case 1:
                self.drain()
            case 2:
                with suppress(RaftRefused):
                    self.ask()
            case _:
                message = self.message()
                self.seen[type(message)] += 1
                server.step(message)
        assert server.replica.log.commit >= before

    def ask(self) -> None:
        server, random = self.server, self.random
        match random.randrange(7):
            case 0 | 1:
                server.propose(b"x" * random.randrange(99))
            case 2:
                server.propose_conf(
                    ConfigurationChange((Step(random.choice(list(ChangeVerb)), random.choice((B, C, D))),))
                )
            case 3:
                server.read_index(random.randrange(9))
            case 4:
                server.transfer(random.choice((B, C)))
            case 5:
                server.report_snapshot(random.choice((B, C, D)), is_ok=random.random() < 0.5)
            case _:
                self.drain()
                snapshot = server.snapshot_point()
                if snapshot is not None:
                    server.compacted(snapshot, snapshot.index + random.randrange(2))

    def drain(self) -> None:
        while (batch := self.server.ready()) is not None:
            self.server.stored(batch.ticket)
            if batch.committed:
                self.server.applied(batch.committed[-1].index)

    def message(self) -> Message:
        random = self.random
        kind = random.choice(KINDS)
        stamp, source = random.choice(STAMPS), random.choice((A, B, B, C, C, D, WIPED))
        target = random.choice((A, A, A, A, A, A, B, WIPED))
        later = 0 if self.is_calm else random.choice((0, 0, 1, 2))
        term = Term(max(0, self.server.replica.term + random.choice((-2, -1, 0, 0, 0, 0, 0, later))))
        if kind is Append:
            return Append(
                stamp, source, target, term, self.index(), self.index(), self.term(), self.entries()
            )
        if kind is AppendReply:
            return AppendReply(stamp, source, target, term, self.index())
        if kind is AppendRejected:
            return AppendRejected(stamp, source, target, term, self.index(), self.index(), self.term())
        if kind is Heartbeat:
            return Heartbeat(stamp, source, target, term, self.index(), random.randrange(-1, 9))
        if kind is HeartbeatReply:
            told = random.randrange(-1, 9), random.randrange(-1, 3), random.random() < 0.5
            return HeartbeatReply(stamp, source, target, term, *told)
        if kind is SnapshotOffer:
            return SnapshotOffer(stamp, source, target, term, self.index(), self.snapshot())
        if kind is TimeoutNow:
            return TimeoutNow(stamp, source, target, term)
        is_prevote, is_other = random.random() < 0.5, random.random() < 0.5
        if kind is VoteRequest:
            return VoteRequest(stamp, source, target, term, self.index(), self.term(), is_prevote, is_other)
        return VoteReply(stamp, source, target, term, is_prevote, is_other, self.index(), self.term())

    def index(self) -> int:
        """Near an end of the log, or anywhere."""
        log, random = self.server.replica.log, self.random
        near = random.choice((log.first_index, log.commit, log.last_index)) + random.randrange(-2, 3)
        return random.choice((near, near, near, -1, 0, 1 << 40))

    def term(self) -> Term:
        log = self.server.replica.log
        return self.random.choice((log.last_term, log.last_term, Term(0), Term(1), Term(1 << 40)))

    def entries(self) -> tuple[Entry, ...]:
        log, random = self.server.replica.log, self.random
        first = log.last_index + random.randrange(-2, 2)
        made = [self.entry(first + position) for position in range(random.randrange(4))]
        return tuple(made if random.random() < 0.9 else reversed(made))

    def entry(self, index: int) -> Entry:
        random = self.random
        made = entry(
            index,
            max(0, self.server.replica.term - random.randrange(2)),
            time_ms=self.server.replica.log.last.time_ms + random.choice((0, 0, 0, 1, -1)),
            level=random.choice((1, 1, 1, 1, 1, 0, 2)),
        )
        if random.random() < 0.9:
            return made
        kind = random.choice(list(EntryKind))
        data = random.choice((b"", encode_configuration(Configuration((A, B, C, D)))))
        return structs.replace(made, kind=kind, data=data)

    def snapshot(self) -> SnapshotMeta:
        random = self.random
        voters = random.choice(((A, B, C), (B, C), ()))
        level, epoch = random.choice((1, 1, 1, 2)), random.choice((0, 0, 0, 1))
        index = self.server.replica.log.commit + random.randrange(-2, 5)
        return SnapshotMeta(index, self.term(), Configuration(voters), 0, level, epoch)


@pytest.mark.parametrize("share", range(4))
def test_whatever_arrives_is_counted_refused_or_answered(share: int) -> None:
    counted, seen = Counter[str](), Counter[type[Message]]()
    for seed in range(share * 100, share * 100 + 100):
        world = Confusion(seed)
        for _ in range(150):
            world.go_on()
        counted.update(asdict(world.server.counts))
        seen.update(world.seen)
    assert all(seen[kind] > 100 for kind in KINDS)
    for name in ("foreign", "misaddressed", "strangers", "stale", "malformed", "snapshots_refused"):
        assert counted[name] > 0, name
