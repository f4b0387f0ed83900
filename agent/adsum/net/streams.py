"""Streams on gossip's port: a ping that needs no datagram, exchanges of rosters, and calls between agents.

Whoever connects takes a place once it has said who it is and what for: a host may hold so many of them and
all hosts together so many, and of those for calls strangers fewer than members. What comes beyond is told
that we are busy, which looks nothing like a refused connection: refusal is what a dead process looks like,
and we live. A stranger is sent whatever it asks for, and may itself send little.

Where we wait for a peer, its place is given to others that need it (`yielding`): until it has said who it is
and what it asks, and then for as long as an exchange takes. Without encryption anybody can use the id of a
member, so members have no places of their own there. Lines for calls are long-lived, and keep their places.

What one stream makes us fail at ends that stream and no other.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.gossip.effects import SyncMessage
from adsum.logs.complaints import Complaints
from adsum.logs.faults import Faults
from adsum.named import NamedTuple
from adsum.net.call_server import CallServer
from adsum.net.errors import BadPeer, NetError, NoRoomForPeer, Unwelcome
from adsum.net.gate import Gate, OpenedChannel
from adsum.net.introduction import Peer, PeerIdentity, Purpose, WelcomeRefusal
from adsum.net.places import NONE, Most, PlaceCounters, Places, StreamCounters, StreamPlace
from adsum.net.syncs import PAYLOAD_BYTES_MAX, Sync
from adsum.net.unread import UnreadBytes
from adsum.net.yielding import YieldingPlaces
from adsum.sockets.accepting import Accepting

PING_BYTES_MAX = 0  # nothing follows the introductions
SYNC_ASK_IDLE_S = 2.0  # an opener has its first message ready
SYNC_IDLE_S = 10.0
SYNC_S = 60.0  # a whole exchange: some megabytes over a bad line
STRANGER_SYNC_S = 10.0  # others wait for the place
# A joiner says who it is in 2 KiB. Where clusters are joined, those who became members compare the rest.
STRANGER_ROSTER_BYTES_MAX = 64 * 1024
STRANGER_FRAME_BYTES_MAX = 4 * 1024  # of calls; the longest that a new member asks at once has 1.1 KiB

log = logging.getLogger("net")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    openings_max: int = 256
    openings_per_host_max: int = 64
    streams_max: int = 1_024
    streams_per_host_max: int = 128  # many agents may share one; one that misbehaves leaves room for others
    syncs_max: int = 8  # each holds a roster in memory: memberlist#158 was 3,000 of them and 7 GB
    callers_max: int = 512
    callers_of_strangers_max: int = 256


async def ping(gate: Gate, to: Address, *, timeout_s: float) -> PeerIdentity:
    """Who answered there; raises a NetError, of which only Refused says that nobody is there to answer."""
    opened = await gate.dial(to, Purpose.PING, payload_bytes_max=PING_BYTES_MAX, timeout_s=timeout_s)
    async with opened.channel:
        return opened.peer.identity


@asynccontextmanager
async def open_sync(gate: Gate, to: Address) -> AsyncIterator[tuple[Sync, Peer]]:
    opened = await gate.dial(to, Purpose.SYNC, payload_bytes_max=PAYLOAD_BYTES_MAX)
    async with opened.channel:
        yield Sync(opened.channel), opened.peer


class AgentLines(NamedTuple):
    """Calls of agents to a server: they have places and room of their own, and take none of what servers
    need among themselves."""

    calls: CallServer
    unread: UnreadBytes
    lines_max: int
    lines_per_host_max: int


AnswerSync = Callable[[Sync, SyncMessage, Peer], Awaitable[None]]


class StreamServer:
    """`answer_sync` takes over an exchange with its first message; the stream is closed when it returns."""

    def __init__(
        self,
        gate: Gate,
        *,
        answer_sync: AnswerSync | None = None,
        calls: CallServer | None = None,
        agents: AgentLines | None = None,
        limits: StreamLimits | None = None,
        lets_in: Callable[[str], bool] = lambda _host: True,
        is_member: Callable[[Peer], bool] = lambda _peer: True,
        faults: Faults | None = None,
    ) -> None:
        self.counters = StreamCounters()
        self._gate = gate
        self._answer_sync = answer_sync
        self._calls = calls
        self._agents = agents
        self._lets_in = lets_in
        self._is_member = is_member
        self._faults = faults or Faults()
        self._complaints = Complaints(log)
        limits = limits or StreamLimits()
        self._accepting = Accepting(
            self.hold,
            streams_max=limits.openings_max + limits.streams_max + (agents.lines_max if agents else 0),
            of_whom="other agents",
            counters=self.counters.accepting,
        )
        self._openings = YieldingPlaces(
            self.counters.openings, most=limits.openings_max, most_per_host=limits.openings_per_host_max
        )
        self._syncs = YieldingPlaces(
            self.counters.syncs, most=limits.syncs_max, most_per_host=limits.syncs_max
        )
        as_streams = Most(limits.streams_max, limits.streams_max)
        callers = Most(limits.callers_max, limits.callers_of_strangers_max)
        self._places = Places(
            self.counters,
            most=limits.streams_max,
            most_per_host=limits.streams_per_host_max,
            by_purpose={
                Purpose.PING: as_streams,
                Purpose.SYNC: as_streams if answer_sync else NONE,
                Purpose.CALLS: callers if calls else NONE,
                Purpose.KEYS: NONE,
            },
        )
        self._agent_places = _places_of_agents(self.counters.agents, agents) if agents else self._places

    async def run(
        self, listener: trio.SocketListener, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serves until cancelled, and closes the listener."""
        await self._accepting.run([listener], task_status=task_status)

    async def hold(self, stream: trio.SocketStream) -> None:
        try:
            host = str(stream.socket.getpeername()[0])
        except OSError:
            host = ""  # it was gone before it was let in
        if not host or not self._lets_in(host):
            await trio.aclose_forcefully(stream)
            return
        try:
            await self._serve(stream, host)
        except Exception as error:
            self._faults.dropped("stream", error)

    async def _serve(self, stream: trio.SocketStream, host: str) -> None:
        seat = _Seat(self._places, self._agent_places, self._is_member)
        try:
            opened = await self._welcome(stream, host, seat)
            if opened is not None:
                async with opened.channel:
                    await self._converse(opened, seat)
        except (BadPeer, Unwelcome, NoRoomForPeer) as error:
            self._complaints.say(type(error).__name__, "the stream from %s was closed: %s", host, error)
        except NetError as error:
            log.debug("the stream from %s ended: %s", host, error)
        finally:
            seat.leave()

    async def _welcome(self, stream: trio.SocketStream, host: str, seat: _Seat) -> OpenedChannel | None:
        """None when it made room for somebody else before it said who it is."""
        with self._openings.hold(host):
            return await self._gate.welcome(stream, seat.take, payload_bytes_max=PAYLOAD_BYTES_MAX)
        self._complaints.say(
            "displaced", "streams that do not say who they are make room for others, one from %s", host
        )
        return None

    async def _converse(self, opened: OpenedChannel, seat: _Seat) -> None:
        match opened.purpose:
            case Purpose.PING:
                self.counters.pings_answered += 1
            case Purpose.SYNC:
                await self._sync(opened, seat)
            case Purpose.CALLS:
                assert self._calls is not None, "not served otherwise"
                opened.channel.widen(self._calls.payload_bytes_max)
                if seat.is_of_stranger:
                    opened.channel.read_at_most(STRANGER_FRAME_BYTES_MAX)
                await self._calls.serve(opened.channel, opened.peer)
            case Purpose.KEYS:
                assert self._agents is not None, "not served otherwise"
                opened.channel.count_in(self._agents.unread.share(opened.peer.address.host))
                opened.channel.widen(self._agents.calls.payload_bytes_max)
                await self._agents.calls.serve(opened.channel, opened.peer)

    async def _sync(self, opened: OpenedChannel, seat: _Seat) -> None:
        sync = Sync(opened.channel)
        if seat.is_of_stranger:
            sync.message_bytes_max = STRANGER_ROSTER_BYTES_MAX
        is_served = False
        try:
            with trio.move_on_after(STRANGER_SYNC_S if seat.is_of_stranger else SYNC_S):
                is_served = await self._exchange(sync, opened.peer)
        finally:
            self.counters.syncs_served += is_served
            self.counters.syncs_failed += not is_served

    async def _exchange(self, sync: Sync, peer: Peer) -> bool:
        """Whether it got to its end, and did not make room for another. Until its first message is here it
        waits among many: what came of that counts in `unread`.
        """
        assert self._answer_sync is not None, "not served otherwise"
        host = peer.address.host
        asked: SyncMessage | None = None
        with self._openings.hold(host):
            asked = await sync.receive(idle_s=SYNC_ASK_IDLE_S)
        if asked is not None:
            with self._syncs.hold(host) as held:
                sync.spare = held.spare
                await self._answer_sync(sync, asked, peer)
                return True
        self._complaints.say("idle", "exchanges that stand idle make room for others, one from %s", host)
        return False


class _Seat:
    """The place of one stream, taken when its peer has said who it is."""

    def __init__(self, places: Places, agents: Places, is_member: Callable[[Peer], bool]) -> None:
        self._others = places
        self._agents = agents
        self._is_member = is_member
        self._taken: tuple[Places, StreamPlace] | None = None

    @property
    def is_of_stranger(self) -> bool:
        return self._taken is not None and self._taken[1].is_stranger

    def take(self, purpose: Purpose, peer: Peer) -> WelcomeRefusal | None:
        place = StreamPlace(peer.address.host, purpose, not self._is_member(peer))
        places = self._agents if purpose is Purpose.KEYS else self._others
        refusal = places.take(place)
        if refusal is None:
            self._taken = places, place
        return refusal

    def leave(self) -> None:
        if self._taken is not None:
            places, place = self._taken
            places.leave(place)


def _places_of_agents(counters: PlaceCounters, agents: AgentLines) -> Places:
    most = Most(agents.lines_max, agents.lines_max)
    return Places(
        counters,
        most=agents.lines_max,
        most_per_host=agents.lines_per_host_max,
        by_purpose={Purpose.KEYS: most},
    )
