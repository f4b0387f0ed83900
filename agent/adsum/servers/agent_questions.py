"""What becomes of the questions about keys that client agents ask a server. No sockets: so it is simulated.

A write is passed on to the leader as one of this server's own clients would be, under the name that the agent
gave it. A read that waits for a change is answered late. An answer that is too large for one message is kept
here until the last of its pieces is fetched: it is a list of records that are replaced, never changed, so all
pieces are of one moment.

Without a leader what needs one is refused at once: the agent holds it, and tries other servers meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

from msgspec import DecodeError

from adsum import forwarded
from adsum.consensus.errors import OutcomeUnknown
from adsum.consensus.requests import PASSING
from adsum.kv import KeyCause, KeyRefusal, KeysFound, ReadMode
from adsum.mutable import dataclass
from adsum.servers import wire
from adsum.servers.keys import RunsConsensus, ServerKeys, refusal_of
from adsum.servers.requests import ATTEMPTS_MAX

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
        self._rests: dict[int, _Rest] = {}  # the longest kept first
        self._number = 0

    def begin(self, node_id: bytes, method: str, body: bytes, answered: AgentAnswered) -> object:
        """It is answered once, perhaps before this returns, unless it is given up by what is returned."""
        try:
            match method:
                case forwarded.WRITE:
                    return self._write(node_id, body, answered)
                case forwarded.READ:
                    return self._read(node_id, body, answered)
                case forwarded.MORE:
                    answered(self._more(node_id, forwarded.decode_more(body)))
                case _:
                    answered(_failed(f"this server does not know the question {method!r}"))
        except DecodeError:
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
        numbers = asked.key[1:]
        if asked.key.client != str(UUID(bytes=node_id)):
            self.counters.impostors += 1
            answered(_failed("this write is in another agent's name"))
        elif min(numbers) < 0 or max(numbers) >= wire.NUMBER_MAX or asked.key.attempt >= ATTEMPTS_MAX:
            self.counters.malformed += 1
            answered(_failed("this write has no name that can be kept"))
        elif self._server.leader is None:
            answered(self._without_leader())
        else:
            self.counters.writes += 1
            proposed = _Proposed(self, answered)
            self._keys.propose(asked.write, asked.key, asked.wall_ms, asked.seen, proposed)
            return proposed
        return None

    def refusal(self, error: Exception) -> AgentRefusal:
        leader = self._server.leader
        if isinstance(error, PASSING) and leader is not None:
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

    def _first(self, node_id: bytes, found: KeysFound) -> bytes:
        end = forwarded.pieces_end(found, 0)
        if end == len(found.keys):
            return forwarded.encode(forwarded.KeysPiece(found))
        self._number += 1
        return self._piece(self._number, _Rest(node_id, found), end)

    def _more(self, node_id: bytes, number: int) -> bytes | AgentRefusal:
        rest = self._rests.get(number)
        if rest is None or rest.node_id != node_id:
            return _failed(NO_LONGER_KEPT)
        del self._rests[number]
        self.counters.pieces += 1
        return self._piece(number, rest, forwarded.pieces_end(rest.found, rest.start))

    def _piece(self, number: int, rest: _Rest, end: int) -> bytes:
        piece = forwarded.piece_of(rest.found, rest.start, end)
        self._let_go()
        if end < len(rest.found.keys):
            rest.start, rest.until_s = end, self._now_s() + REST_S
            self._rests[number] = rest
        else:
            number = 0
        self.counters.rests = len(self._rests)
        return forwarded.encode(forwarded.KeysPiece(piece, number))

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


class _Rest:
    __slots__ = ("found", "node_id", "start", "until_s")

    def __init__(self, node_id: bytes, found: KeysFound) -> None:
        self.node_id = node_id
        self.found = found
        self.start = 0
        self.until_s = 0.0


def _refusal(refusal: KeyRefusal) -> AgentRefusal:
    return AgentRefusal(forwarded.code_of(refusal.cause), refusal.sentence)


def _failed(sentence: str) -> AgentRefusal:
    return AgentRefusal(forwarded.code_of(KeyCause.FAILED), sentence)
