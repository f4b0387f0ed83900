"""Proposals on their way into the log, and who waits for what becomes of them.

So many may be under way at once, which keeps disk and network busy, and makes whoever comes next wait for no
more than these. The others wait in one queue until entries are applied and there is room; each agent that
accepts requests gets the same share of it, in turns, and its own proposals in their order. So one that floods
waits behind itself, and costs another one the time of what is under way. What ends or renews a session goes
first.

No agent may have more waiting than there is room left: one alone gets half of the queue, two a third each,
and somebody new always finds room. Past that it is told to come again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

from adsum.consensus.commands import ProposalUrgency, Token
from adsum.consensus.errors import QueueFull, Unavailable
from adsum.consensus.requests import HeldRequest
from adsum.consensus.waiting import Proposals
from adsum.dedup import DedupKey
from adsum.mutable import dataclass
from adsum.raft.errors import NotLeader, RaftRefused, TooMuchUncommitted
from adsum.raft.types import Term

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore

FULL = "as many writes of this agent wait for room in the log as may; ask again in a moment"
HERE = ""  # what carries no dedup key is this server's own


@dataclass(slots=True)
class ProposingCounters:
    queued: int = 0  # that had to wait for room
    refused: int = 0  # for want of room in the queue


class QueuedProposal(NamedTuple):
    data: bytes
    token: Token
    dedup: DedupKey | None
    term: Term | None

    @property
    def is_over(self) -> bool:
        """Nobody waits for it any more."""
        return type(self.token) is HeldRequest and self.token.is_over


class Proposing:
    def __init__(self, core: ConsensusCore) -> None:
        settings = core.settings
        self.counters = ProposingCounters()
        self.waiting = Proposals()
        self.queue = ProposalQueue(settings.proposals_queued_max, settings.proposals_queued_bytes_max)
        self._core = core
        self._under_way = self.waiting.by_index
        self._under_way_max = settings.proposals_under_way_max

    def propose(
        self,
        data: bytes,
        token: Token,
        dedup: DedupKey | None,
        term: Term | None = None,
        urgency: ProposalUrgency = ProposalUrgency.WRITE,
    ) -> bool:
        """False if it waits for room: then nothing was done yet."""
        core = self._core
        if core.is_stopping or not core.storing.has_room:
            core.check_open()
        if not self.queue.count and len(self._under_way) < self._under_way_max:
            try:
                self.waiting.add(core.raft.propose(data, term, dedup), token, core.answers)
            except TooMuchUncommitted:
                pass
            else:
                return True
        self._enqueue(QueuedProposal(data, token, dedup, term), urgency)
        return False

    def admit(self) -> None:
        """As many as there is room for."""
        core, queue = self._core, self.queue
        while queue.count and len(self._under_way) < self._under_way_max:
            data, token, dedup, term = first = queue.first()
            if not first.is_over:
                try:
                    core.check_open()
                    self.waiting.add(core.raft.propose(data, term, dedup), token, core.answers)
                except TooMuchUncommitted:
                    return
                except (RaftRefused, Unavailable) as error:
                    core.answers.append((token, error))
                else:
                    if type(token) is HeldRequest:
                        token.is_tried = True
            queue.take()

    def turn_away(self, why: Exception) -> None:
        """All that wait: nothing was done."""
        while self.queue.count:
            self._core.answers.append((self.queue.take().token, why))

    def _enqueue(self, proposal: QueuedProposal, urgency: ProposalUrgency) -> None:
        if not self._core.is_leader:
            raise NotLeader(f"the leader is {self._core.leader}")
        client = proposal.dedup.client if proposal.dedup is not None else HERE
        if not self.queue.has_room(client, len(proposal.data)):
            self.counters.refused += 1
            raise QueueFull(FULL)
        self.counters.queued += 1
        self.queue.add(client, proposal, urgency)


class _Waiting:
    """Of one agent, of one urgency."""

    __slots__ = ("bytes", "proposals")

    def __init__(self) -> None:
        self.proposals: deque[QueuedProposal] = deque()
        self.bytes = 0


class ProposalQueue:
    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.count = 0
        self.bytes = 0
        self._count_max = count_max
        self._bytes_max = bytes_max
        # By agent, whose turn is next first.
        self._agents: tuple[OrderedDict[str, _Waiting], ...] = tuple(OrderedDict() for _ in ProposalUrgency)

    def has_room(self, client: str, size: int) -> bool:
        count = bytes_ = 0
        for agents in self._agents:
            waiting = agents.get(client)
            if waiting is not None:
                count, bytes_ = count + len(waiting.proposals), bytes_ + waiting.bytes
        is_short = bytes_ + size <= self._bytes_max - self.bytes or not bytes_
        return count < self._count_max - self.count and is_short

    def add(self, client: str, proposal: QueuedProposal, urgency: ProposalUrgency) -> None:
        agents = self._agents[urgency]
        waiting = agents.get(client)
        if waiting is None:
            waiting = agents[client] = _Waiting()
        waiting.proposals.append(proposal)
        waiting.bytes += len(proposal.data)
        self.count += 1
        self.bytes += len(proposal.data)

    def first(self) -> QueuedProposal:
        _client, waiting = next(iter(self._next_agents().items()))
        return waiting.proposals[0]

    def take(self) -> QueuedProposal:
        """The first; the next one is another agent's, if one has any."""
        agents = self._next_agents()
        client, waiting = next(iter(agents.items()))
        proposal = waiting.proposals.popleft()
        waiting.bytes -= len(proposal.data)
        self.count -= 1
        self.bytes -= len(proposal.data)
        if waiting.proposals:
            agents.move_to_end(client)
        else:
            del agents[client]
        return proposal

    def _next_agents(self) -> OrderedDict[str, _Waiting]:
        return next(agents for agents in self._agents if agents)
