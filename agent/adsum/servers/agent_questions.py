"""What becomes of the questions about keys and sessions that client agents ask a server. No sockets: so it is
simulated.

A write is passed on to the leader as one of this server's own clients would be, under the name that the agent
gave it. A read that waits for a change is answered late. An answer that is too large for one message is kept
here until the last of its pieces is fetched: it is a list of records that are replaced, never changed, so all
pieces are of one moment.

Without a leader what needs one is refused at once: the agent holds it, and tries other servers meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

from msgspec import DecodeError

from adsum import forwarded
from adsum.consensus.errors import OutcomeUnknown, QueueFull, Unavailable
from adsum.consensus.requests import PASSING
from adsum.dedup import DedupKey
from adsum.forwarded import Renewed
from adsum.kv import KeyCause, KeyRefusal, KeysFound, ReadMode
from adsum.mutable import dataclass
from adsum.servers import wire
from adsum.servers.keys import RunsConsensus, ServerKeys, refusal_of
from adsum.servers.requests import ATTEMPTS_MAX
from adsum.session import Session
from adsum.store_requests import StoreFound

RESTS_MAX = 256  # answers of which a part was fetched
REST_S = 30.0  # since their last part was

NO_LONGER_KEPT = "the rest of this answer is not kept any more"


class AgentRefusal(Exception):
    """The code is for the agent, the sentence for whoever asked it."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


AgentAnswered: TypeAlias = Callable[[bytes | AgentRefusal], None]


@dataclass(slots=True)
class AgentQuestionCounters:
    writes: int = 0
    reads: int = 0
    renewals: int = 0  # sessions, not batches
    pieces: int = 0  # fetched after the first
    impostors: int = 0  # in another agent's name
    malformed: int = 0
    rests: int = 0  # kept at the moment
    rests_dropped: int = 0  # nobody came for them in time, or too many were kept


class AgentQuestions:
    def __init__(self, server: RunsConsensus, keys: ServerKeys, now_s: Callable[[], float]) -> None:
        self.counters = AgentQuestionCounters()
        self._server = server
        self._keys = keys
        self._now_s = now_s
        self._rests: dict[int, _RestOfKeys | _RestOfBytes] = {}  # the longest kept first
        self._number = 0

    def begin(self, node_id: bytes, method: str, body: bytes, answered: AgentAnswered) -> object:
        """It is answered once, perhaps before this returns, unless it is given up by what is returned."""
        try:
            match method:
                case forwarded.WRITE:
                    return self._write(node_id, body, answered)
                case forwarded.READ:
                    return self._read(node_id, body, answered)
                case forwarded.CHANGE:
                    return self._change(node_id, body, answered)
                case forwarded.ASK:
                    return self._ask(node_id, body, answered)
                case forwarded.RENEW:
                    return self._renew(body, answered)
                case forwarded.MORE:
                    answered(self._more(node_id, forwarded.decode_more(body)))
                case _:
                    answered(_failed(f"this server does not know the question {method!r}"))
        except (DecodeError, UnicodeDecodeError):
            self.counters.malformed += 1
            answered(_failed("this server could not read the question"))
        return None

    def give_up(self, asked: object) -> None:
        if isinstance(asked, _Proposed):
            self._server.give_up(asked)
        elif asked is not None:
            self._keys.give_up(asked)

    # Writes.

    def _write(self, node_id: bytes, body: bytes, answered: AgentAnswered) -> object:
        asked = forwarded.decode_write(body)
        if not self._may_propose(node_id, asked.key, answered):
            return None
        proposed = _Proposed(self, answered)
        self._keys.propose(asked.write, asked.key, asked.wall_ms, asked.seen, proposed)
        return proposed

    def _change(self, node_id: bytes, body: bytes, answered: AgentAnswered) -> object:
        asked = forwarded.decode_change(body)
        if not self._may_propose(node_id, asked.key, answered):
            return None
        proposed = _Proposed(self, answered)
        self._keys.propose(asked.change, asked.key, asked.wall_ms, asked.seen, proposed)
        return proposed

    def _may_propose(self, node_id: bytes, key: DedupKey, answered: AgentAnswered) -> bool:
        numbers = key.numbers
        if key.client != node_of(node_id):
            self.counters.impostors += 1
            answered(_failed("this write is in another agent's name"))
        elif min(numbers) < 0 or max(numbers) >= wire.NUMBER_MAX or key.attempt >= ATTEMPTS_MAX:
            self.counters.malformed += 1
            answered(_failed("this write has no name that can be kept"))
        elif self._server.leader is None:
            answered(self._without_leader())
        else:
            self.counters.writes += 1
            return True
        return False

    def refusal(self, error: Exception) -> AgentRefusal:
        leader = self._server.leader
        if isinstance(error, PASSING) and not isinstance(error, QueueFull) and leader is not None:
            # The agent may reach it where this server does not.
            return AgentRefusal(forwarded.led_by(UUID(leader.node).bytes), str(error))
        if isinstance(error, OutcomeUnknown):
            return AgentRefusal(forwarded.code_of(KeyCause.UNKNOWN), str(error))
        return _refusal(refusal_of(error))

    # Reads.

    def _read(self, node_id: bytes, body: bytes, answered: AgentAnswered) -> object:
        read = forwarded.decode_read(body)
        if read.mode is not ReadMode.STALE and self._server.leader is None:
            answered(self._without_leader())
            return None
        self.counters.reads += 1

        def found(outcome: KeysFound | KeyRefusal) -> None:
            if isinstance(outcome, KeyRefusal):
                answered(_refusal(outcome))
            else:
                answered(self._first(node_id, outcome))

        return self._keys.read(read, found)

    def _ask(self, node_id: bytes, body: bytes, answered: AgentAnswered) -> object:
        read = forwarded.decode_ask(body)
        if read.mode is not ReadMode.STALE and self._server.leader is None:
            answered(self._without_leader())
            return None
        self.counters.reads += 1

        def found(outcome: StoreFound | KeyRefusal) -> None:
            if isinstance(outcome, KeyRefusal):
                answered(_refusal(outcome))
            else:
                self._number += 1
                rest = _RestOfBytes(node_id, forwarded.encode(outcome))
                answered(self._piece(self._number, rest))

        return self._keys.ask(read, found)

    def _renew(self, body: bytes, answered: AgentAnswered) -> object:
        ids = forwarded.decode_renewals(body).ids
        if len(ids) > forwarded.RENEWALS_MAX:
            self.counters.malformed += 1
            answered(_failed(f"a batch has at most {forwarded.RENEWALS_MAX} renewals"))
            return None
        if self._server.leader is None:
            answered(self._without_leader())
            return None
        self.counters.renewals += len(ids)

        def renewed(outcome: list[Session | None] | Exception) -> None:
            if isinstance(outcome, KeyRefusal) and outcome.cause is not KeyCause.NO_LEADER:
                answered(_refusal(outcome))
            elif isinstance(outcome, Exception):
                answered(self.refusal(Unavailable(str(outcome))))
            else:
                answered(forwarded.encode(Renewed(outcome)))

        return self._keys.renewals.renew_all(ids, renewed)

    def _first(self, node_id: bytes, found: KeysFound) -> bytes:
        end = forwarded.pieces_end(found, 0)
        if end == len(found.keys):
            return forwarded.encode(forwarded.KeysPiece(found))
        self._number += 1
        return self._piece(self._number, _RestOfKeys(node_id, found))

    def _more(self, node_id: bytes, number: int) -> bytes | AgentRefusal:
        rest = self._rests.get(number)
        if rest is None or rest.node_id != node_id:
            return _failed(NO_LONGER_KEPT)
        del self._rests[number]
        self.counters.pieces += 1
        return self._piece(number, rest)

    def _piece(self, number: int, rest: _RestOfKeys | _RestOfBytes) -> bytes:
        self._let_go()
        piece = rest.take(number)
        if not rest.is_taken:
            rest.until_s = self._now_s() + REST_S
            self._rests[number] = rest
        self.counters.rests = len(self._rests)
        return piece

    def _let_go(self) -> None:
        now_s = self._now_s()
        while self._rests:
            oldest = next(iter(self._rests))
            if len(self._rests) < RESTS_MAX and self._rests[oldest].until_s > now_s:
                return
            del self._rests[oldest]
            self.counters.rests_dropped += 1

    def _without_leader(self) -> AgentRefusal:
        return AgentRefusal(forwarded.code_of(KeyCause.NO_LEADER), self._server.waits_for)


class _Proposed:
    """Called with what came of it."""

    __slots__ = ("_answered", "_questions")

    def __init__(self, questions: AgentQuestions, answered: AgentAnswered) -> None:
        self._questions = questions
        self._answered = answered

    def __call__(self, outcome: bytes | Exception) -> None:
        self._answered(outcome if isinstance(outcome, bytes) else self._questions.refusal(outcome))


class _RestOfKeys:
    __slots__ = ("_found", "_start", "node_id", "until_s")

    def __init__(self, node_id: bytes, found: KeysFound) -> None:
        self.node_id = node_id
        self.until_s = 0.0
        self._found = found
        self._start = 0

    @property
    def is_taken(self) -> bool:
        return self._start == len(self._found.keys)

    def take(self, number: int) -> bytes:
        """The next piece, which names where the one behind it is to be had."""
        start, self._start = self._start, forwarded.pieces_end(self._found, self._start)
        piece = forwarded.piece_of(self._found, start, self._start)
        return forwarded.encode(forwarded.KeysPiece(piece, 0 if self.is_taken else number))


class _RestOfBytes:
    __slots__ = ("_encoded", "_start", "node_id", "until_s")

    def __init__(self, node_id: bytes, encoded: bytes) -> None:
        self.node_id = node_id
        self.until_s = 0.0
        self._encoded = encoded
        self._start = 0

    @property
    def is_taken(self) -> bool:
        return self._start >= len(self._encoded)

    def take(self, number: int) -> bytes:
        start, self._start = self._start, self._start + forwarded.PIECE_BYTES
        piece = self._encoded[start : self._start]
        return forwarded.encode(forwarded.FoundPiece(piece, 0 if self.is_taken else number))


@lru_cache(maxsize=1_024)
def node_of(node_id: bytes) -> str:
    return str(UUID(bytes=node_id))


def _refusal(refusal: KeyRefusal) -> AgentRefusal:
    return AgentRefusal(forwarded.code_of(refusal.cause), refusal.sentence)


def _failed(sentence: str) -> AgentRefusal:
    return AgentRefusal(forwarded.code_of(KeyCause.FAILED), sentence)
