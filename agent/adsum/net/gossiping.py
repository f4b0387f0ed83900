"""The network as gossip wants it: performs what gossip asks of it, and reports what came and how it went.

Datagrams go out at once and come in by the socket's own loop. Pings over a stream and exchanges of rosters
are tasks; a core asks for few of them at a time, and beyond a limit they fail here without a try. What is
reported is decided upon at once, inside the call, so the effects of a report are here before it returns:
that is how the next turn of an exchange is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any

import trio

from adsum.gossip.claims import SHORT
from adsum.gossip.commands import (
    Datagram,
    PingOutcome,
    Report,
    StreamPinged,
    SyncAnswered,
    SyncAsked,
    SyncBroken,
    SyncClosed,
    SyncFailed,
)
from adsum.gossip.effects import AnswerSync, CloseSync, OpenSync, PingStream, Send, SyncMessage
from adsum.logs.faults import Faults
from adsum.mutable import dataclass
from adsum.named import NamedTuple
from adsum.net import introduction, streams
from adsum.net.call_server import CallServer
from adsum.net.datagrams import GossipDatagrams
from adsum.net.errors import Lost, NetError, PeerRefused, TurnedAway, Untried
from adsum.net.errors import PeerUnreachable as NoConnection
from adsum.net.gate import Gate, Security
from adsum.net.introduction import Peer
from adsum.net.listening import Ears
from adsum.net.sealing import Sealing
from adsum.net.streams import StreamLimits, StreamServer
from adsum.net.syncs import Sync
from adsum.newest import remember
from adsum.now import SECOND

HOSTS_MAX = 32_768  # remembered with whether they are let in; when full the memory starts again
# An agent that is busy hangs up instead of answering; the opener tries again soon.
BUSY_REASON = introduction.REASONS[introduction.WelcomeRefusal.BUSY]


class GossipingLimits(NamedTuple):
    pings_max: int = 256  # over streams; a core asks for one a probe, and some for others
    syncs_max: int = 64  # a core opens 16 at a time, and a few more when it leaves
    streams: StreamLimits = StreamLimits()  # that others open


@dataclass(slots=True)
class GossipingCounters:
    pings_open: int = 0
    pings_skipped: int = 0
    syncs_open: int = 0
    syncs_skipped: int = 0


class Allowed:
    """Networks that members may come from (`serf_lan_allowed_cidrs`): what others send is dropped unread."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        """None of them lets all in."""
        self.refused = 0
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self._known: dict[str, bool] = {}

    def lets_in(self, host: str) -> bool:
        if not self._networks:
            return True
        is_let_in = self._known.get(host)
        if is_let_in is None:
            address = ipaddress.ip_address(host.partition("%")[0])
            is_let_in = any(address in network for network in self._networks)
            remember(self._known, host, is_let_in, HOSTS_MAX)
        self.refused += not is_let_in
        return is_let_in


class Gossiping:
    def __init__(
        self,
        ears: Ears,
        security: Security,
        identity: Callable[[], introduction.PeerIdentity],
        report: Callable[[Datagram | Report], None],
        calls: CallServer | None = None,
        allowed: Allowed | None = None,
        is_member: Callable[[Peer], bool] = lambda _peer: True,
        faults: Faults | None = None,
        limits: GossipingLimits | None = None,
    ) -> None:
        self._limits = limits or GossipingLimits()
        self.allowed = allowed or Allowed()
        self._faults = faults or Faults()
        self.counters = GossipingCounters()
        self.sealing = Sealing(
            security.keyring,
            security.label,
            verify_outgoing=security.verify_outgoing,
            verify_incoming=security.verify_incoming,
        )
        self.gate = Gate(identity, security)
        self.datagrams = GossipDatagrams(
            *(ears.udp, self.sealing, report), lets_in=self.allowed.lets_in, faults=self._faults
        )
        self.streams = StreamServer(
            self.gate,
            answer_sync=self._answer_sync,
            calls=calls,
            limits=self._limits.streams,
            lets_in=self.allowed.lets_in,
            is_member=is_member,
            faults=self._faults,
        )
        self._listener = ears.tcp
        self._report = report
        self._nursery: trio.Nursery
        self._tickets = 0
        self._answers: dict[int, SyncMessage | None] = {}
        self._closings: dict[int, SyncMessage] = {}
        self.performers: dict[type, Callable[[Any], None]] = {
            Send: self.datagrams.send,
            PingStream: self._begin_ping,
            OpenSync: self._begin_sync,
            AnswerSync: self._keep_answer,
            CloseSync: self._keep_closing,
        }

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.datagrams.run)
            await nursery.start(self.streams.run, self._listener)
            task_status.started()

    # Pings over a stream.

    def _begin_ping(self, effect: PingStream) -> None:
        if self.counters.pings_open >= self._limits.pings_max:
            self.counters.pings_skipped += 1
            self._nursery.start_soon(self._report_soon, StreamPinged(effect.probe, PingOutcome.UNTRIED))
            return
        self.counters.pings_open += 1
        self._nursery.start_soon(self._ping, effect)

    async def _ping(self, effect: PingStream) -> None:
        try:
            identity = await streams.ping(self.gate, effect.to, timeout_s=effect.timeout_ns / SECOND)
        except PeerRefused:
            outcome = PingOutcome.REFUSED
        except NoConnection:
            outcome = PingOutcome.SILENT
        except Untried:
            outcome = PingOutcome.UNTRIED
        except NetError:
            outcome = PingOutcome.HELD
        except Exception as error:
            self._faults.dropped("effect", error)
            outcome = PingOutcome.UNTRIED
        else:
            is_meant = identity.node_id[:SHORT] == effect.member
            outcome = PingOutcome.ANSWERED if is_meant else PingOutcome.HELD
        finally:
            self.counters.pings_open -= 1
        self._tell(StreamPinged(effect.probe, outcome))

    async def _report_soon(self, report: Report) -> None:
        """Not from within the call that asked."""
        await trio.lowlevel.checkpoint()
        self._tell(report)

    def _tell(self, report: Report) -> None:
        """What the other side said is in it."""
        try:
            self._report(report)
        except Exception as error:
            self._faults.dropped("stream", error)

    # Exchanges of rosters that we open.

    def _begin_sync(self, effect: OpenSync) -> None:
        if self.counters.syncs_open >= self._limits.syncs_max:
            self.counters.syncs_skipped += 1
            failed = SyncFailed(effect.ticket, "too many exchanges are open already", is_busy=True)
            self._nursery.start_soon(self._report_soon, failed)
            return
        self.counters.syncs_open += 1
        self._nursery.start_soon(self._open_sync, effect)

    async def _open_sync(self, effect: OpenSync) -> None:
        try:
            await self._exchange(effect)
        except NetError as error:
            if effect.message.wants_answer:
                is_their_refusal = isinstance(error, TurnedAway) and error.reason == BUSY_REASON
                is_busy = is_their_refusal or isinstance(error, Untried)
                self._tell(SyncFailed(effect.ticket, str(error), is_busy=is_busy))
        except Exception as error:
            self._faults.dropped("stream", error)
            self._tell(SyncFailed(effect.ticket, "it said something that this agent failed to handle"))
        finally:
            self.counters.syncs_open -= 1
            self._closings.pop(effect.ticket, None)

    async def _exchange(self, effect: OpenSync) -> None:
        async with streams.open_sync(self.gate, effect.to) as (sync, _peer):
            await sync.send(effect.message)
            if not effect.message.wants_answer:
                return
            try:
                answer = await sync.receive(idle_s=streams.SYNC_IDLE_S)
            except Lost as error:  # it let us in and hung up: as it does when it is busy
                raise TurnedAway(BUSY_REASON) from error
            self._report(SyncAnswered(effect.ticket, answer))
            closing = self._closings.pop(effect.ticket, None)
            if closing is not None:
                await sync.send(closing)

    def _keep_closing(self, effect: CloseSync) -> None:
        self._closings[effect.ticket] = effect.message

    # Those that others open.

    def _keep_answer(self, effect: AnswerSync) -> None:
        self._answers[effect.ticket] = effect.message

    async def _answer_sync(self, sync: Sync, asked: SyncMessage, peer: Peer) -> None:
        self._tickets += 1
        ticket = self._tickets
        self._report(SyncAsked(ticket, asked, peer.address.host))
        answer = self._answers.pop(ticket, None)
        if answer is None:
            return
        try:
            await sync.send(answer)
            closing = await sync.receive(idle_s=streams.SYNC_IDLE_S)
        except (NetError, trio.Cancelled):
            self._tell(SyncBroken(ticket))
            raise
        self._tell(SyncClosed(ticket, closing))
