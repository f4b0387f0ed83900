"""A server: the cores that every agent has, and consensus beside them, behind the same four verbs.

It is the second complete type next to the client (`client_agent`), so nothing in either is optional. What
they have in common is one value, the `AgentCore`. What concerns consensus comes in here and goes out here:

    command(now, request, Proposal(…))  on any server; ends with one Reply that carries what was answered
    receive(now, message)               another server's message, what became of an effect of consensus, or a
                                        server's question that only the leader can answer
    tick(now)                           for whichever part it is time

An outcome that nobody knows is a refusal with a cause of its own: it is not certain that nothing was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from adsum.agent.commands import Message
from adsum.agent.core import AgentCore
from adsum.agent.deadlines import earliest, is_due
from adsum.agent.effects import Effect
from adsum.agent.saved_catalog import SavedCopy
from adsum.consensus.commands import (
    ConfirmRead,
    ProposalUrgency,
    Propose,
    ProposeChange,
    StopServing,
    SubmitProposal,
    SubmitRead,
)
from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import AnswerRequests, ConsensusEffect
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.consensus.reports import ConsensusReport
from adsum.consensus.requests import PASSING
from adsum.dedup import DedupKey
from adsum.effects import AnsweredWith, AnyCommand, Refusal, RefusalCause, Reply
from adsum.frozen import dataclass
from adsum.now import Now
from adsum.raft.errors import RaftRefused
from adsum.raft.messages import Message as RaftMessage
from adsum.raft.types import Term


@dataclass(frozen=True, slots=True)
class Proposal(AnsweredWith[bytes]):
    """Answered with what the state machine said. With a dedup key it is tried again where that is safe; with
    a term it is for this server only, and if it leads exactly that one: what a leader does for sessions."""

    data: bytes
    dedup: DedupKey | None = None
    term: Term | None = None


@dataclass(frozen=True, slots=True)
class ConsistentRead(AnsweredWith[int]):
    """Done when the state machine here holds all that was acknowledged before; answered with the index up to
    which the leader was confirmed."""


@dataclass(frozen=True, slots=True)
class LeadersRead(AnsweredWith[int]):
    """As a consistent read, of this server only, and if it leads."""


@dataclass(frozen=True, slots=True)
class LeaderAsked:
    """Another server's `AskLeader`, which takes us for the leader; answered by one `AnswerServer`."""

    ticket: int
    data: bytes | None  # None: it is to confirm a read
    dedup: DedupKey | None = None


@dataclass(frozen=True, slots=True)
class AnswerServer:
    """To what `LeaderAsked(ticket, …)` asked; there it becomes `LeaderAnswered`."""

    ticket: int
    outcome: bytes | int | Exception


@dataclass(frozen=True, slots=True)
class _Asked:
    """The token of another server's question; that of our own clients is the number of their request."""

    ticket: int


ConsensusMessage: TypeAlias = RaftMessage | ConsensusReport | LeaderAsked
ServerMessage: TypeAlias = "Message | ConsensusMessage"
ServerEffect: TypeAlias = Effect | ConsensusEffect | AnswerServer  # never `AnswerRequests`: that ends here


class ConsensusPart:
    """Consensus as a server has it; the simulation also runs it without the rest of an agent."""

    def __init__(self, core: ConsensusCore) -> None:
        self.core = core

    def command(
        self, now: Now, request: int, command: Proposal | ConsistentRead | LeadersRead
    ) -> list[ServerEffect]:
        if isinstance(command, LeadersRead):
            return self._try(now, ConfirmRead(request))
        if isinstance(command, ConsistentRead):
            return self._try(now, SubmitRead(request))
        if command.term is not None:
            urgency = ProposalUrgency.SESSION
            return self._try(now, Propose(command.data, request, command.dedup, command.term, urgency))
        return self._try(now, SubmitProposal(command.data, request, command.dedup))

    def receive(self, now: Now, message: ConsensusMessage) -> list[ServerEffect]:
        if isinstance(message, RaftMessage):
            return _answered(self.core.receive(now, message))
        if not isinstance(message, LeaderAsked):
            return _answered(self.core.report(now, message))
        token = _Asked(message.ticket)
        if message.data is None:
            return self._try(now, ConfirmRead(token))
        return self._try(now, Propose(message.data, token, message.dedup))

    def tick(self, now: Now) -> list[ServerEffect]:
        return _answered(self.core.tick(now))

    def stop(self, now: Now) -> list[ServerEffect]:
        return _answered(self.core.command(now, StopServing()))

    def deadline(self) -> int | None:
        return self.core.deadline()

    def _try(
        self, now: Now, request: SubmitProposal | SubmitRead | Propose | ProposeChange | ConfirmRead
    ) -> list[ServerEffect]:
        try:
            return _answered(self.core.command(now, request))
        except (RaftRefused, Unavailable) as refused:
            return [_answer(request.token, refused)]


class ServerAgent:
    def __init__(self, agent: AgentCore, consensus: ConsensusPart) -> None:
        self.agent = agent
        self.consensus = consensus

    def start(self, now: Now) -> Sequence[ServerEffect]:
        return self.agent.start(now)

    def recall(self, now: Now, copy: SavedCopy) -> Sequence[ServerEffect]:
        return self.agent.recall(now, copy)

    def command(self, now: Now, request: int, command: AnyCommand) -> Sequence[ServerEffect]:
        if isinstance(command, Proposal | ConsistentRead | LeadersRead):
            return self.consensus.command(now, request, command)
        return self.agent.command(now, request, command)

    def receive(self, now: Now, message: ServerMessage) -> Sequence[ServerEffect]:
        if isinstance(message, RaftMessage | LeaderAsked | ConsensusReport):
            return self.consensus.receive(now, message)
        return self.agent.receive(now, message)

    def tick(self, now: Now) -> Sequence[ServerEffect]:
        effects: list[ServerEffect] = []
        if is_due(now, self.agent.deadline()):
            effects += self.agent.tick(now)
        if is_due(now, self.consensus.deadline()):
            effects += self.consensus.tick(now)
        return effects

    def stop(self, now: Now) -> Sequence[ServerEffect]:
        """An orderly end is near; it may come with `HandedOver`."""
        return [*self.agent.stop(now), *self.consensus.stop(now)]

    def deadline(self) -> int | None:
        return earliest(self.agent.deadline(), self.consensus.deadline())


def _answered(effects: Sequence[ConsensusEffect]) -> list[ServerEffect]:
    """Where consensus answers, the reply stands in the same place."""
    wanted: list[ServerEffect] = []
    for effect in effects:
        if type(effect) is AnswerRequests:
            wanted += [_answer(token, outcome) for token, outcome in effect.answers]
        else:
            wanted.append(effect)
    return wanted


def _answer(token: int | _Asked, outcome: bytes | int | Exception) -> Reply | AnswerServer:
    if isinstance(token, _Asked):
        # Whoever asked may try again, wherever the leader is by then.
        passing = isinstance(outcome, PASSING)
        return AnswerServer(token.ticket, Unavailable(str(outcome)) if passing else outcome)
    if not isinstance(outcome, Exception):
        return Reply(token, None, outcome)
    is_open = isinstance(outcome, OutcomeUnknown)
    return Reply(token, Refusal(RefusalCause.UNCERTAIN if is_open else RefusalCause.FAILED, str(outcome)))
