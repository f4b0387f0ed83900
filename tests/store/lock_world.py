"""A world in which two sessions want two locks, small enough that everything that can happen in it is gone
through.

Each session has a program, and the two meet in any order. Meanwhile the leader may find that a session is
dead, and its proposal is committed at once or much later, perhaps in the term of another leader; a renewal
may be in the log by then; and time passes. A model stands beside the machine that knows the rules and has
none of its structures: all answers and all that is there are compared with it. The first session leaves its
keys with a delay, the second deletes them and leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from adsum.kv import AnswerExtras, StoreAnswer, StoreOutcome, decode_answer
from adsum.session import EndCause, Session, SessionBehavior
from adsum.store.commands import (
    Acquire,
    CreateSession,
    EndSessions,
    ExpireSessions,
    NoteRemaining,
    Put,
    Release,
    StoreCommand,
    StoreRequest,
    encode_request,
)
from adsum.store.history import HistoryBounds
from adsum.store.machine import StoreMachine
from tests.store.stores import entry

ONE, TWO = "one", "two"
DELAY_MS, STEP_MS = 50, 30
HISTORY = HistoryBounds(changes_max=4, bytes_max=1 << 20)
DONE, HELD, FENCED = StoreOutcome.DONE, StoreOutcome.HELD, StoreOutcome.FENCED


class Wish(NamedTuple):
    """A step of a session's program."""

    verb: str
    key: bytes = b""


PROGRAMS = {
    ONE: [Wish("acquire", b"a"), Wish("acquire", b"b"), Wish("write", b"a"), Wish("release", b"b")],
    TWO: [Wish("acquire", b"b"), Wish("acquire", b"a"), Wish("write", b"a"), Wish("destroy")],
}


class Extent(NamedTuple):
    """How much of it happens: all at once would be a million states."""

    steps: int  # of each program
    times_later: int = 0
    renewals: int = 0  # of the first session, through the log
    leaders: int = 0  # that follow


@dataclass
class Lock:
    holder: str | None
    lock_index: int
    token: int
    fence: int


@dataclass
class LockModel:
    renewals: dict[str, int] = field(default_factory=lambda: {ONE: 0, TWO: 0})  # of those that are there
    locks: dict[bytes, Lock] = field(default_factory=dict)
    gone: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # lock index and fence of deleted keys
    free_at: dict[bytes, int] = field(default_factory=dict)

    def acquire(self, session: str, key: bytes, now_ms: int, revision: int) -> tuple[StoreOutcome, object]:
        if session not in self.renewals:
            return StoreOutcome.NO_SESSION, None
        lock = self.locks.get(key)
        if lock is not None and lock.holder == session:
            return DONE, AnswerExtras(token=lock.token)
        if lock is not None and lock.holder is not None:
            return HELD, AnswerExtras(holder=lock.holder)
        if self.free_at.get(key, 0) > now_ms:
            return HELD, AnswerExtras(delay_ms=self.free_at[key] - now_ms)
        before = self.gone.pop(key, (0, 0)) if lock is None else (lock.lock_index, lock.fence)
        self.locks[key] = Lock(session, before[0] + 1, revision, max(before[1], revision))
        return DONE, AnswerExtras(token=revision)

    def write(self, key: bytes, token: int) -> StoreOutcome:
        lock = self.locks.get(key)
        if token < (lock.fence if lock is not None else self.gone.get(key, (0, 0))[1]):
            return FENCED
        if lock is None:
            lock_index, fence = self.gone.pop(key, (0, 0))
            self.locks[key] = Lock(None, lock_index, 0, max(fence, token))
        return DONE

    def release(self, session: str, key: bytes) -> StoreOutcome:
        lock = self.locks.get(key)
        if lock is None or lock.holder is None:
            return StoreOutcome.COMPARE_FAILED
        if lock.holder != session:
            return HELD
        lock.holder, lock.token = None, 0
        return DONE

    def end(self, session: str, now_ms: int) -> None:
        if self.renewals.pop(session, None) is None:
            return
        for key, lock in list(self.locks.items()):
            if lock.holder != session:
                continue
            if session == TWO:
                self.gone[key] = lock.lock_index, lock.fence
                del self.locks[key]
            else:
                lock.holder, lock.token = None, 0
                self.free_at[key] = now_ms + DELAY_MS


class LockWorld:
    def __init__(self, extent: Extent) -> None:
        self.machine = StoreMachine(bounds=HISTORY)
        self.model = LockModel()
        self.now_ms = 1_000
        self.term = 1
        self.at = {ONE: 0, TWO: 0}  # how far each program is
        self.tokens: dict[tuple[str, bytes], int] = {}  # as each session was told
        self.granted: dict[bytes, int] = {}  # the newest token of each key
        self.expiring: list[ExpireSessions] = []  # proposed, and not committed yet
        self.programs = {id_: wishes[: extent.steps] for id_, wishes in PROGRAMS.items()}
        self.left = {"renew": extent.renewals, "leader": extent.leaders, "later": extent.times_later}
        self.left |= {ONE: 1, TWO: 1}  # how often each may be found dead
        self.said: set[StoreOutcome] = set()
        self.is_checking = False
        for id_, behavior in ((ONE, SessionBehavior.RELEASE), (TWO, SessionBehavior.DELETE)):
            delay_ns = DELAY_MS * 1_000_000 if id_ == ONE else 0
            session = Session(id_, "n1", b"uuid", 1, 0, lock_delay_ns=delay_ns, behavior=behavior)
            self._run(CreateSession(session))

    def choices(self) -> list[tuple[str, int]]:
        found = [(id_, 0) for id_, at in self.at.items() if at < len(self.programs[id_])]
        found += [("commit", place) for place in range(len(self.expiring))]
        found += [("dead", number) for number, id_ in enumerate((ONE, TWO)) if self.left[id_]]
        found += [(what, 0) for what in ("renew", "leader", "later") if self.left[what]]
        return found

    def do(self, what: str, which: int) -> None:
        match what:
            case "dead":
                id_ = (ONE, TWO)[which]
                self.left[id_] -= 1
                renewals = self.model.renewals.get(id_, 0)
                self.expiring.append(ExpireSessions(((id_, renewals),), self.term))
            case "commit":
                self._expire(self.expiring.pop(which))
            case "renew":
                self.left["renew"] -= 1
                self._run(NoteRemaining(((ONE, None),), self.term))
                if ONE in self.model.renewals:
                    self.model.renewals[ONE] += 1
            case "leader":
                self.left["leader"] -= 1
                self.term += 1
            case "later":
                self.left["later"] -= 1
                self.now_ms += STEP_MS
            case id_:
                self.at[id_] += 1
                self._wish(id_, self.programs[id_][self.at[id_] - 1])
        if self.is_checking:
            self._compare()

    def whole(self) -> str:
        """All that decides what can happen next, and what would be right then."""
        flags = self.now_ms, self.term, self.at, self.tokens, self.granted, self.left
        return repr((whole_of(self.machine), sorted(map(repr, self.expiring)), flags))

    # Inside.

    def _wish(self, session: str, wish: Wish) -> None:
        key, model, revision = wish.key, self.model, self.machine.applied + 1
        match wish.verb:
            case "acquire":
                expected = model.acquire(session, key, self.now_ms, revision)
                answer = self._run(Acquire(key, session.encode(), session))
                assert (answer.outcome, answer.extras) == expected, f"{session} {wish}: {answer}"
                if answer.outcome is DONE and answer.extras is not None:
                    token = answer.extras.token
                    is_new = token == revision
                    assert not is_new or token > self.granted.get(key, 0), "tokens of a key rise"
                    assert is_new or token == self.granted[key], "it holds the newest grant"
                    self.granted[key] = self.tokens[session, key] = token
            case "write":
                token = self.tokens.get((session, key), 0)
                outcome = self._run(Put(key, b"by " + session.encode(), if_token=token)).outcome
                assert outcome is model.write(key, token), f"{session} {wish} under {token}: {outcome}"
                is_late = token < self.granted.get(key, 0)
                assert not (is_late and outcome is DONE), "somebody who holds it no more has written"
            case "release":
                outcome = self._run(Release(key, b"", session)).outcome
                assert outcome is model.release(session, key), f"{session} {wish}: {outcome}"
            case "destroy":
                self._run(EndSessions((session,), EndCause.DESTROYED))
                model.end(session, self.now_ms)

    def _expire(self, expiry: ExpireSessions) -> None:
        ((id_, renewals),) = expiry.sessions
        answer = self._run(expiry)
        if expiry.term != self.term:
            assert answer.outcome is StoreOutcome.REFUSED, "by an earlier leader"
        elif self.model.renewals.get(id_) == renewals:
            self.model.end(id_, self.now_ms)

    def _run(self, command: StoreCommand) -> StoreAnswer:
        index = self.machine.applied + 1
        data = encode_request(StoreRequest(command, 0))
        sent = entry(index, data, term=self.term, time_ms=self.now_ms)
        answer = decode_answer(self.machine.apply(sent))
        self.said.add(answer.outcome)
        return answer

    def _compare(self) -> None:
        space, sessions, model = self.machine.keyspaces[0], self.machine.sessions, self.model
        assert {each.id: each.renewals for each in sessions.all()} == model.renewals
        there = {}
        for key, record in space.table.items(b"", None):
            token = record.extras.token if record.extras is not None else 0
            there[key] = Lock(record.lease, record.lock_index, token, record.fence)
        assert there == model.locks
        for key in model.gone:
            assert space.fence_of(key) >= model.gone[key][1], "a fence fell when its key went"
        for id_ in (ONE, TWO):
            held = [key for key, lock in sorted(model.locks.items()) if lock.holder == id_]
            assert space.held.of(id_) == held
            assert self.machine.keys_held_by(id_) == len(held)
        for key, until_ms in model.free_at.items():
            left_ms = max(until_ms - self.now_ms, 0)
            assert space.delays.left_ms(key, self.now_ms) == left_ms, "a delay was cut short, or goes on"


def whole_of(machine: StoreMachine) -> tuple[object, ...]:
    space, sessions = machine.keyspaces[0], machine.sessions
    tombstones = list(space.tombstones.items(b"", None))
    floor = space.history.floor
    history = (floor, space.history.after(floor), space.revision, space.fence_floor)
    held = [space.held.of(id_) for id_ in (ONE, TWO)]
    ends = sorted(sessions.ended.values(), key=lambda ended: ended.session.id)
    return (
        *(machine.applied, list(space.table.items(b"", None)), tombstones, history, held),
        *(sorted(space.delays.all()), sessions.all(), ends, sessions.revision, sessions.floor),
    )


def restored(machine: StoreMachine) -> StoreMachine:
    """Another server that starts from its snapshot."""
    other = StoreMachine(bounds=HISTORY)
    other.restore(other.read(machine.snapshot()))
    return other


def explored(extent: Extent) -> Iterator[LockWorld]:
    """Each state once; a failure names its way. What cannot be gone on from where one stands is gone to from
    the start."""
    met: dict[int, None] = {}
    paths: list[tuple[tuple[str, int], ...]] = [()]
    while paths:
        path = paths.pop()
        world = LockWorld(extent)
        try:
            for step in path[:-1]:
                world.do(*step)
            world.is_checking = True
            for step in path[-1:]:
                world.do(*step)
            while (whole := hash(world.whole())) not in met:
                met[whole] = None
                yield world
                choices = world.choices()
                if not choices:
                    break
                paths += [(*path, step) for step in choices[1:]]
                path = (*path, choices[0])
                world.do(*choices[0])
        except AssertionError as error:
            error.add_note(f"after {path}")
            raise
