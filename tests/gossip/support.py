"""One core among peers that a test plays by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from adsum.address import Address
from adsum.gossip import claims, wire
from adsum.gossip.claims import Alive, Profile
from adsum.gossip.commands import Command, Report, SyncAsked
from adsum.gossip.coordinates import Coordinate
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import Effect, Send, SyncMessage, SyncPart
from adsum.gossip.members import Member
from adsum.gossip.order import MemberStatus
from adsum.gossip.rtt import Path
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.gossip.shared_state import GossipTimer
from adsum.gossip.source import FROM_MEMBER
from adsum.gossip.wire import Header, Packet, PacketKind
from adsum.now import MILLISECOND, Now

WALL_MS = 1_795_000_000_000
GENERATION = WALL_MS

E = TypeVar("E")


def profile(name: str, *, node: str = "", host: str = "", meta: bytes = b"") -> Profile:
    node_id = hashlib.blake2b((node or name).encode(), digest_size=16).digest()
    address = Address(f"10.0.{node_id[0]}.{node_id[1]}", 1_024 + node_id[2] * 200 + node_id[3] % 200)
    return Profile(node_id, name, Address(host, 8301) if host else address, meta)


def alive(name: str, *, generation: int = GENERATION, incarnation: int = 0) -> Alive:
    return claims.alive(profile(name), generation, incarnation)


def short(name: str) -> bytes:
    return profile(name).short


def suspect(
    name: str, *accusers: str, incarnation: int = 0, refusers: tuple[str, ...] = ()
) -> claims.Suspect:
    named = tuple(map(short, accusers))
    refusing = tuple(map(short, refusers))
    return claims.suspect(short(name), GENERATION, incarnation, named, refusers=refusing)


def dead(name: str, *accusers: str, incarnation: int = 0, generation: int = GENERATION) -> claims.Dead:
    accusation = claims.suspect(short(name), generation, incarnation, tuple(map(short, accusers)))
    return claims.dead(accusation, claims.DeathCause.SILENT)


def opened(effect: Send) -> tuple[Header, Packet]:
    return wire.parse_header(effect.message), wire.decode(effect.message[wire.HEADER_BYTES :])


class Stage:
    """The core is called `me`; peers are known to it from the start."""

    def __init__(
        self, *peers: str, settings: GossipSettings | None = None, seed: int = 1, me: str = "me"
    ) -> None:
        self.now_ns = 0
        self.wall_ahead_ms = 0
        self.effects: list[Effect] = []
        identity = MemberIdentity(profile(me), GENERATION)
        self.core = GossipCore(self.now, settings or GossipSettings(), identity, Random(seed))
        for peer in peers:
            self.core._merger.introduce(self.now, alive(peer), None, 0, FROM_MEMBER)
        self._take(self.core._shared.take_effects())
        self.effects.clear()
        self._forget_news()

    @property
    def now(self) -> Now:
        return Now(self.now_ns, WALL_MS + self.now_ns // MILLISECOND + self.wall_ahead_ms)

    def member(self, name: str) -> Member:
        member = self.core.membership.member_by_id(profile(name).node_id)
        assert member is not None
        return member

    def status(self, name: str) -> MemberStatus | None:
        member = self.core.membership.member_by_id(profile(name).node_id)
        return member.status if member else None

    # What happens to it; each gives what it caused.

    def tell(self, teller: str, *told: claims.Claim, **fields: Any) -> list[Effect]:
        return self.packet(teller, PacketKind.GOSSIP, claims=[claim.encoded for claim in told], **fields)

    def packet(
        self,
        sender: str,
        kind: PacketKind,
        *,
        is_authentic: bool = True,
        generation: int = GENERATION,
        **fields: Any,
    ) -> list[Effect]:
        message = wire.header(short(sender), generation) + wire.encode(wire.Packet(kind, **fields))
        return self.receive(profile(sender).address, message, is_authentic=is_authentic)

    def receive(self, source: Address, message: bytes, *, is_authentic: bool = True) -> list[Effect]:
        return self._take(self.core.receive(self.now, source, message, is_authentic=is_authentic))

    def report(self, report: Report) -> list[Effect]:
        return self._take(self.core.report(self.now, report))

    def command(self, command: Command) -> list[Effect]:
        return self._take(self.core.command(self.now, command))

    def run_for(self, duration_ns: int) -> list[Effect]:
        """Timers fire as they come; what they caused."""
        end_ns, before = self.now_ns + duration_ns, len(self.effects)
        while (deadline_ns := self.core.deadline()) is not None and deadline_ns <= end_ns:
            self.now_ns = max(self.now_ns, deadline_ns)
            self._take(self.core.tick(self.now))
        self.now_ns = end_ns
        return self.effects[before:]

    def stop_probing(self) -> None:
        """Peers that a test does not play would all seem to fail."""
        self.core._shared.timers.cancel((GossipTimer.ROUND, None))

    def stand_still(self, duration_ns: int) -> None:
        """Time passes, of which nothing is noticed, though time was kept before."""
        self._take(self.core.tick(self.now))
        self.now_ns += duration_ns

    def _take(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        return effects

    def _forget_news(self) -> None:
        for queue in self.core._shared.broadcasts.queues.values():
            for key in list(queue.entries):
                queue.forget(key)


# What a core comes to in its own time, for tests of other rooms.


def place(core: GossipCore, name: str, x_s: float) -> None:
    """So far from me, who am measured too, on a straight line."""
    core._shared.vivaldi.here = Coordinate(error=0.1)
    member = core._shared.roster.by_name[name]
    member.path = Path()
    member.path.coordinate = Coordinate(vector=(x_s, *[0.0] * 7), error=0.1)


def isolate(core: GossipCore) -> None:
    for target in (b"one", b"other"):
        core._shared.guard.probed(target, is_failed=True, others=2)


def forget(core: GossipCore, name: str) -> Member:
    member = core._shared.roster.by_name[name]
    core._shared.roster.remove(member)
    return member


def of(effects: Sequence[Effect], kind: type[E]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def sent(effects: list[Effect], kind: PacketKind, to: str = "") -> list[Packet]:
    """Packets of one kind among what was sent, to one peer or to any."""
    sends = [each for each in of(effects, Send) if not to or each.to == profile(to).address]
    packets = [opened(each)[1] for each in sends]
    return [packet for packet in packets if packet.kind == kind]


def told_claims(effects: Sequence[Effect]) -> list[claims.Claim]:
    return [claims.decode(each) for send in of(effects, Send) for each in opened(send)[1].claims]


def roster(*parts: SyncPart, digest: int = 0) -> SyncMessage:
    return SyncMessage(digest, parts)


def asked(ticket: int, message: SyncMessage) -> SyncAsked:
    """By whoever comes first in it, from where it lives."""
    opener = claims.decode(message.parts[0].alive)
    assert isinstance(opener, Alive)
    return SyncAsked(ticket, message, opener.profile.address.host)
