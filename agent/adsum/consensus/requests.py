"""What a request to consensus goes through: here if we lead, else at the leader, and held while there is
nobody to ask.

A request may be tried again only when it is certain that nothing came of it, or when it carries a dedup key,
by which the state machine knows it again. What was tried and not answered, without one, is `OutcomeUnknown`.

Each is held for the same time, and each retry waits for the same moment: so what is due next is the first of
a queue, and no request needs a timer of its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from adsum.consensus.commands import Token
from adsum.consensus.effects import AskLeader
from adsum.consensus.errors import NoLeader, OutcomeUnknown, QueueFull, Stopping, Unavailable
from adsum.dedup import DedupKey
from adsum.mutable import dataclass
from adsum.now import MILLISECOND, SECOND
from adsum.raft import errors as raft
from adsum.raft.leader import check_proposal

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore
    from adsum.consensus.waiting import Answers

RETRY_NS = 50 * MILLISECOND  # while there is no leader, or it does not know it yet
NOT_ASKED = "", None  # any more
HELD_MAX = 16_384  # as many as the API has connections

# They pass: another server, or this one a little later, may take it. The others are the caller's mistake.
PASSING = (
    Unavailable,
    raft.NotLeader,
    raft.Transferring,
    raft.TermMoved,
    raft.TooMuchUncommitted,
    raft.TooManyReads,
)


@dataclass(slots=True)
class HeldCounters:
    forwarded: int = 0  # tries at a leader that is another server
    retried: int = 0
    doubtful: int = 0  # tries of which nobody knows what came
    run_out: int = 0  # not answered in time


class HeldRequest:
    """Also the token of its own tries, so it is made by the thousand and compared by identity."""

    __slots__ = ("data", "deadline_ns", "dedup", "is_doubtful", "is_over", "is_tried", "token", "why")

    def __init__(self, data: bytes | None, token: Token, dedup: DedupKey | None, deadline_ns: int) -> None:
        self.data = data  # None for a read
        self.token = token
        self.dedup = dedup
        self.deadline_ns = deadline_ns
        self.is_tried = False  # a try is under way
        self.is_doubtful = False  # of an earlier one nobody knows what came of it
        self.is_over = False
        self.why: Exception | None = None  # the last try came to nothing

    @property
    def is_repeatable(self) -> bool:
        return self.dedup is not None or self.data is None


class HeldRequests:
    def __init__(self, core: ConsensusCore) -> None:
        self.counters = HeldCounters()
        self._core = core
        self._hold_ns = int(core.settings.rpc_hold_timeout_s * SECOND)
        self._open: dict[Token, HeldRequest] = {}
        self._held: deque[HeldRequest] = deque()  # in the order of their deadlines
        self._retries: deque[tuple[int, HeldRequest]] = deque()
        self._asked: dict[int, tuple[str, HeldRequest]] = {}  # at which leader, by ticket
        self._reads_to_send: list[HeldRequest] = []  # in the next turn: who comes until then may join
        self._behind: list[tuple[int, HeldRequest]] = []  # reads whose index is not applied here yet
        self._ticket = 0
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def due_ns(self) -> int | None:
        if not self._held:
            return None
        deadline_ns = self._held[0].deadline_ns
        return min(self._retries[0][0], deadline_ns) if self._retries else deadline_ns

    @property
    def has_reads_to_send(self) -> bool:
        return bool(self._reads_to_send)

    def begin(self, data: bytes | None, token: Token, dedup: DedupKey | None, now_ns: int) -> None:
        if self._has_ended:
            raise Stopping("this server has stopped")
        if data is not None:  # wherever the leader is: else it would be sent there again and again
            check_proposal(data, dedup, self._core.settings.raft.entry_bytes_max)
        if len(self._open) >= HELD_MAX:
            raise QueueFull(f"{HELD_MAX} requests wait for an answer; ask again in a moment")
        request = HeldRequest(data, token, dedup, now_ns + self._hold_ns)
        self._open[token] = request
        self._held.append(request)
        self._try(request, now_ns, self._core.answers)

    def look(self, now_ns: int) -> None:
        """Whenever it is due."""
        is_late = bool(self._held) and self._held[0].deadline_ns <= now_ns
        while self._held and (self._held[0].is_over or self._held[0].deadline_ns <= now_ns):
            request = self._held.popleft()
            if not request.is_over:
                self._run_out(request, self._core.answers)
        if is_late:
            self._behind = [each for each in self._behind if not each[1].is_over]
        while self._retries and self._retries[0][0] <= now_ns:
            _due_ns, request = self._retries.popleft()
            if not request.is_over:
                self.counters.retried += 1
                self._try(request, now_ns, self._core.answers)

    def send_reads(self, now_ns: int, answers: Answers) -> None:
        """Once the turn of the reads is over, so that nobody joins a question that has left."""
        reads, self._reads_to_send = self._reads_to_send, []
        for request in reads:
            if request.is_over:
                continue
            try:
                self._ask(request, now_ns)
            except NoLeader as error:
                self.concluded(request, error, now_ns, answers)

    def concluded(
        self, request: HeldRequest, outcome: bytes | int | Exception, now_ns: int, answers: Answers
    ) -> None:
        """A try came to its end."""
        if request.is_over:
            return
        if isinstance(outcome, QueueFull) and not request.is_doubtful:
            self._end(request, outcome, answers)
        elif isinstance(outcome, PASSING) or (isinstance(outcome, OutcomeUnknown) and request.is_repeatable):
            request.is_tried, request.why = False, outcome
            if isinstance(outcome, OutcomeUnknown) and request.data is not None:
                self.counters.doubtful += 1
                request.is_doubtful = True
                assert request.dedup is not None, "without a key it is not tried again"
                request.dedup = request.dedup.again()
            self._retries.append((now_ns + RETRY_NS, request))
        else:
            self._end(request, outcome, answers)

    def answered(self, ticket: int, outcome: bytes | int | Exception, now_ns: int) -> None:
        """By the leader. A read's index may not have come here yet."""
        _node, request = self._asked.pop(ticket, NOT_ASKED)
        if request is None or request.is_over:
            return
        if isinstance(outcome, int) and outcome > self._core.applied:
            self._behind.append((outcome, request))
        else:
            self.concluded(request, outcome, now_ns, self._core.answers)

    def leader_turned(self, leader: str, now_ns: int) -> None:
        """What was asked of another may never be answered: that one may be dead, or stand still. What can be
        repeated goes on without its answer."""
        others = [each for each in self._asked.items() if each[1][0] != leader and each[1][1].is_repeatable]
        for ticket, (node, request) in others:
            del self._asked[ticket]
            why = OutcomeUnknown(f"{node} was asked, and led no more before it answered")
            self.concluded(request, why, now_ns, self._core.answers)

    def applied(self, index: int, answers: Answers) -> None:
        if self._behind:
            here = [each for each in self._behind if each[0] <= index]
            self._behind = [each for each in self._behind if each[0] > index]
            for read_index, request in here:
                if not request.is_over:
                    self._end(request, read_index, answers)

    def give_up(self, token: Token) -> None:
        """Nobody waits for it any more: it is not tried again."""
        request = self._open.get(token)
        if request is not None:
            self._close(request)

    def stop_reading(self, why: Exception, answers: Answers) -> None:
        """Nothing more is applied here: reads that wait for that would wait in vain."""
        for request in list(self._open.values()):
            if request.data is None:
                self._end(request, why, answers)

    def end(self, answers: Answers) -> None:
        self._has_ended = True
        for request in list(self._open.values()):
            sentence = "this server stopped before it was answered"
            is_open = request.is_tried and request.data is not None
            self._end(request, OutcomeUnknown(sentence) if is_open else Stopping(sentence), answers)

    # Inside.

    def _try(self, request: HeldRequest, now_ns: int, answers: Answers) -> None:
        core = self._core
        request.is_tried = True
        try:
            if not core.is_leader and request.data is None:
                self._reads_to_send.append(request)
            elif not core.is_leader:
                self._ask(request, now_ns)
            elif request.data is None:
                core.confirm_read(request)
            elif not core.propose(request.data, request, request.dedup):
                request.is_tried, request.why = False, QueueFull("it waited for room in the log")
        except (raft.RaftRefused, Unavailable) as error:
            self.concluded(request, error, now_ns, answers)

    def _ask(self, request: HeldRequest, now_ns: int) -> None:
        leader = self._core.leader
        if leader is None or self._core.is_leader:
            raise NoLeader("no leader is known" if leader is None else "this server leads since a moment ago")
        self._ticket += 1
        self.counters.forwarded += 1
        self._asked[self._ticket] = leader.node, request
        left_ns = request.deadline_ns - now_ns
        self._core.emit(AskLeader(self._ticket, leader.node, request.data, request.dedup, left_ns))

    def _run_out(self, request: HeldRequest, answers: Answers) -> None:
        self.counters.run_out += 1
        why = OutcomeUnknown("it was not answered in time") if request.is_tried else request.why
        if not isinstance(why, OutcomeUnknown | QueueFull):
            why = NoLeader(f"it was held for {self._hold_ns / SECOND:.0f} s, and at last: {why}")
        self._end(request, why, answers)

    def _end(self, request: HeldRequest, outcome: bytes | int | Exception, answers: Answers) -> None:
        self._close(request)
        if request.is_doubtful and isinstance(outcome, Exception):
            outcome = OutcomeUnknown(f"a try before may have been done, and at last: {outcome}")
        answers.append((request.token, outcome))

    def _close(self, request: HeldRequest) -> None:
        request.is_over, request.data = True, None
        del self._open[request.token]
        held = self._held
        while held and held[0].is_over:
            held.popleft()
