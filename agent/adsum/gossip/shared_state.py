"""What the parts of gossip share: who I am, who is known, what waits to be told, the effects of this call.

The parts call each other in one direction only: core → sync → claim merger → newcomers, rivals → prober →
suspicions, and core → relays; what a call has found out goes back as what it returns. Here is what all of
them end in: a changed member, a datagram sent, news queued."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence
from random import Random

from adsum.address import Address
from adsum.clocks import Clocks
from adsum.gossip import ages, phi, suspicion
from adsum.gossip.beats import Beats
from adsum.gossip.broadcasts import HEAD_BYTES, Broadcasts, Class, QueuedBroadcast, scale_of
from adsum.gossip.claims import Claims, Profile
from adsum.gossip.coordinates import Vivaldi
from adsum.gossip.effects import Effect, MemberChanged, Note, Noted, Send
from adsum.gossip.evidence import Evidence
from adsum.gossip.fresh_news import FreshNews
from adsum.gossip.guard import Guard
from adsum.gossip.health import Health
from adsum.gossip.me import Me
from adsum.gossip.members import Member, Roster
from adsum.gossip.news_allowance import NewsAllowance
from adsum.gossip.order import MemberStatus, Standing
from adsum.gossip.recent_news import RecentNews, RecentPayload, mark_of
from adsum.gossip.rtt import RoundTrips
from adsum.gossip.settings import GossipSettings, MemberIdentity, SuspicionMode
from adsum.gossip.source import Telling
from adsum.gossip.suspicion import Timeouts
from adsum.gossip.tally import FORGOTTEN, UNKNOWN, GossipTally
from adsum.gossip.wire import HEADER_BYTES, Packet, PacketKind, encode
from adsum.now import MILLISECOND, MINUTE, SECOND, Now
from adsum.timers import Timers

FIXED_FIELDS_BYTES = 73  # every positional field at its longest, but the spliced ones
FLAP_NS = MINUTE
# What is heard within this time goes on in one datagram; what arises here waits only so long after a push.
COALESCED_NS = 10 * MILLISECOND
# A service with its check fits; all that a host offers when it starts comes with ticks and comparisons. What
# is urgent is pushed anyway: five checks that fail at once have more in their outputs.
PUSHED_BYTES_MAX = 512
CORRECTIONS_MAX = 8


class GossipTimer(enum.Enum):
    __hash__ = object.__hash__  # that of Enum is written in Python, and timers are looked up at every turn

    ROUND = "round"
    WIDEN = "widen"
    CYCLE = "cycle"
    GOSSIP = "gossip"
    PUSH = "push"
    SUSPICION = "suspicion"
    RELAY_STREAM = "relay stream"
    RELAY_NACK = "relay nack"
    SYNC = "sync"
    SYNC_LIMIT = "sync limit"
    RECONNECT = "reconnect"
    REAP = "reap"
    JOIN_AGAIN = "join again"
    LEAVE = "leave"
    NEWCOMER = "newcomer"
    BEGIN_AGAIN = "begin again"


class SharedState:
    def __init__(
        self, now: Now, settings: GossipSettings, identity: MemberIdentity, random: Random, known: Claims
    ) -> None:
        self.settings = settings
        self.random = random
        self.claims = known
        self.me = Me(identity, now.monotonic_ns, settings.probe_interval_ns)
        self.roster = Roster(random, members_max=settings.members_max)
        self.health = Health()
        self.guard = Guard(settings.probe_interval_ns, now.monotonic_ns)
        self.clocks = Clocks(settings.build_wall_ms, self.roster.generations)
        members_max, mult = settings.members_max, settings.retransmit_mult
        self.broadcasts = Broadcasts(
            members_max=members_max, retransmit_mult=mult, is_marked=settings.push_nodes > 0
        )
        self.fresh_own = FreshNews(self.broadcasts.queues)  # what arose here
        self.fresh_heard = FreshNews(self.broadcasts.queues)
        self.recent = RecentNews()
        self.allowance = NewsAllowance()
        self.beats = Beats(settings.probe_interval_ns)
        self.vivaldi = Vivaldi(random)
        self.rtt = RoundTrips(self.vivaldi)
        self.phi = phi.Phi()
        self.tally = GossipTally()
        self.timers: Timers[tuple[GossipTimer, Hashable]] = Timers()
        self.effects: list[Effect] = []
        self.root = b""
        self.refusing: dict[bytes, None] = {}  # members that refused my own stream, and were not heard since
        # What the teller of old news should know instead: goes back with the answer to its datagram.
        self._corrections: dict[bytes, bytes] = {}
        self._sequence = 0
        self._gossip_ns = 0
        self.pushed_ns = now.monotonic_ns - COALESCED_NS  # when news was last pushed
        self._push_ns = 0

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def correct(self, subject: bytes, encoded: bytes) -> None:
        if len(self._corrections) >= CORRECTIONS_MAX:
            self.tally.answers_cut += 1
        else:
            self._corrections[subject] = encoded

    def take_corrections(self) -> tuple[bytes, ...]:
        if not self._corrections:
            return ()
        taken, self._corrections = tuple(self._corrections.values()), {}
        return taken

    def next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        return self._sequence

    @property
    def members(self) -> int:
        """How many are present, with me."""
        return self.roster.present + 1

    @property
    def known(self) -> int:
        """With those that failed, who may come back."""
        return self.members + self.roster.counts[MemberStatus.FAILED]

    def digest(self) -> int:
        return self.roster.digest ^ self.me.alive.digest

    def short_digest(self) -> int:
        """What fits into a ping; never 0, which says nothing."""
        return self.digest() & 0xFFFFFFFF or 1

    def refusals_wanted(self, about: bytes) -> int:
        """Who refuses me as well is no witness: the last of a cluster would wait for the dead to confirm."""
        silenced = len(self.refusing) - (about in self.refusing)
        return suspicion.refusals_wanted(self.members - silenced)

    def timeouts(self, now: Now) -> Timeouts:
        settings = self.settings
        interval_ns = settings.probe_interval_ns
        classic = suspicion.classic(
            self.members, interval_ns, mult=settings.suspicion_mult, max_mult=settings.suspicion_max_mult
        )
        if settings.mode is SuspicionMode.CLASSIC:
            return classic
        floor_ns = phi.floor_ns(self.members, interval_ns)
        return Timeouts(self.phi.adaptive_min_ns(now.monotonic_ns, floor_ns, classic.min_ns), classic.max_ns)

    def gap_ns(self, now: Now) -> int:
        """By how much the loop that stands still is late, or 0."""
        return self.guard.gap_ns(now.monotonic_ns, self.timers.earliest())

    # Changes.

    def change(self, now: Now, member: Member, standing: Standing, evidence: Evidence) -> None:
        before = member.standing
        if before.status is MemberStatus.FAILED and standing.status is MemberStatus.ALIVE:
            self.tally.flaps += now.monotonic_ns - member.changed_ns < FLAP_NS
        if standing.status is not MemberStatus.SUSPECT:
            self.refusing.pop(member.short, None)
        self.roster.move(member, standing, now.monotonic_ns)
        self.tell_change(member.profile, before, standing, evidence)

    def tell_change(
        self, profile: Profile, before: Standing | None, after: Standing | None, evidence: Evidence
    ) -> None:
        key = (
            before.status.value if before else UNKNOWN,
            after.status.value if after else FORGOTTEN,
            evidence.cause.value,
        )
        self.tally.transitions[key] = self.tally.transitions.get(key, 0) + 1
        self.effects.append(MemberChanged(profile, before, after, evidence))

    def note(self, note: Note, profile: Profile, evidence: Evidence) -> None:
        self.effects.append(Noted(note, profile, evidence))

    # Telling.

    def broadcast(
        self,
        now: Now,
        subject: Hashable,
        encoded: bytes,
        *,
        kind: Class = Class.MEMBERSHIP,
        telling: Telling | None = None,
        is_urgent: bool = True,
        is_heard: bool = False,
        is_pushed: bool = True,
    ) -> None:
        """With `telling` it is what another tells, or my answer to that; what is carried may be heard too."""
        if telling is not None and not telling.is_told_on:
            return
        born_ns = self._born_ns(now, subject, telling)
        is_compared = telling is not None and telling.is_sync
        is_worth_it = is_urgent or len(encoded) <= PUSHED_BYTES_MAX
        is_pushed = is_pushed and self.settings.push_nodes > 0 and is_worth_it and not is_compared
        queue = self.broadcasts.queues[kind]
        spared = queue.spared(scale_of(self.members)) if is_pushed else 0
        entry = queue.put(born_ns, subject, encoded, is_urgent=is_urgent, spared=spared)
        heard = self.recent.get(entry.mark)
        if heard is not None and heard.payload != encoded:
            heard = None  # another of the same mark
        if heard is None:  # it is named in ticks, so others will ask for it, or name it themselves
            is_claim = kind is not Class.CATALOG
            news = RecentPayload(entry.payload, born_ns, is_claim=is_claim)
            self.recent.add(now.monotonic_ns, entry.mark, news)
        if is_pushed:
            about_me = self.me.short, (self.me.short, "restarting")
            is_mine = subject in about_me if kind is Class.MEMBERSHIP else not is_heard
            is_for_all = heard is not None and heard.is_for_all
            is_own = heard is None and is_mine
            self._push_soon(now, kind, entry, is_own=is_own, is_for_all=is_for_all, is_urgent=is_urgent)
        soonest_ns = now.monotonic_ns + self.settings.gossip_interval_ns
        if self._gossip_ns > soonest_ns:
            # Without a push my own news goes at once. What all hear at the same time they do not pass on, or
            # name, in one breath.
            is_own = telling is None and not is_heard
            share = 0.0 if is_own and not is_pushed else self.random.random()
            self.gossip_at(now.monotonic_ns + int(share * self.settings.gossip_interval_ns))

    def _push_soon(
        self,
        now: Now,
        kind: Class,
        entry: QueuedBroadcast,
        *,
        is_own: bool,
        is_for_all: bool,
        is_urgent: bool,
    ) -> None:
        if is_for_all:
            queue = self.broadcasts.queues[kind]
            queue.pushed(entry, queue.told_max(scale_of(self.members)))  # by whoever told it to all
            return
        fresh = self.fresh_own if is_own else self.fresh_heard
        if not fresh.add(kind, entry, is_urgent=is_urgent):
            self.tally.pushes_put_off += 1
        if is_own:
            self.push_at(max(now.monotonic_ns, self.pushed_ns + COALESCED_NS))
        else:
            self.push_at(now.monotonic_ns + int(self.random.random() * COALESCED_NS))

    def knows(self, now: Now, encoded: bytes) -> None:
        """A claim that came with a comparison of rosters: it need not be asked for."""
        mark = mark_of(encoded)
        if encoded and mark not in self.recent:
            self.recent.add(now.monotonic_ns, mark, RecentPayload(encoded))

    def _born_ns(self, now: Now, subject: Hashable, telling: Telling | None) -> int | None:
        """What is told on was news, and is as old as the claim that brought it; but for my answer."""
        if telling is None or subject == self.me.short:
            return now.monotonic_ns
        if telling.is_sync:
            self.tally.news_by_sync += 1
        else:
            self.tally.news_by_datagram += 1
        born_ns = ages.born_ns(now.monotonic_ns, telling.age)
        if born_ns is not None:
            self.tally.news_age_s.add((now.monotonic_ns - born_ns) / SECOND)
        return born_ns

    def push_at(self, at_ns: int) -> None:
        """Or sooner, if that is set already."""
        if (GossipTimer.PUSH, None) not in self.timers or at_ns < self._push_ns:
            self._push_ns = at_ns
            self.timers.set((GossipTimer.PUSH, None), at_ns)

    def gossip_at(self, at_ns: int) -> None:
        self._gossip_ns = at_ns
        self.timers.set((GossipTimer.GOSSIP, None), at_ns)

    def send(
        self,
        now: Now,
        to: Address,
        kind: PacketKind,
        *,
        sequence: int = 0,
        about: bytes = b"",
        amount: int = 0,
        flags: int = 0,
        first: tuple[bytes, ...] = (),
        coordinate: bytes = b"",
        beats: bytes | None = None,
        have: bytes = b"",
    ) -> Packet:
        """One datagram, filled with what waits to be told."""
        room_bytes = self.room_bytes() - len(coordinate) - len(have)
        claims, told, carried = list(first), b"", list[bytes]()
        if first:
            room_bytes -= sum(map(len, first)) + HEAD_BYTES * len(first)
        if self.broadcasts:
            news, news_ages, carried, room_bytes = self.broadcasts.take(
                now.monotonic_ns, room_bytes, self.members
            )
            fresh = [(claim, age) for claim, age in zip(news, news_ages, strict=True) if claim not in first]
            claims += [claim for claim, _ in fresh]
            told = bytes([ages.UNKNOWN] * len(first) + [age for _, age in fresh]) if fresh else b""
        if beats is None:
            beats = self.beats.pack(room_bytes)
        elif len(beats) > room_bytes:
            beats = b""
        beat, root = self.me.beat(now.monotonic_ns), self.root
        packet = Packet(
            kind, sequence, about, amount, flags, beat, root, coordinate, claims, beats, carried, told, have
        )
        size_bytes = self.post([to], packet)
        if claims or carried:
            self.allowance.charge(now.monotonic_ns, size_bytes)
        return packet

    def room_bytes(self) -> int:
        """Of a datagram, for what it tells."""
        return self.settings.datagram_bytes_max - HEADER_BYTES - FIXED_FIELDS_BYTES

    def send_bare(
        self,
        now: Now,
        to: Address,
        kind: PacketKind,
        *,
        sequence: int = 0,
        about: bytes = b"",
        flags: int = 0,
    ) -> None:
        """Nothing but the message: for those who may not be who they say, so that we amplify nothing."""
        self.post([to], Packet(kind, sequence, about, flags=flags, beat=self.me.beat(now.monotonic_ns)))

    def post(self, to: Sequence[Address], packet: Packet) -> int:
        """One datagram, encoded once for all; how many bytes go out."""
        message = self.me.header + encode(packet)
        size_bytes = len(message) * len(to)
        self.tally.packets_out[packet.kind] += len(to)
        self.tally.bytes_out[packet.kind] += size_bytes
        self.effects += [Send(address, message) for address in to]
        return size_bytes
