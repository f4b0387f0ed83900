"""Workload: holders of a few locks. Each takes a session and a lock, writes under the token of its grant, and
then releases, destroys its session, dies, or stands still past its TTL and writes on when it wakes.

In the end each takes every lock once more, with a session that lives: nothing is held for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from adsum.kv import KeyVerb, KeyWrite
from adsum.now import MILLISECOND, SECOND
from adsum.session import Session, SessionDestroy
from adsum.testing.key_agents import KeyAgent
from adsum.testing.lock_clients import LockClient
from adsum.testing.lock_requests import LockRequest
from adsum.testing.lock_world import LockWorld

FIRST_NUMBER = 600
HOLDERS_PER_AGENT = 2
LOCKS = (b"lock/a", b"lock/b")
REGISTERS = {b"lock/a": b"data/a", b"lock/b": b"data/b"}  # that only the holder ought to write
WRITES_MAX = 6
WAKES_AFTER_TTLS = (0.8, 7.0)
ENDINGS = ("release", "release", "destroy", "die", "stand still", "stand still", "delete")


def holders(world: LockWorld, random: Random) -> Sequence[LockHolder]:
    agents = [agent for agent in world.agents for _ in range(HOLDERS_PER_AGENT)]
    return [
        LockHolder(world, agent, FIRST_NUMBER + place, Random(random.getrandbits(64)))
        for place, agent in enumerate(agents)
    ]


class LockHolder(LockClient):
    def __init__(self, world: LockWorld, agent: KeyAgent, number: int, random: Random) -> None:
        super().__init__(world, agent, number, random)
        self._to_take = list(LOCKS)  # in the end
        self._is_ending = False
        self.soon(self._begin, ns_max=2 * SECOND)

    def _begin(self) -> None:
        self._is_ending = self.has_stopped
        if self._is_ending and not self._to_take:
            self.session = None
            self.is_settled = True
        elif self.session is not None:
            self._compete(self.session)
        else:
            self.begin_session(self._compete)

    def _compete(self, session: Session) -> None:
        key = self._to_take[0] if self._is_ending else self.random.choice(LOCKS)
        self._acquire(session, key)

    def _acquire(self, session: Session, key: bytes) -> None:
        def answered(request: LockRequest) -> None:
            if self.session is not session or self.is_gone(request):
                self.session = None
                self.soon(self._begin)
            elif request.is_done:
                assert request.answer is not None, "it is done"
                assert request.answer.extras is not None, "a grant has a token"
                self._hold(session, key, request.answer.extras.token)
            elif self.has_stopped and not self._is_ending:
                self.soon(self._begin)
            else:
                self.soon(lambda: self._acquire(session, key))

        self.ask(KeyWrite(KeyVerb.ACQUIRE, key, self.value(), session=session.id), answered)

    def _hold(self, session: Session, key: bytes, token: int) -> None:
        if self._is_ending:
            self._release(session, key)
        else:
            writes = self.random.randrange(WRITES_MAX)
            self._write(session, key, token, writes)

    def _write(self, session: Session, key: bytes, token: int, left: int) -> None:
        if not left:
            self._end(session, key, token)
            return
        target = key if self.random.random() < 0.5 else REGISTERS[key]
        write = KeyWrite(KeyVerb.PUT, target, self.value(), if_token=token)
        self.ask(write, lambda _request: self.soon(lambda: self._write(session, key, token, left - 1)))

    def _end(self, session: Session, key: bytes, token: int) -> None:
        match self.random.choice(ENDINGS):
            case "release":
                self._release(session, key)
            case "destroy":
                self.session = None
                self.ask(SessionDestroy(session.id), lambda _request: self.soon(self._begin))
            case "delete":
                self.ask(KeyWrite(KeyVerb.DELETE, key), lambda _request: self.soon(self._begin))
            case "die":
                self.session = None
                self.soon(self._begin, ns_max=3 * SECOND)
            case _:
                self._stand_still(session, key, token)

    def _release(self, session: Session, key: bytes) -> None:
        def answered(request: LockRequest) -> None:
            if request.answer is None and self.session is session:
                self.soon(lambda: self._release(session, key))
                return
            if self._is_ending and self._to_take and self._to_take[0] == key:
                self._to_take.pop(0)
            self.soon(self._begin)

        self.ask(KeyWrite(KeyVerb.RELEASE, key, self.value(), session=session.id), answered)

    def _stand_still(self, session: Session, key: bytes, token: int) -> None:
        """It renews nothing, and goes on as if nothing had happened."""
        self.session = None
        pause_ns = int(session.ttl_ms * MILLISECOND * self.random.uniform(*WAKES_AFTER_TTLS))

        def wake() -> None:
            write = KeyWrite(KeyVerb.PUT, key, self.value(), if_token=token)
            self.ask(write, lambda _request: give_back())

        def give_back() -> None:
            release = KeyWrite(KeyVerb.RELEASE, key, self.value(), session=session.id)
            self.ask(release, lambda _request: self.soon(self._begin))

        self.world.call(self.world.now_ns + pause_ns, wake)
