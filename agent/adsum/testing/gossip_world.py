"""Many shipped gossip cores in one world, from one seed: what each wants of the network is carried out as the
rim does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from adsum.address import Address
from adsum.gossip.claims import Claims
from adsum.gossip.commands import (
    Command,
    Join,
    PingOutcome,
    StreamPinged,
    SyncAnswered,
    SyncAsked,
    SyncBroken,
    SyncClosed,
    SyncFailed,
)
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import (
    AnswerSync,
    CloseSync,
    Effect,
    GenerationAdvised,
    GenerationRaised,
    OpenSync,
    PingStream,
    Send,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.order import MemberStatus
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.now import SECOND
from adsum.testing.hosts import Plays, SimulatedHost, State
from adsum.testing.introducing import introduce
from adsum.testing.network import Conditions
from adsum.testing.world import DATAGRAM, HELD, World, uncollected

CLAIMS_SHARED_MAX = 32_768  # by all members of the world: an update is decoded once, not a thousand times
SYNC_TIMEOUT_NS = 10 * SECOND

Watcher = Callable[[int, int, Effect], None]


class GossipWorld(World):
    def __init__(
        self,
        members: int,
        *,
        seed: int = 0,
        settings: GossipSettings | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        super().__init__(members, seed=seed, conditions=conditions or Conditions())
        self.settings = settings or GossipSettings()
        self.watchers: list[Watcher] = []  # called with time, host and effect, for what is not network
        self._claims = Claims(CLAIMS_SHARED_MAX)
        self._tickets = 0
        # Ticket here → opener, its life, its ticket, us; and (opener, its life and ticket) → ticket here.
        self._served: dict[int, tuple[int, int, int, int]] = {}
        self._answering: dict[tuple[int, int, int], int] = {}

    # Lives.

    def form(self) -> None:
        """Everybody runs and knows everybody, as after a long quiet time."""
        for host in self.hosts:
            self.start(host.index)
        parts = tuple(SyncPart(host.core.membership.introduction.encoded) for host in self.hosts)
        with uncollected():
            for host in self.hosts:
                self._introduce(host, parts)

    def _introduce(self, host: SimulatedHost, parts: tuple[SyncPart, ...]) -> None:
        core, now = host.core, self.now_at(host)
        caused = introduce(partial(core.command, now), partial(core.report, now), *parts)
        self._do(host, caused)

    def join_all(self, seeds: int = 1) -> None:
        """A cold start: everybody runs and is told the first few to ask."""
        for host in self.hosts:
            self.start(host.index)
        addresses = tuple(host.address for host in self.hosts[:seeds])
        for host in self.hosts:
            self.command(host.index, Join(addresses))

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        return GossipCore(self.now_at(host), self.settings, identity, random, self._claims)

    def command(self, index: int, command: Command) -> None:
        host = self.hosts[index]
        self._do(host, host.core.command(self.now_at(host), command))

    # What goes out.

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        for effect in effects:
            if type(effect) is Send:
                if host.state is HELD:
                    self._send_later(host, effect)
                else:
                    self._deliver(host, effect.to, effect.message)
            else:
                self._perform(host, effect)
        self._schedule(host)

    def _send_later(self, host: SimulatedHost, effect: Effect) -> None:
        host.waiting.append(lambda: self._do(host, [effect]))

    def _deliver(self, host: SimulatedHost, to: Address, message: bytes) -> None:
        receiver = self._by_address.get(to)
        if receiver is None:
            return
        for delay_ns in self.network.delays_ns(host.index, receiver):
            self._push(self.now_ns + delay_ns, DATAGRAM, receiver, (host.address, message))

    def _perform(self, host: SimulatedHost, effect: Effect) -> None:
        match effect:
            case PingStream() | OpenSync() | AnswerSync() | CloseSync() if host.state is State.HELD:
                self._send_later(host, effect)
            case PingStream():
                self._ping_stream(host, effect)
            case OpenSync(ticket, to, message):
                self._open_sync(host, ticket, to, message)
            case AnswerSync(ticket, answer):
                self._answer_sync(ticket, answer)
            case CloseSync(ticket, message):
                self._close_sync(host, ticket, message)
            case GenerationRaised(generation) | GenerationAdvised(generation):
                host.generation = generation
            case _:
                self._tell(host, effect)

    def _tell(self, host: SimulatedHost, effect: Any) -> None:
        for watcher in self.watchers:
            watcher(self.now_ns, host.index, effect)

    def _ping_stream(self, host: SimulatedHost, effect: PingStream) -> None:
        probe, timeout_ns = effect.probe, effect.timeout_ns
        index = self._by_address.get(effect.to)
        target = self.hosts[index] if index is not None else None
        connected_ns = self._connect_ns(host, target)
        if target is None or connected_ns is None or connected_ns > timeout_ns:
            self._report(host, timeout_ns, StreamPinged(probe, PingOutcome.SILENT))
        elif target.state is State.DEAD:
            self._report(host, connected_ns, StreamPinged(probe, PingOutcome.REFUSED))
        else:
            answered_ns = self.network.exchange_ns(host.index, target.index)
            is_answered = answered_ns is not None and connected_ns + answered_ns <= timeout_ns
            is_meant = target.profile.short == effect.member
            if is_answered and is_meant and answered_ns is not None and target.state is State.RUNNING:
                self._report(host, connected_ns + answered_ns, StreamPinged(probe, PingOutcome.ANSWERED))
            else:  # the kernel takes the connection of a stopped process, and nobody answers
                self._report(host, timeout_ns, StreamPinged(probe, PingOutcome.HELD))

    def _connect_ns(self, host: SimulatedHost, target: SimulatedHost | None) -> int | None:
        if target is None or target.state is State.GONE:
            return None
        return self.network.connect_ns(host.index, target.index)

    # Syncs: three turns on one connection.

    def _open_sync(self, host: SimulatedHost, ticket: int, to: Address, message: SyncMessage) -> None:
        index = self._by_address.get(to)
        target = self.hosts[index] if index is not None else None
        connected_ns = self._connect_ns(host, target)
        turn_ns = self.network.turn_ns(host.index, target.index) if target is not None else None
        if target is None or connected_ns is None or turn_ns is None:
            self._fail_sync(host, ticket, message, SYNC_TIMEOUT_NS, "timed out")
        elif target.state is State.DEAD:
            self._fail_sync(host, ticket, message, connected_ns, "connection refused")
        else:
            self._tickets += 1
            if message.wants_answer:
                self._served[self._tickets] = (host.index, host.life, ticket, target.index)
                self._answering[host.index, host.life, ticket] = self._tickets
            self._report(target, connected_ns + turn_ns, SyncAsked(self._tickets, message, host.address.host))

    def _fail_sync(
        self, host: SimulatedHost, ticket: int, message: SyncMessage, after_ns: int, error: str
    ) -> None:
        if message.wants_answer:
            self._report(host, after_ns, SyncFailed(ticket, error))

    def _answer_sync(self, ticket: int, answer: SyncMessage | None) -> None:
        opener_index, life, opener_ticket, server = self._served[ticket]
        opener = self.hosts[opener_index]
        turn_ns = self.network.turn_ns(server, opener_index)
        if opener.life != life or turn_ns is None:
            self._end_sync(ticket)
            self._report(self.hosts[server], SYNC_TIMEOUT_NS, SyncBroken(ticket))
        elif answer is None:
            self._end_sync(ticket)
            self._report(opener, turn_ns, SyncFailed(opener_ticket, "busy", is_busy=True))
        else:
            self._report(opener, turn_ns, SyncAnswered(opener_ticket, answer))

    def _close_sync(self, host: SimulatedHost, opener_ticket: int, message: SyncMessage) -> None:
        ticket = self._answering.get((host.index, host.life, opener_ticket))
        if ticket is None:
            return
        server = self.hosts[self._served[ticket][3]]
        self._end_sync(ticket)
        turn_ns = self.network.turn_ns(host.index, server.index)
        if turn_ns is None:
            self._report(server, SYNC_TIMEOUT_NS, SyncBroken(ticket))
        else:
            self._report(server, turn_ns, SyncClosed(ticket, message))

    def _end_sync(self, ticket: int) -> None:
        opener, life, opener_ticket, _server = self._served.pop(ticket)
        del self._answering[opener, life, opener_ticket]

    # What members believe.

    def views(self, subject: int) -> dict[MemberStatus | None, int]:
        """How many running members see the subject how."""
        counts: dict[MemberStatus | None, int] = {}
        node_id = self.hosts[subject].profile.node_id
        for host in self.hosts:
            if host.is_up and host.index != subject:
                member = host.core.membership.member_by_id(node_id)
                status = member.status if member is not None else None
                counts[status] = counts.get(status, 0) + 1
        return counts

    def is_one_view(self) -> bool:
        """All running members hold the same roster."""
        running = [host for host in self.hosts if host.is_up]
        return len({host.core.membership.digest() for host in running}) == 1
