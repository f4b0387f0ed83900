"""A client of sessions and locks in the simulated world, with what all workloads share: it asks its agent one
thing at a time, hangs up now and then, and keeps its session alive through any agent for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from adsum.kv import StoreOutcome
from adsum.now import MILLISECOND, SECOND
from adsum.session import Session, SessionBehavior, SessionCreate
from adsum.sessions.judging import SERF_HEALTH
from adsum.testing.key_agents import KeyAgent
from adsum.testing.lock_requests import Asked, LockCall, LockRequest, SessionRenewal
from adsum.testing.lock_world import LockWorld

HANGS_UP_SHARE = 0.03
PATIENCE_NS_MAX = SECOND  # of those who hang up
TTLS_MS = (1_000, 2_000, 2_000, 7_000)  # of which the last is long to the keeper here
DELAYS_MS = (0, 800, 3_000)
REPEATED_SHARE = 0.2  # of renewals are sent twice, through two agents

Ended = Callable[[LockRequest], None]


class LockClient:
    def __init__(self, world: LockWorld, agent: KeyAgent, number: int, random: Random) -> None:
        """Its number is its own in the world."""
        self.is_settled = False
        self.world = world
        self.agent = agent
        self.number = number
        self.random = random
        self.session: Session | None = None
        self.has_stopped = False
        self._sessions = 0
        self._written = 0

    def stop(self) -> None:
        self.has_stopped = True

    def ask(self, asked: Asked, then: Ended) -> None:
        """`then` hears of it once, also when it hung up."""
        if not self.agent.is_up:
            self.soon(lambda: self.ask(asked, then))
            return
        is_over = [False]

        def ended(request: LockRequest) -> None:
            if not is_over[0]:
                is_over[0] = True
                then(request)

        def hang_up() -> None:
            if not call.is_over:
                call.give_up()
                ended(call.request)

        call = LockCall(self.agent, self.world.requests, self.number, asked, ended)
        if self.random.random() < HANGS_UP_SHARE and not self.has_stopped:
            self.world.call(self.world.now_ns + self.random.randrange(PATIENCE_NS_MAX), hang_up)

    def soon(self, action: Callable[[], None], *, ns_max: int = 300 * MILLISECOND) -> None:
        self.world.call(self.world.now_ns + self.random.randrange(1, ns_max), action)

    def value(self) -> bytes:
        """No two requests have the same."""
        self._written += 1
        return b"%d.%d" % (self.number, self._written)

    def begin_session(self, then: Callable[[Session], None]) -> None:
        """A new one, as often as it takes."""
        random = self.random
        self._sessions += 1
        session = Session(
            *(f"{self.number}-{self._sessions}", f"node-{self.agent.host.index}", self.agent.node_id, 1, 1),
            ttl_ms=random.choice(TTLS_MS),
            lock_delay_ns=random.choice(DELAYS_MS) * MILLISECOND,
            behavior=SessionBehavior.DELETE if random.random() < 0.15 else SessionBehavior.RELEASE,
            node_checks=(SERF_HEALTH,) if random.random() < 0.5 and not self.has_stopped else (),
        )

        def created(request: LockRequest) -> None:
            if request.is_done:
                self.session = session
                self._renew_on(session)
                then(session)
            else:
                self.soon(lambda: self.begin_session(then))

        self.ask(SessionCreate(session), created)

    def is_gone(self, request: LockRequest) -> bool:
        """The session with which that was asked."""
        return request.answer is not None and request.answer.outcome is StoreOutcome.NO_SESSION

    def _renew_on(self, session: Session) -> None:
        """In time, as long as it is this client's."""
        if self.session is not session:
            return
        agents = [agent for agent in self.world.agents if agent.is_up]
        if agents:
            self._renew(self.random.choice(agents), session)
            if self.random.random() < REPEATED_SHARE:
                self._renew(self.random.choice(agents), session)
        pause_ns = int(session.ttl_ms * MILLISECOND * self.random.uniform(0.2, 0.6))
        self.world.call(self.world.now_ns + pause_ns, partial(self._renew_on, session))

    def _renew(self, agent: KeyAgent, session: Session) -> None:
        def ended(request: LockRequest) -> None:
            if request.is_gone and self.session is session:
                self.session = None

        LockCall(agent, self.world.requests, self.number, SessionRenewal(session.id), ended)
