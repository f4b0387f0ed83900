"""The roll: who is present, why we believe so, and what we tell others about it.

SWIM with Lifeguard's corrections and phi beside it, without I/O: time, datagrams, reports about streams and
commands go in, effects come out. Everything a call caused is in what it returns; nothing happens between
calls but that `deadline()` comes. What malformed or foreign datagrams bring is counted in `tally.dropped`
and forgotten.

    receive(now, source, message)    one opened datagram    report(now, …)    how streams went, ICMP errors
    command(now, …)                  from this host         tick(now)         the deadline has come
"""

from __future__ import annotations

from random import Random

from adsum.address import Address
from adsum.cbor import BadEncoding
from adsum.gossip import ages, claims, commands
from adsum.gossip.beats import AGES_PER_PERIOD
from adsum.gossip.broadcasts import Class
from adsum.gossip.claim_merger import ClaimMerger
from adsum.gossip.claims import EVENT_BYTES_MAX, META_BYTES_MAX, Claims
from adsum.gossip.eager_push import EagerPush
from adsum.gossip.effects import (
    CarriedHeard,
    ConflictSeen,
    Effect,
    EventHeard,
    GenerationRaised,
    GossipRefused,
    LeaveDone,
    Paused,
    Refuser,
    RootHeard,
    SyncPart,
)
from adsum.gossip.events import OWN_A_SECOND
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.members import Member
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.newcomers import SEQUENCE_FIRST, Newcomer
from adsum.gossip.order import Departure
from adsum.gossip.phi import push_time_s
from adsum.gossip.probe import Prober
from adsum.gossip.relays import Relays
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.source import Source, Telling
from adsum.gossip.suspicions import Suspicions
from adsum.gossip.sync import Syncs
from adsum.gossip.wire import (
    HEADER_BYTES,
    Header,
    MalformedPacket,
    Packet,
    PacketFlag,
    PacketKind,
    decode,
    parse_header,
)
from adsum.now import MINUTE, SECOND, Now

REAP_INTERVAL_NS = MINUTE
FAREWELL_EXTRA_NS = SECOND
CARRIED_BYTES_MAX = 1_024
TOO_MANY_EVENTS = (
    f"This agent fires {OWN_A_SECOND} events a second at most; try again in a moment, or say more in one."
)
KINDS = len(PacketKind)  # an enum counts its members anew each time


class GossipCore:
    def __init__(
        self,
        now: Now,
        settings: GossipSettings,
        identity: MemberIdentity,
        random: Random,
        known: Claims | None = None,
    ) -> None:
        self._shared = SharedState(now, settings, identity, random, Claims() if known is None else known)
        self._suspicions = Suspicions(self._shared)
        self._prober = Prober(self._shared, self._suspicions)
        self._merger = ClaimMerger(self._shared, self._suspicions, self._prober)
        self._relays = Relays(self._shared)
        self._syncs = Syncs(self._shared, self._merger)
        self._eager = EagerPush(self._shared)
        self._beats_due_ns = now.monotonic_ns  # to ride on a tick
        # What others look at.
        self.tally = self._shared.tally
        self.membership = MembershipView(self._shared, self._suspicions, self._prober, self._merger.events)
        self._start(now)

    # The four verbs.

    def receive(
        self, now: Now, source: Address, message: bytes, *, is_authentic: bool = True
    ) -> list[Effect]:
        """An opened datagram. Not authentic: no key opened it although we have one."""
        self._look_for_pause(now)
        shared, tally = self._shared, self._shared.tally
        try:
            header = parse_header(message)
            packet = decode(message[HEADER_BYTES:])
        except MalformedPacket as malformed:
            tally.drop(malformed.reason)
            return shared.take_effects()
        if packet.kind >= KINDS:
            tally.drop("kind of a later version")
        elif header.sender == shared.me.short:
            tally.drop("my own")
        else:
            tally.packets_in[packet.kind] += 1
            tally.bytes_in[packet.kind] += len(message)
            self._dispatch(now, source, header, packet, is_authentic=is_authentic)
        return shared.take_effects()

    def report(self, now: Now, report: commands.Report) -> list[Effect]:
        self._look_for_pause(now)
        match report:
            case commands.StreamPinged(number, outcome):
                self._stream_pinged(now, number, outcome)
            case commands.DatagramUnreachable(address):
                self._prober.unreachable(now, address)
            case commands.SyncAsked(ticket, message, host):
                self._syncs.asked(now, ticket, message, host)
            case commands.SyncAnswered(ticket, message):
                self._syncs.answered(now, ticket, message)
            case commands.SyncClosed(ticket, message):
                self._syncs.closed(now, ticket, message)
            case commands.SyncFailed(ticket, error, is_busy):
                self._syncs.failed(now, ticket, error, is_busy=is_busy)
            case commands.SyncBroken(ticket):
                self._syncs.broken(ticket)
        return self._shared.take_effects()

    def command(self, now: Now, command: commands.Command) -> list[Effect]:
        match command:
            case commands.Join(addresses):
                self._join(now, addresses)
            case commands.Leave():
                self._leave(now)
            case commands.Restart(duration_ms):
                me = self._shared.me
                claim = claims.restarting(me.short, me.generation, duration_ms)
                self._shared.broadcast(now, (me.short, "restarting"), claim.encoded)
                self._finish_after_farewell(now)
            case commands.ForceLeave(name, is_pruned):
                self._force_leave(now, name, is_pruned=is_pruned)
            case commands.FireEvent(name, payload):
                self._fire(now, name, payload)
            case commands.Carry(payload=payload) if len(payload) > CARRIED_BYTES_MAX:
                self._refuse(
                    f"A payload may be {CARRIED_BYTES_MAX} bytes; announce it and let it be fetched."
                )
            case commands.Carry(key, payload, is_urgent, is_heard):
                self._shared.broadcast(
                    now, key, payload, kind=Class.CATALOG, is_urgent=is_urgent, is_heard=is_heard
                )
            case commands.SetRoot(root):
                self._shared.root = root
            case commands.Describe(meta) if len(meta) > META_BYTES_MAX:
                self._refuse(f"A member may describe itself in {META_BYTES_MAX} bytes; node meta takes more.")
            case commands.Describe(meta):
                self._shared.me.describe(meta)
                self._merger.publish_me(now)
        return self._shared.take_effects()

    def tick(self, now: Now) -> list[Effect]:
        self._look_for_pause(now)
        self._shared.guard.is_timed = True
        for timer in self._shared.timers.take_due(now.monotonic_ns):
            match timer:
                case GossipTimer.ROUND, _:
                    self._prober.round(now)
                    peers = self._shared.roster.pick(AGES_PER_PERIOD)
                    self._prober.look_at_overdue(now, peers)
                    self._shared.beats.sample(now.monotonic_ns, peers)
                    self._syncs.compare_until_answered(now)
                case GossipTimer.GOSSIP, _:
                    self._gossip(now)
                case GossipTimer.PUSH, _:
                    self._eager.push(now)
                case GossipTimer.WIDEN, int(number):
                    self._prober.widen(now, number)
                case GossipTimer.CYCLE, int(number):
                    self._merger.checked(now, self._prober.conclude(now, number))
                case GossipTimer.SUSPICION, bytes(short):
                    self._suspicions.expired(now, short)
                case GossipTimer.RELAY_STREAM, int(number):
                    self._relays.try_stream(now, number)
                case GossipTimer.RELAY_NACK, int(number):
                    self._relays.nack(now, number)
                case GossipTimer.SYNC, _:
                    self._syncs.periodic(now)
                case GossipTimer.SYNC_LIMIT, (int(ticket), bool(is_ours)):
                    self._syncs.overdue(now, ticket, is_ours=is_ours)
                case GossipTimer.JOIN_AGAIN, (Address() as address, int(tries)):
                    self._syncs.join(now, address, tries)
                case GossipTimer.RECONNECT, _:
                    self._syncs.reconnect(now)
                case GossipTimer.REAP, _:
                    self._reap(now)
                case GossipTimer.NEWCOMER, int(sequence):
                    self._merger.newcomers.due(now, sequence)
                case GossipTimer.BEGIN_AGAIN, _:
                    self._merger.begin_again(now)
                case GossipTimer.LEAVE, _:
                    self._say_done()
        return self._shared.take_effects()

    def deadline(self) -> int | None:
        return self._shared.timers.earliest()

    # Time.

    def _start(self, now: Now) -> None:
        """Everything recurring begins at a random point of its interval: those started together spread
        out."""
        shared, settings = self._shared, self._shared.settings
        for timer, interval_ns in (
            (GossipTimer.ROUND, settings.probe_interval_ns),
            (GossipTimer.SYNC, settings.sync_interval_ns),
            (GossipTimer.RECONNECT, settings.reconnect_interval_ns),
            (GossipTimer.REAP, REAP_INTERVAL_NS),
        ):
            wait_ns = int(shared.random.random() * interval_ns)
            shared.timers.set((timer, None), now.monotonic_ns + wait_ns)
        shared.gossip_at(now.monotonic_ns + int(shared.random.random() * settings.quiet_interval_ns))
        shared.claims.remember(shared.me.alive)

    def _look_for_pause(self, now: Now) -> None:
        shared, guard = self._shared, self._shared.guard
        gap_ns, idle_ns = shared.gap_ns(now), now.monotonic_ns - guard.ran_ns
        guard.ran_ns = now.monotonic_ns
        if not gap_ns:
            return
        interval_ns = shared.settings.probe_interval_ns
        self._prober.void_all()
        self._relays.drop_all()
        self._suspicions.shift(now, gap_ns)
        shared.health.was_paused()
        guard.paused(idle_ns, now.monotonic_ns + 2 * interval_ns)
        shared.timers.set((GossipTimer.ROUND, None), now.monotonic_ns + interval_ns)
        shared.effects.append(Paused(idle_ns))
        self._syncs.compare_anew(now)

    def _gossip(self, now: Now) -> None:
        """To a few at random: news while there is any, and now and then, with or without it, the counters of
        life."""
        shared, settings = self._shared, self._shared.settings
        beats = None if now.monotonic_ns >= self._beats_due_ns else b""
        if beats is None:
            # At no fixed interval: what all hear at one time lines up their ticks, and a member that dies
            # after the last of them would get no datagram, and so be found by none, for most of a second.
            wait_ns = int((0.5 + shared.random.random()) * settings.quiet_interval_ns)
            self._beats_due_ns = now.monotonic_ns + wait_ns
        have = shared.broadcasts.take_marks()
        to = [peer.profile.address for peer in shared.roster.pick(settings.gossip_nodes)]
        while to:
            packet = shared.send(now, to.pop(0), PacketKind.GOSSIP, beats=beats, have=have)
            beats = packet.beats
            if to and not (packet.claims or packet.carried):  # nor is there anything to tell the others
                shared.post(to, packet)
                break
        next_ns = now.monotonic_ns + settings.gossip_interval_ns if shared.broadcasts else self._beats_due_ns
        shared.gossip_at(next_ns)

    def _reap(self, now: Now) -> None:
        shared = self._shared
        for member in shared.roster.reap(now.monotonic_ns):
            self._merger.newcomers.gone(member.short)
            shared.tell_change(member.profile, member.standing, None, Evidence(ChangeCause.REAPED))
        shared.timers.set((GossipTimer.REAP, None), now.monotonic_ns + REAP_INTERVAL_NS)

    # Datagrams.

    def _dispatch(
        self, now: Now, source: Address, header: Header, packet: Packet, *, is_authentic: bool
    ) -> None:
        member = self._shared.roster.by_short.get(header.sender)
        is_known = is_authentic and member is not None and member.profile.address == source
        if is_authentic:
            self._take_news(now, source, header, packet, member)
        if is_known and member is not None and packet.kind <= PacketKind.ACK:
            self._syncs.contact(now, member, packet.amount)
        if packet.kind == PacketKind.PING:
            self._ping(now, source, packet, member if is_known else None)
        elif not is_authentic:
            self.tally.drop("not authentic")
        elif packet.kind == PacketKind.ACK:
            self._acked(now, header, packet)
        elif packet.kind == PacketKind.NACK:
            self._merger.checked(now, self._prober.nacked(now, header, packet))
        elif packet.kind == PacketKind.PING_REQUEST and is_known:
            self._relays.ask(now, source, packet.sequence, packet.about, packet.amount)
        elif packet.kind == PacketKind.REFUSAL:
            self._refused(source, header, packet)
        if is_known and packet.have:
            self._eager.ask_for_lacking(now, source, packet.have)
        if is_known and packet.want:
            self._eager.answer(now, source, packet.want)
        corrections = self._shared.take_corrections()
        if corrections and is_known:
            self._shared.send(now, source, PacketKind.GOSSIP, first=corrections, beats=b"")

    def _acked(self, now: Now, header: Header, packet: Packet) -> None:
        if self._relays.answered(now, packet.sequence):
            return
        newcomers = self._merger.newcomers
        if newcomers.awaits(packet.sequence):
            self._admit(now, newcomers.acked(header, packet.sequence))
        else:
            self._merger.checked(now, self._prober.acked(now, header, packet))

    def _admit(self, now: Now, newcomer: Newcomer | None) -> None:
        """What it told of others, while it was a stranger, it is asked for again."""
        member = self._merger.admit(now, newcomer.told) if newcomer is not None else None
        if newcomer is not None and member is not None and newcomer.has_more:
            self._syncs.ask_for_more(now, member.profile.address)

    def _take_news(
        self, now: Now, source: Address, header: Header, packet: Packet, member: Member | None
    ) -> None:
        shared = self._shared
        is_member = member is not None and member.profile.address == source
        if is_member:
            self._eager.remember(now, packet)
        for place, encoded in enumerate(packet.claims):
            try:
                claim = shared.claims.decode(encoded)
            except BadEncoding:
                shared.tally.drop("bad claim")
                continue
            age = packet.ages[place] if place < len(packet.ages) else ages.UNKNOWN
            telling = Telling(is_sync=False, age=age)
            self._merger.hear(now, claim, Source(source, header.sender, is_member, telling=telling))
        if member is not None and header.generation == member.standing.generation:
            shared.beats.hear(now.monotonic_ns, member, packet.beat)
        if packet.beats:
            shared.beats.hear_all(now.monotonic_ns, shared.roster, packet.beats)
        if packet.carried:
            shared.effects.append(CarriedHeard(header.sender, tuple(packet.carried)))
        if packet.root and packet.root != shared.root:
            shared.effects.append(RootHeard(header.sender, packet.root))

    def _ping(self, now: Now, source: Address, packet: Packet, known: Member | None) -> None:
        """Meant for whoever had this address before me: no answer, for an answer would say it lives."""
        shared = self._shared
        if packet.about != shared.me.short:
            self.tally.drop("ping for another")
            return
        if known is None:
            shared.send_bare(now, source, PacketKind.ACK, sequence=packet.sequence)
        else:
            shared.guard.was_probed(now.monotonic_ns)
            told = (known.verdict.encoded,) if known.verdict is not None else ()
            number, digest, here = packet.sequence, shared.short_digest(), shared.vivaldi.packed
            shared.send(
                now, source, PacketKind.ACK, sequence=number, amount=digest, first=told, coordinate=here
            )

    def _refused(self, source: Address, header: Header, packet: Packet) -> None:
        """Our name or id is another's, says a member. Nothing is done about it here but to say so."""
        if packet.flags & PacketFlag.CONFLICT:
            profile = self._shared.me.profile
            holder = self._merger.rivals.refused_for(packet.about) or profile
            refuser = Refuser(header.sender, source, packet.about)
            self._shared.effects.append(ConflictSeen(holder, profile, refuser))

    def _stream_pinged(self, now: Now, number: int, outcome: commands.PingOutcome) -> None:
        is_refused = outcome is commands.PingOutcome.REFUSED
        if self._suspicions.looked_again(now, number, is_refused=is_refused):
            return
        if number >= SEQUENCE_FIRST:
            self._admit(now, self._merger.newcomers.stream_pinged(number, outcome))
        elif self._relays.knows(number):
            if is_refused:
                self._relays.nack(now, number, PacketFlag.REFUSED)
            elif outcome is commands.PingOutcome.ANSWERED:
                self._relays.answered(now, number)
        elif is_refused:
            self._merger.checked(now, self._prober.stream_refused(now, number))
        elif outcome is commands.PingOutcome.ANSWERED:
            self._merger.checked(now, self._prober.stream_answered(number))
        else:
            self._prober.stream_failed(number, outcome)

    # Commands.

    def _join(self, now: Now, addresses: tuple[Address, ...]) -> None:
        shared = self._shared
        if shared.me.departure:  # a new life in the same process
            shared.me.departure = Departure.NONE
            shared.me.raise_generation(shared.me.generation)
            shared.effects.append(GenerationRaised(shared.me.generation))
            self._start(now)
            self._merger.publish_me(now)
        for address in addresses:
            if address != shared.me.profile.address:
                self._syncs.join(now, address)

    def _leave(self, now: Now) -> None:
        shared, me = self._shared, self._shared.me
        if me.departure:
            return
        claim = claims.left(me.short, me.generation, me.incarnation, Departure.LEFT, me.short)
        me.departure = Departure.LEFT
        shared.broadcast(now, me.short, claim.encoded)
        self._syncs.say_farewell(SyncPart(me.alive.encoded, claim.encoded))
        shared.timers.cancel((GossipTimer.ROUND, None))
        self._finish_after_farewell(now)

    def _finish_after_farewell(self, now: Now) -> None:
        """By the time news takes to reach everybody, not by when a queue is empty: it may never be."""
        if not self._shared.roster.present:
            self._say_done()
            return
        wait_ns = int(push_time_s(self._shared.members) * SECOND) + FAREWELL_EXTRA_NS
        self._shared.timers.set((GossipTimer.LEAVE, None), now.monotonic_ns + wait_ns)

    def _say_done(self) -> None:
        shared = self._shared
        shared.effects.append(LeaveDone())
        if shared.me.departure:
            for timer in (GossipTimer.GOSSIP, GossipTimer.SYNC, GossipTimer.RECONNECT, GossipTimer.REAP):
                shared.timers.cancel((timer, None))

    def _force_leave(self, now: Now, name: str, *, is_pruned: bool) -> None:
        shared = self._shared
        member = shared.roster.by_name_of(name)
        if member is None:
            self._refuse(f"No member is called {name!r}; see `adsum members`.")
            return
        departure = Departure.PRUNED if is_pruned else Departure.LEFT
        generation, _departure, incarnation, _rank = member.standing
        claim = claims.left(member.short, generation, incarnation, departure, shared.me.short)
        self._merger.hear(now, claim, Source(None, shared.me.short, is_member=True))

    def _fire(self, now: Now, name: str, payload: bytes) -> None:
        shared = self._shared
        if len(name.encode()) + len(payload) > EVENT_BYTES_MAX:
            self._refuse(f"Name and payload of an event may be {EVENT_BYTES_MAX} bytes together; send less.")
            return
        events = self._merger.events
        if not events.may_fire(now):
            self._refuse(TOO_MANY_EVENTS)
            return
        clock, count = events.next_stamp()
        event = claims.user_event(shared.me.short, clock, count, name, payload)
        events.is_new(now, event)
        shared.effects.append(EventHeard(event))
        shared.broadcast(now, (event.subject, clock, count), event.encoded, kind=Class.EVENTS)

    def _refuse(self, sentence: str) -> None:
        self._shared.effects.append(GossipRefused(sentence))
