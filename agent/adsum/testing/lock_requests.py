"""One thing that a client of sessions, locks and transactions asked, and all that it was told, for judges;
and the call that asks it of an agent.

It is over when it is answered, when the client hangs up, and when the agent's process ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from adsum.kv import KeyCause, KeyRefusal, KeyVerb, KeyWrite, StoreAnswer
from adsum.session import Session, SessionCreate, SessionDestroy
from adsum.testing.checkers import demand
from adsum.testing.key_agents import KeyAgent
from adsum.testing.linearizability import NEVER
from adsum.transactions import Transaction


class SessionRenewal(NamedTuple):
    id: str


Asked: TypeAlias = KeyWrite | SessionCreate | SessionDestroy | Transaction | SessionRenewal

NAMES = {KeyVerb.ACQUIRE: "acquire", KeyVerb.RELEASE: "release", KeyVerb.DELETE: "delete"}
OPERATIONS = (
    *("create session", "destroy session", "renew", "acquire", "release", "fenced write", "delete"),
    "transaction",
)


@dataclass(slots=True, eq=False)
class LockRequest:
    client: int
    asked: Asked
    invoked_ns: int
    returned_ns: int = NEVER
    answer: StoreAnswer | None = None
    is_renewed: bool = False
    is_gone: bool = False  # the session that was to be renewed
    is_refused: bool = False  # certainly it was not done

    @property
    def name(self) -> str:
        match self.asked:
            case SessionCreate():
                return "create session"
            case SessionDestroy():
                return "destroy session"
            case SessionRenewal():
                return "renew"
            case Transaction():
                return "transaction"
            case _:
                return NAMES.get(self.asked.verb, "fenced write")

    @property
    def is_done(self) -> bool:
        return self.answer is not None and self.answer.outcome == 0


class LockCall:
    def __init__(
        self,
        agent: KeyAgent,
        requests: list[LockRequest],
        client: int,
        asked: Asked,
        ended: Callable[[LockRequest], None],
    ) -> None:
        """`ended` is called unless it is given up."""
        self.is_over = False
        self._agent = agent
        self._ended = ended
        self._world = world = agent.world
        self.request = LockRequest(client, asked, world.now_ns)
        requests.append(self.request)
        world.raft.table.began(self.request.name, self)
        world.raft.told("ask", client, asked)
        agent.awaits(self)
        if isinstance(asked, SessionRenewal):
            agent.renew(asked.id, self)
        else:
            agent.ask(asked, self)

    def __call__(self, outcome: StoreAnswer | Session | KeyRefusal | None) -> None:
        """It may have been given up just before."""
        request, world = self.request, self._world
        if self.is_over:
            return
        demand(request.returned_ns == NEVER, f"{request} was answered twice")
        if isinstance(outcome, KeyRefusal):
            world.raft.told("refused", request.client, outcome.cause.name, outcome.sentence)
            request.is_refused = outcome.cause is not KeyCause.UNKNOWN
        else:
            world.raft.told("answer", request.client, outcome)
            request.returned_ns = world.now_ns
            request.answer = outcome if isinstance(outcome, StoreAnswer) else None
            request.is_renewed, request.is_gone = isinstance(outcome, Session), outcome is None
        self._end()
        self._ended(request)

    def lost(self) -> None:
        self._end()
        self._ended(self.request)

    def give_up(self) -> None:
        self._end()
        self._agent.give_up(self)

    def _end(self) -> None:
        self.is_over = True
        self._agent.awaits_no_more(self)
        self._world.raft.table.ended(self.request.name, self)
