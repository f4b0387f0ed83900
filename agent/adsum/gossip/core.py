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

from adsum.gossip import ages, claims
from adsum.gossip.beats import AGES_PER_PERIOD
from adsum.gossip.broadcasts import Class
from adsum.gossip.claim_merger import Hearsay
from adsum.gossip.claims import EVENT_BYTES_MAX, META_BYTES_MAX, Address, BadClaim, Claims
from adsum.gossip.commands import (
    Carry,
    Command,
    Describe,
    FireEvent,
    ForceLeave,
    Join,
    Leave,
    Outcome,
    Report,
    Restart,
    SetRoot,
    StreamPinged,
    SyncAnswered,
    SyncAsked,
    SyncBroken,
    SyncClosed,
    SyncFailed,
    Unreachable,
)
from adsum.gossip.effects import (
    CarriedHeard,
    ConflictSeen,
    Effect,
    EventHeard,
    GenerationRaised,
    LeaveDone,
    Paused,
    Refused,
    Refuser,
    RootHeard,
    SyncPart,
)
from adsum.gossip.events import OWN_A_SECOND
from adsum.gossip.evidence import Cause, Evidence, PhiParts
from adsum.gossip.members import Member
from adsum.gossip.order import Departure
from adsum.gossip.phi import push_time_s
from adsum.gossip.probe import Prober
from adsum.gossip.relays import Relays
from adsum.gossip.settings import GossipSettings, Identity
from adsum.gossip.shared_state import Commons, Hears, Timer
from adsum.gossip.source import Source
from adsum.gossip.suspicions import Cases
from adsum.gossip.sync import Syncs
from adsum.gossip.tally import Tally
from adsum.gossip.wire import HEADER_BYTES, Flag, Header, Kind, Malformed, Packet, decode, parse_header
from adsum.now import MINUTE, SECOND, Now

REAP_INTERVAL_NS = MINUTE
FAREWELL_EXTRA_NS = SECOND
CARRIED_BYTES_MAX = 1_024
TOO_MANY_EVENTS = (
    f"This agent fires {OWN_A_SECOND} events a second at most; try again in a moment, or say more in one."
)
KINDS = len(Kind)  # an enum counts its members anew each time


class Core:
    def __init__(
        self,
        now: Now,
        settings: GossipSettings,
        identity: Identity,
        random: Random,
        known: Claims | None = None,
    ) -> None:
        self._commons = Commons(now, settings, identity, random, Claims() if known is None else known)
        self._cases = Cases(self._commons)
        self._hearsay = Hearsay(self._commons, self._cases)
        self._prober = Prober(self._commons, self._cases, self._hearsay)
        self._hearsay.rivals.checker = self._prober
        self._relays = Relays(self._commons)
        self._syncs = Syncs(self._commons, self._hearsay)
        self._commons.digest = self._syncs.short_digest
        self._start(now)

    # What others may look at.

    @property
    def tally(self) -> Tally:
        return self._commons.tally

    @property
    def commons(self) -> Commons:
        return self._commons

    def members(self) -> list[Member]:
        """Everybody but me who is listed, in the order they were met."""
        roster = self._commons.roster
        return [each for each in roster.members.values() if each.standing.departure != Departure.PRUNED]

    def digest(self) -> int:
        """Of the whole roster with myself in it: equal digests, one view."""
        return self._syncs.digest()

    def phi(self, now: Now, member: Member) -> tuple[float, PhiParts]:
        parts = self._cases.parts(now, member, self._prober.challenge_of(now, member))
        if member.suspicion is not None:
            return parts.challenge + parts.accusation, parts
        return parts.challenge or parts.schedule, parts

    @property
    def event_time(self) -> int:
        """Lamport time of the next user event."""
        return self._hearsay.events.clock

    def holds_last_known(self, now: Now) -> bool:
        """Silent verdicts hide nothing now: we are isolated, or too many went silent at once."""
        commons = self._commons
        return commons.guard.holds_last_known(now.monotonic_ns, commons.known, commons.timeouts(now).max_ns)

    # The four verbs.

    def receive(
        self, now: Now, source: Address, message: bytes, *, is_authentic: bool = True
    ) -> list[Effect]:
        """An opened datagram. Not authentic: no key opened it although we have one."""
        self._look_for_pause(now)
        commons, tally = self._commons, self._commons.tally
        try:
            header = parse_header(message)
            packet = decode(message[HEADER_BYTES:])
        except Malformed as malformed:
            tally.drop(malformed.reason)
            return commons.take_effects()
        if packet.kind >= KINDS:
            tally.drop("kind of a later version")
        elif header.sender == commons.me.short:
            tally.drop("my own")
        else:
            tally.packets_in[packet.kind] += 1
            tally.bytes_in[packet.kind] += len(message)
            self._dispatch(now, source, header, packet, is_authentic=is_authentic)
        return commons.take_effects()

    def report(self, now: Now, report: Report) -> list[Effect]:
        self._look_for_pause(now)
        match report:
            case StreamPinged(number, outcome):
                self._stream_pinged(now, number, outcome)
            case Unreachable(address):
                self._prober.unreachable(now, address)
            case SyncAsked(ticket, message, host):
                self._syncs.asked(now, ticket, message, host)
            case SyncAnswered(ticket, message):
                self._syncs.answered(now, ticket, message)
            case SyncClosed(ticket, message):
                self._syncs.closed(now, ticket, message)
            case SyncFailed(ticket, error, is_busy):
                self._syncs.failed(now, ticket, error, is_busy=is_busy)
            case SyncBroken(ticket):
                self._syncs.broken(ticket)
        return self._commons.take_effects()

    def command(self, now: Now, command: Command) -> list[Effect]:
        match command:
            case Join(addresses):
                self._join(now, addresses)
            case Leave():
                self._leave(now)
            case Restart(duration_ms):
                self._announce_restart(now, duration_ms)
            case ForceLeave(name, is_pruned):
                self._force_leave(now, name, is_pruned=is_pruned)
            case FireEvent(name, payload):
                self._fire(now, name, payload)
            case Carry():
                self._carry(now, command)
            case SetRoot(root):
                self._commons.root = root
            case Describe(meta):
                self._describe(now, meta)
        return self._commons.take_effects()

    def tick(self, now: Now) -> list[Effect]:
        self._look_for_pause(now)
        self._commons.guard.is_timed = True
        for timer, key in self._commons.timers.take_due(now.monotonic_ns):
            self._fire_timer(now, timer, key)
        return self._commons.take_effects()

    def deadline(self) -> int | None:
        return self._commons.timers.earliest()

    # Time.

    def _start(self, now: Now) -> None:
        """Everything recurring begins at a random point of its interval: those started together spread
        out."""
        commons, settings = self._commons, self._commons.settings
        for timer, interval_ns in (
            (Timer.ROUND, settings.probe_interval_ns),
            (Timer.SYNC, settings.sync_interval_ns),
            (Timer.RECONNECT, settings.reconnect_interval_ns),
            (Timer.REAP, REAP_INTERVAL_NS),
        ):
            wait_ns = int(commons.random.random() * interval_ns)
            commons.timers.set((timer, None), now.monotonic_ns + wait_ns)
        commons.gossip_at(now.monotonic_ns + int(commons.random.random() * settings.quiet_interval_ns))
        commons.claims.remember(commons.me.alive)

    def _fire_timer(self, now: Now, timer: Timer, key: object) -> None:
        match timer, key:
            case Timer.ROUND, _:
                self._prober.round(now)
                self._sample_ages(now)
                self._syncs.compare_until_answered(now)
            case Timer.GOSSIP, _:
                self._gossip(now)
            case Timer.WIDEN, int(number):
                self._prober.widen(now, number)
            case Timer.CYCLE, int(number):
                self._prober.conclude(now, number)
            case Timer.SUSPICION, bytes(short):
                self._cases.expired(now, short)
            case Timer.RELAY_STREAM, int(number):
                self._relays.try_stream(now, number)
            case Timer.RELAY_NACK, int(number):
                self._relays.nack(now, number)
            case Timer.SYNC, _:
                self._syncs.periodic(now)
            case Timer.SYNC_LIMIT, (int(ticket), bool(is_ours)):
                self._syncs.overdue(now, ticket, is_ours=is_ours)
            case Timer.JOIN_AGAIN, (Address() as address, int(tries)):
                self._syncs.join(now, address, tries)
            case Timer.RECONNECT, _:
                self._syncs.reconnect(now)
            case Timer.REAP, _:
                self._reap(now)
            case Timer.NEWCOMER, int(sequence):
                self._hearsay.newcomers.due(now, sequence)
            case Timer.BEGIN_AGAIN, _:
                self._hearsay.begin_again(now)
            case Timer.LEAVE, _:
                self._say_done()

    def _look_for_pause(self, now: Now) -> None:
        commons, guard = self._commons, self._commons.guard
        gap_ns, idle_ns = commons.gap_ns(now), now.monotonic_ns - guard.ran_ns
        guard.ran_ns = now.monotonic_ns
        if not gap_ns:
            return
        interval_ns = commons.settings.probe_interval_ns
        self._prober.void_all()
        self._relays.drop_all()
        self._cases.shift(now, gap_ns)
        commons.health.was_paused()
        guard.paused(idle_ns, now.monotonic_ns + 2 * interval_ns)
        commons.timers.set((Timer.ROUND, None), now.monotonic_ns + interval_ns)
        commons.effects.append(Paused(idle_ns))
        self._syncs.compare_anew(now)

    def _gossip(self, now: Now) -> None:
        """To a few at random: news while there is any, and else now and then the counters of life."""
        commons, settings = self._commons, self._commons.settings
        beats: bytes | None = None
        for peer in commons.roster.pick(settings.gossip_nodes):
            beats = commons.send(now, peer.profile.address, Kind.GOSSIP, beats=beats)
        wait_ns = settings.gossip_interval_ns if commons.broadcasts else settings.quiet_interval_ns
        commons.gossip_at(now.monotonic_ns + wait_ns)

    def _sample_ages(self, now: Now) -> None:
        peers = self._commons.roster.pick(AGES_PER_PERIOD)
        self._prober.look_at_overdue(now, peers)
        self._commons.beats.sample(now.monotonic_ns, peers)

    def _reap(self, now: Now) -> None:
        commons = self._commons
        for member in commons.roster.reap(now.monotonic_ns):
            self._hearsay.newcomers.gone(member.short)
            commons.tell_change(member.profile, member.standing, None, Evidence(Cause.REAPED))
        commons.timers.set((Timer.REAP, None), now.monotonic_ns + REAP_INTERVAL_NS)

    # Datagrams.

    def _dispatch(
        self, now: Now, source: Address, header: Header, packet: Packet, *, is_authentic: bool
    ) -> None:
        member = self._commons.roster.by_short.get(header.sender)
        is_known = is_authentic and member is not None and member.profile.address == source
        if is_authentic:
            self._take_news(now, source, header, packet, member)
        if is_known and member is not None and packet.kind <= Kind.ACK:
            self._syncs.contact(now, member, packet.amount)
        if packet.kind == Kind.PING:
            self._ping(now, source, packet, member if is_known else None)
        elif not is_authentic:
            self.tally.drop("not authentic")
        elif packet.kind == Kind.ACK:
            self._acked(now, header, packet)
        elif packet.kind == Kind.NACK:
            self._prober.nacked(now, header, packet)
        elif packet.kind == Kind.PING_REQUEST and is_known:
            self._relays.ask(now, source, packet.sequence, packet.about, packet.amount)
        elif packet.kind == Kind.REFUSAL:
            self._refused(source, header, packet)
        corrections = self._hearsay.corrections.take() if self._hearsay.corrections else ()
        if corrections and is_known:
            self._commons.send(now, source, Kind.GOSSIP, first=corrections, beats=b"")

    def _acked(self, now: Now, header: Header, packet: Packet) -> None:
        if self._relays.knows(packet.sequence) and self._relays.answered(now, packet.sequence):
            return
        if not self._hearsay.newcomers.acked(now, header, packet.sequence):
            self._prober.acked(now, header, packet)

    def _take_news(
        self, now: Now, source: Address, header: Header, packet: Packet, member: Member | None
    ) -> None:
        commons = self._commons
        if packet.claims:
            is_member = member is not None and member.profile.address == source
            self._hear_claims(now, packet, Source(source, header.sender, is_member))
        if member is not None and header.generation == member.standing.generation:
            commons.beats.hear(now.monotonic_ns, member, packet.beat)
        if packet.beats:
            commons.beats.hear_all(now.monotonic_ns, commons.roster, packet.beats)
        if packet.carried:
            commons.effects.append(CarriedHeard(header.sender, tuple(packet.carried)))
        if packet.root and packet.root != commons.root:
            commons.effects.append(RootHeard(header.sender, packet.root))

    def _hear_claims(self, now: Now, packet: Packet, told_by: Source) -> None:
        commons = self._commons
        try:
            for place, encoded in enumerate(packet.claims):
                try:
                    claim = commons.claims.decode(encoded)
                except BadClaim:
                    commons.tally.drop("bad claim")
                    continue
                age = packet.ages[place] if place < len(packet.ages) else ages.UNKNOWN
                commons.hears = Hears(is_sync=False, age=age)
                self._hearsay.hear(now, claim, told_by)
        finally:
            commons.hears = None

    def _ping(self, now: Now, source: Address, packet: Packet, known: Member | None) -> None:
        """Meant for whoever had this address before me: no answer, for an answer would say it lives."""
        commons = self._commons
        if packet.about != commons.me.short:
            self.tally.drop("ping for another")
            return
        if known is None:
            commons.send_bare(now, source, Kind.ACK, sequence=packet.sequence)
        else:
            commons.guard.was_probed(now.monotonic_ns)
            told = (known.verdict.encoded,) if known.verdict is not None else ()
            commons.send(
                *(now, source, Kind.ACK),
                sequence=packet.sequence,
                amount=commons.digest(),
                first=told,
                coordinate=commons.vivaldi.packed,
            )

    def _refused(self, source: Address, header: Header, packet: Packet) -> None:
        """Our name or id is another's, says a member. Nothing is done about it here but to say so."""
        if packet.flags & Flag.CONFLICT:
            commons = self._commons
            profile = commons.me.profile
            holder = self._hearsay.rivals.refused_for(packet.about) or profile
            refuser = Refuser(header.sender, source, packet.about)
            commons.effects.append(ConflictSeen(holder, profile, refuser))

    def _stream_pinged(self, now: Now, number: int, outcome: Outcome) -> None:
        is_refused = outcome is Outcome.REFUSED
        if self._cases.looked_again(now, number, is_refused=is_refused):
            return
        if self._hearsay.newcomers.stream_pinged(now, number, outcome):
            return
        if self._relays.knows(number):
            if is_refused:
                self._relays.refused(now, number)
            elif outcome is Outcome.ANSWERED:
                self._relays.answered(now, number)
        elif is_refused:
            self._prober.stream_refused(now, number)
        elif outcome is Outcome.ANSWERED:
            self._prober.stream_answered(now, number)
        else:
            self._prober.stream_failed(number, outcome)

    # Commands.

    def _join(self, now: Now, addresses: tuple[Address, ...]) -> None:
        commons = self._commons
        if commons.me.departure:  # a new life in the same process
            commons.me.departure = Departure.NONE
            commons.me.raise_generation(commons.me.generation)
            commons.effects.append(GenerationRaised(commons.me.generation))
            self._start(now)
            self._hearsay.publish_me(now)
        for address in addresses:
            if address != commons.me.profile.address:
                self._syncs.join(now, address)

    def _leave(self, now: Now) -> None:
        commons = self._commons
        me = commons.me
        if me.departure:
            return
        claim = claims.left(me.short, me.generation, me.incarnation, Departure.LEFT, me.short)
        me.departure = Departure.LEFT
        self._say_farewell(now, claim.encoded)

    def _announce_restart(self, now: Now, duration_ms: int) -> None:
        me = self._commons.me
        claim = claims.restarting(me.short, me.generation, duration_ms)
        self._commons.broadcast(now, (me.short, "restarting"), claim.encoded)
        self._finish_after_farewell(now)

    def _say_farewell(self, now: Now, encoded: bytes) -> None:
        me = self._commons.me
        self._commons.broadcast(now, me.short, encoded)
        self._syncs.say_farewell(SyncPart(me.alive.encoded, encoded))
        self._commons.timers.cancel((Timer.ROUND, None))
        self._finish_after_farewell(now)

    def _finish_after_farewell(self, now: Now) -> None:
        """By the time news takes to reach everybody, not by when a queue is empty: it may never be."""
        if not self._commons.roster.present:
            self._say_done()
            return
        wait_ns = int(push_time_s(self._commons.members) * SECOND) + FAREWELL_EXTRA_NS
        self._commons.timers.set((Timer.LEAVE, None), now.monotonic_ns + wait_ns)

    def _say_done(self) -> None:
        commons = self._commons
        commons.effects.append(LeaveDone())
        if commons.me.departure:
            for timer in (Timer.GOSSIP, Timer.SYNC, Timer.RECONNECT, Timer.REAP):
                commons.timers.cancel((timer, None))

    def _force_leave(self, now: Now, name: str, *, is_pruned: bool) -> None:
        commons = self._commons
        member = commons.roster.by_name_of(name)
        if member is None:
            commons.effects.append(Refused(f"No member is called {name!r}; see `adsum members`."))
            return
        departure = Departure.PRUNED if is_pruned else Departure.LEFT
        generation, _departure, incarnation, _rank = member.standing
        claim = claims.left(member.short, generation, incarnation, departure, commons.me.short)
        self._hearsay.hear(now, claim, Source(None, commons.me.short, is_member=True))

    def _fire(self, now: Now, name: str, payload: bytes) -> None:
        commons = self._commons
        if len(name.encode()) + len(payload) > EVENT_BYTES_MAX:
            sentence = f"Name and payload of an event may be {EVENT_BYTES_MAX} bytes together; send less."
            commons.effects.append(Refused(sentence))
            return
        events = self._hearsay.events
        if not events.may_fire(now):
            commons.effects.append(Refused(TOO_MANY_EVENTS))
            return
        clock, count = events.next_stamp()
        event = claims.user_event(commons.me.short, clock, count, name, payload)
        events.is_new(now, event)
        commons.effects.append(EventHeard(event))
        commons.broadcast(now, (event.subject, clock, count), event.encoded, Class.EVENTS)

    def _carry(self, now: Now, command: Carry) -> None:
        if len(command.payload) > CARRIED_BYTES_MAX:
            sentence = f"A payload may be {CARRIED_BYTES_MAX} bytes; announce it and let it be fetched."
            self._commons.effects.append(Refused(sentence))
        else:
            self._commons.broadcast(now, command.key, command.payload, Class.CATALOG)

    def _describe(self, now: Now, meta: bytes) -> None:
        if len(meta) > META_BYTES_MAX:
            sentence = f"A member may describe itself in {META_BYTES_MAX} bytes; node meta takes more."
            self._commons.effects.append(Refused(sentence))
        else:
            self._commons.me.describe(meta)
            self._hearsay.publish_me(now)
