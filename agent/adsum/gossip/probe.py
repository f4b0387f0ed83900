"""Looking after one member at a time, by every leg there is.

A round probes the next of the shuffled lap: a datagram first; when that stays unanswered for longer than 99
in 100 do, three helpers and a stream as well; at the end of the period the cycle is judged. An ICMP error
for any datagram we sent starts a cycle out of turn, at once: that is what makes a crash known fast, without
being evidence itself.

Evidence of refusal is a stream connection that was refused, to me or to helpers; when enough members have
met it and the datagram legs are silent, the accusation does not wait for the end of the period."""

from __future__ import annotations

from adsum.address import Address
from adsum.gossip import coordinates
from adsum.gossip.claims import Alive, Left, Profile
from adsum.gossip.commands import PingOutcome
from adsum.gossip.effects import IsolationChanged, Note, PingStream
from adsum.gossip.evidence import ChangeCause, Evidence, Leg
from adsum.gossip.members import Member
from adsum.gossip.order import Rank
from adsum.gossip.rtt import Path
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.suspicion import CONFIRMATIONS, confirmations_wanted
from adsum.gossip.suspicions import Suspicions
from adsum.gossip.wire import Header, Packet, PacketFlag, PacketKind
from adsum.named import NamedTuple
from adsum.now import MILLISECOND, SECOND, Now

OUT_OF_TURN_MAX = 8  # cycles at once beside the round's
MOVES_CHECKED_MAX = 64
STREAM_SHARE = 0.9  # of what is left of the cycle, so that its outcome is known when the cycle is judged
# In each round so many counters are compared with what is usual: at fifteen members the host that
# fell silent is looked at after 0.6 s instead of 1.0, for a tenth more datagrams. More add cost, not speed.
OVERDUE_PEERS = 2
PHI_OF_A_LOOK = 1.5
# Of all who hear an accusation: twice as many as must confirm it, for some are too late or cannot tell.
LOOK_TOO = 2 * CONFIRMATIONS


class Probe:
    __slots__ = (
        "deadline_ns",
        "generation",
        "helpers",
        "legs",
        "member",
        "nackers",
        "refusers",
        "rival",
        "sent_ns",
        "sequence",
        "told",
        "widened_ns",
    )

    def __init__(self, sequence: int, member: Member, sent_ns: int, deadline_ns: int) -> None:
        self.sequence = sequence
        self.member = member
        self.generation = member.standing.generation
        self.sent_ns = sent_ns
        self.deadline_ns = deadline_ns
        self.told: Alive | Left | None = None  # of a life elsewhere; true unless the member answers as it was
        self.rival: Alive | None = None  # claims its name from elsewhere; a conflict if the member answers
        self.helpers: list[Member] = []
        self.nackers: dict[bytes, None] = {}
        self.refusers: dict[bytes, None] = {}
        self.legs = Leg.DIRECT
        self.widened_ns = 0


class Checked(NamedTuple):
    """What asking a member has shown of what others tell about it."""

    member: Member
    found: Alive | Left | None  # told, and so it is
    rivals: tuple[Profile, ...]  # that claim to be it, or its name, while it is there


class Prober:
    def __init__(self, shared: SharedState, suspicions: Suspicions) -> None:
        self.shared = shared
        self.suspicions = suspicions
        self._probes: dict[int, Probe] = {}
        self._by_member: dict[Member, Probe] = {}

    # Beginning.

    def round(self, now: Now) -> None:
        shared = self.shared
        period_ns = shared.settings.probe_interval_ns * shared.health.multiplier
        member = shared.roster.next_target()
        if member is not None and not member.is_away(now.monotonic_ns):
            shared.tally.probed_phi.add(shared.beats.phi(now.monotonic_ns, member))
        if member is not None and member not in self._by_member:
            self._begin(now, member, period_ns)
        shared.timers.set((GossipTimer.ROUND, None), now.monotonic_ns + period_ns)

    def check(self, now: Now, member: Member, told: Alive | Left) -> None:
        """Is the member still where it was, in the life that we know? If not, what is told is so."""
        probe = self._by_member.get(member)
        if probe is None and len(self._probes) < MOVES_CHECKED_MAX:
            probe = self._begin(now, member, self.shared.settings.probe_interval_ns)
        if probe is not None and (probe.told is None or probe.told.standing < told.standing):
            probe.told = told

    def challenge(self, now: Now, holder: Member, told: Alive) -> None:
        """Is it still there whose name another claims? Only then do two have it."""
        probe = self._by_member.get(holder) or self._begin_out_of_turn(now, holder)
        if probe is not None:
            probe.rival = told

    def look_at_overdue(self, now: Now, peers: list[Member]) -> None:
        """A counter older than nearly any other's is no evidence, but a reason not to wait for one's turn."""
        for member in peers[:OVERDUE_PEERS]:
            is_calm = member.standing.rank == Rank.ALIVE and not member.is_away(now.monotonic_ns)
            if is_calm and self.shared.beats.phi(now.monotonic_ns, member) >= PHI_OF_A_LOOK:
                self._begin_out_of_turn(now, member)

    def look_too(self, now: Now, member: Member) -> None:
        """Another accuses it: a few of those who hear it look at once, so that the case is confirmed or
        refuted soon, and not when everybody's turn comes."""
        shared = self.shared
        case = member.suspicion
        is_open = case is not None and case.confirmations < confirmations_wanted(shared.members)
        if is_open and shared.random.random() * shared.members < LOOK_TOO:
            self._begin_out_of_turn(now, member)

    def unreachable(self, now: Now, address: Address) -> None:
        """A datagram of ours came back: look at once, and by all legs."""
        shared = self.shared
        member = shared.roster.by_address.get(address)
        if member is None or not member.standing.is_present or member.is_away(now.monotonic_ns):
            return
        case, probe = member.suspicion, self._by_member.get(member)
        if probe is None and case is not None and case.is_refused(shared.refusals_wanted(member.short)):
            return  # nothing to find out any more
        probe = probe or self._begin_out_of_turn(now, member)
        if probe is not None:
            probe.legs |= Leg.ICMP

    def _begin_out_of_turn(self, now: Now, member: Member) -> Probe | None:
        shared = self.shared
        if member in self._by_member:
            return None
        if len(self._probes) > OUT_OF_TURN_MAX:
            shared.tally.probes_refused += 1
            return None
        shared.tally.probes_out_of_turn += 1
        return self._begin(now, member, shared.settings.probe_interval_ns * shared.health.multiplier)

    def _begin(self, now: Now, member: Member, period_ns: int) -> Probe:
        shared = self.shared
        shared.tally.probes += 1
        shared.phi.cycles += 1
        probe = Probe(shared.next_sequence(), member, now.monotonic_ns, now.monotonic_ns + period_ns)
        self._probes[probe.sequence] = probe
        self._by_member[member] = probe
        told = (member.verdict.encoded,) if member.verdict is not None else ()
        to, number, digest = member.profile.address, probe.sequence, shared.short_digest()
        shared.send(now, to, PacketKind.PING, sequence=number, about=member.short, amount=digest, first=told)
        latest_ns = shared.settings.probe_timeout_ns
        wait_ns = shared.rtt.indirect_after_ns(member.path, latest_ns) * shared.health.multiplier
        shared.timers.set((GossipTimer.WIDEN, probe.sequence), now.monotonic_ns + wait_ns)
        shared.timers.set((GossipTimer.CYCLE, probe.sequence), probe.deadline_ns)
        return probe

    # Widening.

    def widen(self, now: Now, sequence: int) -> None:
        probe = self._probes.get(sequence)
        if probe is None or probe.widened_ns:
            return
        shared = self.shared
        probe.widened_ns = now.monotonic_ns
        probe.helpers = shared.roster.pick(shared.settings.indirect_checks, besides=probe.member)
        about, left_ns = probe.member.short, probe.deadline_ns - now.monotonic_ns
        left_ms = max(1, left_ns // MILLISECOND)
        for helper in probe.helpers:
            to = helper.profile.address
            shared.send(now, to, PacketKind.PING_REQUEST, sequence=sequence, about=about, amount=left_ms)
        timeout_ns = max(MILLISECOND, int(left_ns * STREAM_SHARE))
        shared.effects.append(PingStream(sequence, about, probe.member.profile.address, timeout_ns))

    # Answers.

    def acked(self, now: Now, header: Header, packet: Packet) -> Checked | None:
        probe = self._probes.get(packet.sequence)
        if probe is None:
            return None
        member = probe.member
        if header.sender == member.short:
            self._measure(now, probe, packet)
        elif not (packet.about == member.short and self._is_helper(probe, header.sender)):
            self.shared.tally.drop("ack of another")
            return None
        elif probe.told is not None:
            return None  # the helper may know it where it is now; asked is whether it still is where it was
        else:
            self._note_detour(member)
        shared = self.shared
        shared.rtt.loss.add(is_lost=header.sender != member.short)
        return self._succeed(probe, header.generation if header.sender == member.short else None)

    def nacked(self, now: Now, header: Header, packet: Packet) -> Checked | None:
        probe = self._probes.get(packet.sequence)
        if probe is None or packet.about != probe.member.short or not self._is_helper(probe, header.sender):
            return None
        probe.nackers[header.sender] = None
        if not packet.flags & PacketFlag.REFUSED:
            return None
        probe.refusers[header.sender] = None
        return self._conclude_if_refused(now, probe)

    def stream_answered(self, sequence: int) -> Checked | None:
        probe = self._probes.get(sequence)
        if probe is None:
            return None
        self.shared.rtt.loss.add(is_lost=True)
        self.shared.tally.asymmetric_paths += 1
        probe.member.has_answered = True
        self._note_detour(probe.member)
        return self._succeed(probe, None)

    def stream_refused(self, now: Now, sequence: int) -> Checked | None:
        probe = self._probes.get(sequence)
        if probe is None:
            return None
        probe.legs |= Leg.STREAM
        probe.refusers = {self.shared.me.short: None, **probe.refusers}
        self.shared.refusing[probe.member.short] = None
        return self._conclude_if_refused(now, probe)

    def stream_failed(self, sequence: int, outcome: PingOutcome) -> None:
        probe = self._probes.get(sequence)
        if probe is not None and outcome is not PingOutcome.UNTRIED:
            probe.legs |= Leg.STREAM
            if outcome is PingOutcome.SILENT:
                probe.legs |= Leg.HOST

    def _measure(self, now: Now, probe: Probe, packet: Packet) -> None:
        shared, member = self.shared, probe.member
        if member.path is None:
            member.path = Path()
        path = member.path
        path.is_direct_ok = True
        member.has_answered = True
        path.heard_ns = now.monotonic_ns
        if packet.coordinate:
            path.coordinate = coordinates.unpack(packet.coordinate) or path.coordinate
        rtt_ns = now.monotonic_ns - probe.sent_ns
        shared.tally.rtt_s.add(rtt_ns / SECOND)
        if shared.health.score <= 3:  # in trouble I would measure myself
            shared.rtt.observe(now.monotonic_ns, path, rtt_ns)

    def _note_detour(self, member: Member) -> None:
        member.path = member.path or Path()
        member.path.is_direct_ok = False

    def _is_helper(self, probe: Probe, sender: bytes) -> bool:
        return any(helper.short == sender for helper in probe.helpers)

    # The end.

    def _succeed(self, probe: Probe, generation: int | None) -> Checked | None:
        """In which life, if the answer says so."""
        self._end(probe)
        self.shared.health.probe_answered()
        self.shared.refusing.pop(probe.member.short, None)
        self._note_target(probe.member, is_failed=False)
        if probe.told is None and probe.rival is None:
            return None
        found: Alive | Left | None = None
        rivals = [probe.rival.profile] if probe.rival is not None else []
        match probe.told:
            case Alive() | Left() as told if (generation or 0) >= told.standing.generation:
                found = told
            case Left():
                self.shared.tally.drop("leave message of a copy")
            case Alive(profile=copy):  # the old one is there
                rivals.insert(0, copy)
        return Checked(probe.member, found, tuple(rivals))

    def _conclude_if_refused(self, now: Now, probe: Probe) -> Checked | None:
        wanted = self.shared.refusals_wanted(probe.member.short)
        if probe.widened_ns and len(probe.refusers) >= wanted:
            return self.conclude(now, probe.sequence)
        return None

    def conclude(self, now: Now, sequence: int) -> Checked | None:
        probe = self._probes.get(sequence)
        if probe is None:
            return None
        self._end(probe)
        shared, member = self.shared, probe.member
        is_refused = len(probe.refusers) >= shared.refusals_wanted(member.short)
        shared.rtt.loss.add(is_lost=True)
        if probe.told is not None:
            return Checked(member, probe.told, ())
        if not is_refused:  # a refusal is an answer of the host: it says nothing about me
            shared.tally.probes_failed += 1
            if shared.members > 2:  # of two, nobody can tell whose fault it is
                shared.health.probe_failed(
                    nacks_expected=len(probe.helpers), nacks_received=len(probe.nackers)
                )
            for helper in probe.helpers:
                shared.guard.asked(helper.short, is_failed=helper.short not in probe.nackers)
            self._note_target(member, is_failed=True)
        self._judge(now, probe, is_refused=is_refused)
        return None

    def _judge(self, now: Now, probe: Probe, *, is_refused: bool) -> None:
        shared, member = self.shared, probe.member
        is_same = member.standing.is_present and member.standing.generation == probe.generation
        if not is_same or member.is_away(now.monotonic_ns):
            return
        if shared.beats.has_beaten_since(probe.sent_ns, member):
            shared.tally.vetoes += 1
            shared.tally.asymmetric_paths += 1
            shared.note(Note.VETOED, member.profile, Evidence(ChangeCause.SUSPECTED, legs=probe.legs))
        elif not is_refused and not shared.guard.may_accuse(now.monotonic_ns, member.short):
            shared.tally.withheld += 1
            shared.note(Note.WITHHELD, member.profile, Evidence(ChangeCause.SUSPECTED, legs=probe.legs))
        else:
            legs = int(probe.legs | (Leg.INDIRECT if probe.helpers else Leg(0)))
            refusers, challenge = tuple(probe.refusers), self._surprise(now, probe)
            self.suspicions.accuse(now, member, refusers=refusers, legs=legs, challenge=challenge)

    def _surprise(self, now: Now, probe: Probe) -> float:
        rtt, member = self.shared.rtt, probe.member
        unanswered = [rtt.unanswered(member.path, now.monotonic_ns - probe.sent_ns, ways=1)]
        if probe.widened_ns:
            waited_ns = now.monotonic_ns - probe.widened_ns
            other_legs = len(probe.helpers) + 1  # and the stream, whose connection costs a round trip too
            unanswered += [rtt.unanswered(member.path, waited_ns, ways=2)] * other_legs
        return self.shared.phi.challenge(unanswered, self.shared.health.score)

    def challenge_of(self, now: Now, member: Member) -> float:
        probe = self._by_member.get(member)
        return self._surprise(now, probe) if probe is not None else 0.0

    def void_all(self) -> None:
        """After a pause, silence proves nothing about anybody."""
        for probe in list(self._probes.values()):
            self._end(probe)

    def forget(self, member: Member) -> None:
        """It is off the roster: what its probe would find is about nobody."""
        probe = self._by_member.get(member)
        if probe is not None:
            self._end(probe)

    def _end(self, probe: Probe) -> None:
        del self._probes[probe.sequence]
        del self._by_member[probe.member]
        self.shared.timers.cancel((GossipTimer.WIDEN, probe.sequence))
        self.shared.timers.cancel((GossipTimer.CYCLE, probe.sequence))

    def _note_target(self, member: Member, *, is_failed: bool) -> None:
        if self.shared.guard.probed(member.short, is_failed=is_failed, others=self.shared.known - 1):
            self.shared.effects.append(IsolationChanged(self.shared.guard.is_isolated))
