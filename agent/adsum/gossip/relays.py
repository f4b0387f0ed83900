"""Probing on somebody's behalf: I ping the target, and tell the asker what I found.

The asker gives a budget. Whoever has no answer by 0.8 of it says so, so that the asker still hears it in
time: a nack clears the asker's network of blame (memberlist's helpers answer after the verdict and clear
nobody). When the target does not answer soon, its stream port is tried too, and a refused connection is
told at once: it is evidence, and no time makes it better."""

from __future__ import annotations

from adsum.address import Address
from adsum.gossip.effects import PingStream
from adsum.gossip.members import Member
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.named import NamedTuple
from adsum.now import MILLISECOND, Now

RELAYS_MAX = 256
NACK_SHARE = 0.8
BUDGET_MS_MAX = 10_000


class Relay(NamedTuple):
    asker: Address
    asker_sequence: int
    target: Member
    nack_ns: int


class Relays:
    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self._relays: dict[int, Relay] = {}

    def ask(self, now: Now, asker: Address, sequence: int, about: bytes, budget_ms: int) -> None:
        shared = self.shared
        target = shared.roster.by_short.get(about)
        if target is None or len(self._relays) >= RELAYS_MAX:
            shared.tally.relays_refused += 1
            flags = PacketFlag.UNKNOWN
            shared.send_bare(now, asker, PacketKind.NACK, sequence=sequence, about=about, flags=flags)
            return
        budget_ns = min(budget_ms, BUDGET_MS_MAX) * MILLISECOND
        nack_ns = now.monotonic_ns + int(budget_ns * NACK_SHARE)
        own = shared.next_sequence()
        self._relays[own] = Relay(asker, sequence, target, nack_ns)
        latest_ns = min(shared.settings.probe_timeout_ns, budget_ns // 2)
        wait_ns = shared.rtt.indirect_after_ns(target.path, latest_ns)
        shared.timers.set((GossipTimer.RELAY_STREAM, own), now.monotonic_ns + wait_ns)
        shared.timers.set((GossipTimer.RELAY_NACK, own), nack_ns)
        told = (target.verdict.encoded,) if target.verdict is not None else ()
        shared.send(now, target.profile.address, PacketKind.PING, sequence=own, about=about, first=told)

    def try_stream(self, now: Now, own: int) -> None:
        relay = self._relays.get(own)
        if relay is not None:
            target, timeout_ns = relay.target, max(MILLISECOND, relay.nack_ns - now.monotonic_ns)
            self.shared.effects.append(PingStream(own, target.short, target.profile.address, timeout_ns))

    def answered(self, now: Now, own: int) -> bool:
        """By the target; False when the number is not one of ours."""
        relay = self._end(own)
        if relay is not None:
            to, number, about = relay.asker, relay.asker_sequence, relay.target.short
            self.shared.send(now, to, PacketKind.ACK, sequence=number, about=about, beats=b"")
        return relay is not None

    def knows(self, own: int) -> bool:
        return own in self._relays

    def nack(self, now: Now, own: int, flags: int = 0) -> None:
        relay = self._end(own)
        if relay is not None:
            to, number, about = relay.asker, relay.asker_sequence, relay.target.short
            self.shared.send_bare(now, to, PacketKind.NACK, sequence=number, about=about, flags=flags)

    def drop_all(self) -> None:
        """After a pause no budget holds any more."""
        for own in list(self._relays):
            self._end(own)

    def _end(self, own: int) -> Relay | None:
        relay = self._relays.pop(own, None)
        if relay is not None:
            self.shared.timers.cancel((GossipTimer.RELAY_STREAM, own))
            self.shared.timers.cancel((GossipTimer.RELAY_NACK, own))
        return relay
