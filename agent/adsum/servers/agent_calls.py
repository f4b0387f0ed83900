"""What client agents ask of a server, on the servers' port: keys, for clients of theirs.

Members of the cluster are answered, and whoever holds its key. They are many, so they have connections, calls
and room of their own, and what servers do among themselves is not held up by them. A read that waits for a
change is a call that is answered late; it ends when its caller cancels it or hangs up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from adsum import forwarded
from adsum.kv import KeyCause
from adsum.net.call_server import CallLimits, CallServer
from adsum.net.calls import Declined
from adsum.net.introduction import Peer
from adsum.net.streams import AgentLines
from adsum.net.unread import UnreadBytes
from adsum.servers.agent_questions import AgentQuestions, AgentRefusal

LINES_MAX = 8_192
LINES_PER_HOST_MAX = 1_024  # behind one address there may be many
CALLS_MAX = 65_536  # most of them wait for a change
CALLS_PER_LINE_MAX = 16_384  # as many as an agent's API has connections
UNREAD_BYTES_MAX = 64 * 1024 * 1024
UNREAD_PER_HOST_BYTES_MAX = 16 * 1024 * 1024

NOT_A_MEMBER = "this server does not know the agent that asks it as a member"


class KnowsAgents(Protocol):
    def is_agent(self, caller: Peer) -> bool:
        """A member that is present, at its own address."""
        ...


class AgentCalls:
    """`CallServer` asks this."""

    def __init__(self, questions: AgentQuestions, knows: KnowsAgents) -> None:
        self.questions = questions
        self.strangers = 0  # whose calls were declined
        self._knows = knows
        limits = CallLimits(
            calls_max=CALLS_MAX,
            calls_per_connection_max=CALLS_PER_LINE_MAX,
            question_bytes_max=forwarded.QUESTION_BYTES_MAX,
        )
        self._calls = CallServer(self, limits)
        self._unread = UnreadBytes(bytes_max=UNREAD_BYTES_MAX, per_host_bytes_max=UNREAD_PER_HOST_BYTES_MAX)
        self.call_counters, self.unread_counters = self._calls.counters, self._unread.counters

    def lines(self, lines_max: int = LINES_MAX) -> AgentLines:
        return AgentLines(self._calls, self._unread, lines_max, min(LINES_PER_HOST_MAX, lines_max))

    def begin(
        self, caller: Peer, method: str, body: bytes, answered: Callable[[bytes | Declined], None]
    ) -> Callable[[], None]:
        if not (caller.is_authenticated or self._knows.is_agent(caller)):
            self.strangers += 1
            answered(Declined(forwarded.code_of(KeyCause.NO_LEADER), NOT_A_MEMBER))
            return nothing_to_give_up

        def told(outcome: bytes | AgentRefusal) -> None:
            if isinstance(outcome, AgentRefusal):
                answered(Declined(outcome.code, outcome.sentence))
            else:
                answered(outcome)

        asked = self.questions.begin(caller.identity.node_id, method, body, told)
        return partial(self.questions.give_up, asked)

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Nothing is told without an answer."""


def nothing_to_give_up() -> None:
    pass
