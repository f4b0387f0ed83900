"""What client agents ask of a server, on the servers' port: keys, for clients of theirs.

Members of the cluster are answered, and whoever holds its key. They are many, so they have connections, calls
and room of their own, and what servers do among themselves is not held up by them.

A write is passed on to the leader as one of this server's own clients would be, under the name that the agent
gave it. A read that waits for a change is a call that is answered late; it ends when its caller cancels it or
hangs up. An answer that is too large for one message is kept here until the last of its pieces is fetched:
it is a list of records that are replaced, never changed, so all pieces are of one moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID

import trio
from msgspec import DecodeError

from adsum import forwarded
from adsum.consensus.commands import SubmitProposal
from adsum.consensus.errors import OutcomeUnknown
from adsum.consensus.requests import PASSING
from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeysFound, ReadMode
from adsum.mutable import dataclass
from adsum.net.call_server import CallLimits, CallServer
from adsum.net.calls import Declined
from adsum.net.introduction import Peer
from adsum.net.streams import AgentLines
from adsum.net.unread import UnreadBytes
from adsum.servers import wire
from adsum.servers.keys import RunsConsensus, ServerKeys, command_of, refusal_of
from adsum.servers.requests import ATTEMPTS_MAX, OneAnswer
from adsum.store.commands import StoreRequest, encode_request

LINES_MAX = 8_192
LINES_PER_HOST_MAX = 1_024  # behind one address there may be many
CALLS_MAX = 65_536  # most of them wait for a change
CALLS_PER_LINE_MAX = 16_384  # as many as an agent's API has connections
UNREAD_BYTES_MAX = 64 * 1024 * 1024
UNREAD_PER_HOST_BYTES_MAX = 16 * 1024 * 1024
RESTS_MAX = 256  # answers of which a part was fetched
REST_S = 30.0  # since their last part was
CLIENT_BYTES_MAX = 255

NOT_A_MEMBER = "this server does not know the agent that asks it as a member"
NO_LONGER_KEPT = "the rest of this answer is not kept any more"


@dataclass(slots=True)
class AgentCallCounters:
    writes: int = 0
    reads: int = 0
    pieces: int = 0  # fetched after the first
    strangers: int = 0
    impostors: int = 0  # in another agent's name
    malformed: int = 0
    rests: int = 0  # kept at the moment
    rests_dropped: int = 0  # nobody came for them in time, or too many were kept


class _Rest:
    __slots__ = ("found", "node_id", "start", "until_s")

    def __init__(self, node_id: bytes, found: KeysFound, start: int) -> None:
        self.node_id = node_id
        self.found = found
        self.start = start
        self.until_s = trio.current_time() + REST_S


class KnowsAgents(Protocol):
    def is_agent(self, caller: Peer) -> bool:
        """A member that is present, at its own address."""
        ...


class AgentCalls:
    """`CallServer` asks this."""

    def __init__(self, server: RunsConsensus, keys: ServerKeys, knows: KnowsAgents) -> None:
        self.counters = AgentCallCounters()
        self._server = server
        self._keys = keys
        self._knows = knows
        self._rests: dict[int, _Rest] = {}  # the longest kept first
        self._number = 0
        self._methods: dict[str, Callable[[Peer, bytes], Awaitable[bytes]]] = {
            forwarded.WRITE: self._write,
            forwarded.READ: self._read,
            forwarded.MORE: self._more,
        }

    def lines(self, *, lines_max: int = LINES_MAX, per_host_max: int = LINES_PER_HOST_MAX) -> AgentLines:
        limits = CallLimits(
            calls_max=CALLS_MAX,
            calls_per_connection_max=CALLS_PER_LINE_MAX,
            question_bytes_max=forwarded.QUESTION_BYTES_MAX,
        )
        unread = UnreadBytes(bytes_max=UNREAD_BYTES_MAX, per_host_bytes_max=UNREAD_PER_HOST_BYTES_MAX)
        return AgentLines(CallServer(self, limits), unread, lines_max, per_host_max)

    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        if not (caller.is_authenticated or self._knows.is_agent(caller)):
            self.counters.strangers += 1
            raise Declined(forwarded.code_of(KeyCause.NO_LEADER), NOT_A_MEMBER)
        known = self._methods.get(method)
        if known is None:
            raise _failed(f"this server does not know the question {method!r}")
        try:
            return await known(caller, body)
        except DecodeError as error:
            self.counters.malformed += 1
            raise _failed("this server could not read the question") from error
        except KeyRefusal as refusal:
            raise Declined(forwarded.code_of(refusal.cause), refusal.sentence) from refusal

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Nothing is told without an answer."""

    async def _write(self, caller: Peer, body: bytes) -> bytes:
        asked = forwarded.decode_write(body)
        if asked.key.client != str(UUID(bytes=caller.identity.node_id)):
            self.counters.impostors += 1
            raise _failed("this write is in another agent's name")
        numbers = asked.key[1:]
        if min(numbers) < 0 or max(numbers) >= wire.NUMBER_MAX or asked.key.attempt >= ATTEMPTS_MAX:
            self.counters.malformed += 1
            raise _failed("this write has no name that can be kept")
        self._check_led()
        self.counters.writes += 1
        data = encode_request(StoreRequest(command_of(asked.write), asked.wall_ms, asked.seen))
        answer = OneAnswer[bytes]()
        self._server.submit(SubmitProposal(data, answer, asked.key))
        try:
            return await answer.wait()
        except trio.Cancelled:
            self._server.give_up(answer)
            raise
        except PASSING as error:
            raise self._not_led(error) from error
        except OutcomeUnknown as error:
            raise KeyRefusal(KeyCause.UNKNOWN, str(error)) from error
        except Exception as error:
            raise refusal_of(error) from error

    async def _read(self, caller: Peer, body: bytes) -> bytes:
        read = forwarded.decode_read(body)
        if read.mode is not ReadMode.STALE:
            self._check_led()
        self.counters.reads += 1
        found = await self._found(read)
        end = forwarded.pieces_end(found, 0)
        if end == len(found.keys):
            return forwarded.encode(forwarded.KeysPiece(found))
        self._number += 1
        rest = _Rest(caller.identity.node_id, found, 0)
        return self._piece(self._number, rest, end)

    async def _more(self, caller: Peer, body: bytes) -> bytes:
        number = forwarded.decode_more(body)
        rest = self._rests.get(number)
        if rest is None or rest.node_id != caller.identity.node_id:
            raise _failed(NO_LONGER_KEPT)
        del self._rests[number]
        self.counters.pieces += 1
        return self._piece(number, rest, forwarded.pieces_end(rest.found, rest.start))

    def _piece(self, number: int, rest: _Rest, end: int) -> bytes:
        piece = forwarded.piece_of(rest.found, rest.start, end)
        self._let_go()
        if end < len(rest.found.keys):
            rest.start, rest.until_s = end, trio.current_time() + REST_S
            self._rests[number] = rest
        else:
            number = 0
        self.counters.rests = len(self._rests)
        return forwarded.encode(forwarded.KeysPiece(piece, number))

    def _let_go(self) -> None:
        now_s = trio.current_time()
        while self._rests:
            oldest = next(iter(self._rests))
            if len(self._rests) < RESTS_MAX and self._rests[oldest].until_s > now_s:
                return
            del self._rests[oldest]
            self.counters.rests_dropped += 1

    async def _found(self, read: KeyRead) -> KeysFound:
        answer = OneAnswer[KeysFound]()
        asked = self._keys.read(read, answer)
        try:
            return await answer.wait()
        except trio.Cancelled:
            self._keys.give_up(asked)
            raise

    # Who leads.

    def _check_led(self) -> None:
        """Without a leader the agent holds it, and tries other servers meanwhile."""
        if self._server.leader is None:
            raise KeyRefusal(KeyCause.NO_LEADER, self._server.waits_for)

    def _not_led(self, error: Exception) -> Declined:
        """It names the leader: the agent may reach it where this server does not."""
        leader = self._server.leader
        if leader is None:
            return Declined(forwarded.code_of(KeyCause.NO_LEADER), str(error))
        return Declined(forwarded.led_by(UUID(leader.node).bytes), str(error))


def _failed(sentence: str) -> Declined:
    return Declined(forwarded.code_of(KeyCause.FAILED), sentence)
