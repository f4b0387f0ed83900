"""Proposals on their way into the log, and who waits for what becomes of them.

While something is on its way to the quorum, what comes meanwhile gathers, and enters the log together when
that is committed: one write on each disk and one message to each follower then do for all. Whoever comes
alone meets nothing and waits for nothing. Where a quorum takes longer than a moment (another site, a slow
disk) the next leave before it has answered.

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
from adsum.now import MILLISECOND
from adsum.raft.errors import NotLeader, RaftRefused, TooMuchUncommitted
from adsum.raft.types import Term

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore

GATHER_NS_MAX = 5 * MILLISECOND  # some rounds of busy disks and the network of one site
GATHERED_BYTES_MAX = 256 << 10
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
        self.gathered: list[QueuedProposal] = []
        self.gathered_ns = 0  # when the first of those that have not left came; 0: there is none
        self._gathered_bytes = 0
        self._left_index = 0  # of the log: up to there entries are on their way to the quorum
        self._gather_until_ns = 0  # or until those are committed
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
        """False if it waits: then nothing was done yet."""
        core = self._core
        if core.is_stopping or not core.storing.has_room:
            core.check_open()
        if self.gathers:
            self.gathered_ns = self.gathered_ns or core.now_ns
            self.gathered.append(QueuedProposal(data, token, dedup, term))
            self._gathered_bytes += len(data)
            return False
        if self.gathered:
            self.admit_gathered()
        if not self.queue.count and len(self._under_way) < self._under_way_max:
            try:
                self.waiting.add(core.raft.propose(data, term, dedup), token, core.answers)
            except TooMuchUncommitted:
                pass
            else:
                return True
        self._enqueue(QueuedProposal(data, token, dedup, term), urgency)
        return False

    @property
    def gathers(self) -> bool:
        """What comes now waits for what is under way."""
        core = self._core
        return (
            core.raft.replica.log.commit < self._left_index
            and core.now_ns < self._gather_until_ns
            and self._gathered_bytes < GATHERED_BYTES_MAX
            and len(self.gathered) + len(self._under_way) < self._under_way_max
            and not self.queue.count
        )

    @property
    def due_ns(self) -> int | None:
        """When what has gathered, or will have, waits no longer."""
        core, until_ns = self._core, self._gather_until_ns
        is_under_way = core.raft.replica.log.commit < self._left_index and core.now_ns < until_ns
        return until_ns if self.gathered or is_under_way else None

    def left(self) -> None:
        """All that is in the log did, to the disk and to others: what comes from now on gathers."""
        self._left_index = self._core.raft.replica.log.last_index
        self._gather_until_ns = self._core.now_ns + GATHER_NS_MAX
        self.gathered_ns = 0

    def admit_gathered(self) -> None:
        gathered, self.gathered, self._gathered_bytes = self.gathered, [], 0
        for proposal in gathered:
            if self.queue.count or not self._enter(proposal):
                try:
                    self._enqueue(proposal, ProposalUrgency.WRITE)
                except (RaftRefused, Unavailable, QueueFull) as error:
                    self._core.answers.append((proposal.token, error))

    def admit(self) -> None:
        """Of those that wait for room, as many as there is room for."""
        queue = self.queue
        while queue.count and len(self._under_way) < self._under_way_max:
            if not self._enter(queue.first()):
                return
            queue.take()

    def turn_away(self, why: Exception) -> None:
        """All that wait: nothing was done."""
        answers, gathered, self.gathered, self._gathered_bytes = self._core.answers, self.gathered, [], 0
        self._left_index = 0
        answers += [(proposal.token, why) for proposal in gathered]
        while self.queue.count:
            answers.append((self.queue.take().token, why))

    def _enter(self, proposal: QueuedProposal) -> bool:
        """Or it is refused. False if there is no room yet."""
        core = self._core
        data, token, dedup, term = proposal
        if proposal.is_over:
            return True
        try:
            core.check_open()
            self.waiting.add(core.raft.propose(data, term, dedup), token, core.answers)
        except TooMuchUncommitted:
            return False
        except (RaftRefused, Unavailable) as error:
            core.answers.append((token, error))
        else:
            if type(token) is HeldRequest:
                token.is_tried = True
        return True

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
