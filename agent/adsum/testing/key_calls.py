"""One request of a client to its agent, from when it is asked until it is over.

It is over when it is answered, when the client hangs up, and when the agent's process ends. What the client
was told is in its operation: an answer as it is; nothing, if it may have been done or not; or that it was
certainly not done.
"""

from __future__ import annotations

from collections.abc import Callable

from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeysFound, KeyWrite, StoreAnswer
from adsum.testing.checkers import demand
from adsum.testing.judged_request import JudgedRequest
from adsum.testing.key_agents import KeyAgent


class KeyCall:
    def __init__(
        self,
        agent: KeyAgent,
        client: int,
        asked: KeyWrite | KeyRead,
        ended: Callable[[KeyCall], None],
        *,
        expected: bytes = b"",
    ) -> None:
        """`ended` is called unless it is given up."""
        self.is_over = False
        self._agent = agent
        self._ended = ended
        self._world = world = agent.world
        self.operation = JudgedRequest(client, asked, world.now_ns, expected)
        world.operations.append(self.operation)
        world.raft.table.began(self.operation.name, self)
        world.raft.told("ask", client, asked)
        agent.awaits(self)
        agent.ask(asked, self)

    def __call__(self, outcome: StoreAnswer | KeysFound | KeyRefusal) -> None:
        """It may have been given up just before."""
        operation, world = self.operation, self._world
        demand(operation.outcome is None and not operation.is_refused, f"{operation} was answered twice")
        if self.is_over:
            return
        if isinstance(outcome, KeyRefusal):
            world.raft.told("refused", operation.client, outcome.cause.name, outcome.sentence)
            operation.is_refused = outcome.cause is not KeyCause.UNKNOWN
        else:
            world.raft.told("answer", operation.client, outcome)
            operation.outcome, operation.newest = outcome, world.written.newest
            operation.returned_ns = world.now_ns
        self._end()
        self._ended(self)

    def lost(self) -> None:
        self._end()
        self._ended(self)

    def give_up(self) -> None:
        self._end()
        self._agent.give_up(self)

    def _end(self) -> None:
        self.is_over = True
        self._agent.awaits_no_more(self)
        self._world.raft.table.ended(self.operation.name, self)
