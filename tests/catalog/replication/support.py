"""A few cores side by side, with no gossip between them: payloads and calls go where a test wants them."""

from __future__ import annotations

from random import Random

from adsum.catalog.replication.core import Replication
from adsum.catalog.replication.effects import AskPeer, CarryThis, Effect
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.publisher import OwnIdentity
from adsum.now import MILLISECOND, SECOND, Now

FIRST_WALL_MS = 1_800_000_000_000


def at(time_ns: int) -> Now:
    return Now(time_ns, FIRST_WALL_MS + time_ns // MILLISECOND)


def owner_id(number: int) -> bytes:
    return bytes([number]) * 16


class Peer:
    def __init__(self, number: int, *, generation: int = 1, interner: Interner | None = None) -> None:
        self.short = owner_id(number)[:8]
        identity = OwnIdentity(owner_id(number), generation)
        self.core = Replication(at(0), identity, Random(number), interner)
        self.effects: list[Effect] = []

    def take(self) -> list[Effect]:
        taken, self.effects = [*self.effects, *self.core.take_effects()], []
        return taken

    def payloads(self) -> tuple[bytes, ...]:
        """What it wants carried; the other effects stay."""
        effects = self.take()
        self.effects = [each for each in effects if not isinstance(each, CarryThis)]
        return tuple(each.payload for each in effects if isinstance(each, CarryThis))

    def published(self) -> dict[int, bytes]:
        return values(self, self)


def values(holder: Peer, owner: Peer) -> dict[int, bytes]:
    state = holder.core.state(owner.short)
    return {item.number: item.value for item in state.live() if item.value is not None} if state else {}


class Group:
    """Everybody knows everybody; calls are answered at once, or fail where a test says so."""

    def __init__(self, members: int, *, interner: Interner | None = None) -> None:
        self.now = at(0)
        self.peers = [Peer(number + 1, interner=interner) for number in range(members)]
        self.by_short = {peer.short: peer for peer in self.peers}
        self.calls = 0
        self.call_bytes = 0
        for peer in self.peers:
            for other in self.peers:
                if other is not peer:
                    peer.core.joined(self.now, other.short)

    def pass_time(self, duration_ns: int, *, step_ns: int = SECOND // 10, answers: bool = True) -> None:
        for _ in range(max(1, duration_ns // step_ns)):
            self.now = at(self.now.monotonic_ns + step_ns)
            for peer in self.peers:
                peer.core.tick(self.now)
            if answers:
                self.settle_calls()

    def settle_calls(self) -> None:
        for _ in range(10_000):
            asked = [(peer, effect) for peer in self.peers for effect in self._asks(peer)]
            if not asked:
                return
            for peer, ask in asked:
                other = self.by_short[ask.to]
                body = other.core.asked(self.now, peer.short, ask.method, ask.body)
                self.calls += 1
                self.call_bytes += len(ask.body) + len(body)
                peer.core.answered(self.now, ask.ticket, body)
        raise AssertionError("an exchange that never ends")

    def _asks(self, peer: Peer) -> list[AskPeer]:
        effects = peer.take()
        peer.effects = [each for each in effects if not isinstance(each, AskPeer)]
        return [each for each in effects if isinstance(each, AskPeer)]

    def mix(self, duration_ns: int) -> None:
        """Time with contacts between all, but without pushes: only exchanges bring news."""
        for _ in range(duration_ns // (SECOND // 2)):
            self.pass_time(SECOND // 2)
            for peer in self.peers:
                peer.payloads()
            for one in self.peers:
                for other in self.peers:
                    if one is not other and one.core.root != other.core.root:
                        one.core.root_heard(self.now, other.short, other.core.root)
            self.settle_calls()
