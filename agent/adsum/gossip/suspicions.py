"""Open suspicions: who is accused by whom, how long there is to answer, and what happens then.

A suspicion is merged, never re-made: witnesses are added under the original accuser, and what a roster sync
tells is no witness of its own (memberlist invents one there, serf#336). Each agent keeps its own time for
each case."""

from __future__ import annotations

from adsum.gossip import claims, evidence
from adsum.gossip.claims import Dead, DeathCause, Suspect
from adsum.gossip.effects import Note, PingStream
from adsum.gossip.evidence import Evidence, Leg, PhiParts
from adsum.gossip.members import Member
from adsum.gossip.order import MemberStatus, Rank
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.source import Telling
from adsum.gossip.suspicion import Suspicion
from adsum.gossip.wire import PacketKind
from adsum.now import Now

PHI_OF_A_WITNESS = 4.0  # a counter this surprisingly old counts as one more confirmation, once
CHALLENGE_CAP = 3.0
PHI_TENTHS_MAX = 9_999


class Suspicions:
    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self.open: dict[Member, None] = {}
        self._rechecks: dict[int, Member] = {}

    # Accusing.

    def accuse(
        self, now: Now, member: Member, *, refusers: tuple[bytes, ...], legs: int, challenge: float
    ) -> None:
        """My own probe failed for good: a new suspicion, or a confirmation of one that is open."""
        shared = self.shared
        standing = member.standing
        tenths = min(PHI_TENTHS_MAX, int(challenge * 10))
        who = member.short, standing.generation, standing.incarnation
        mine = claims.suspect(*who, (shared.me.short,), refusers=refusers, legs=legs, phi_tenths=tenths)
        if standing.rank == Rank.ALIVE:
            shared.tally.suspicions_raised += 1
            self.begin(now, member, mine)
            shared.note(Note.RAISED, member.profile, evidence.of_verdict(mine, self.parts(now, member)))
        else:
            self.confirm(now, member, mine)
        if member.suspicion is not None:  # the suspect hears of it first and can refute at once
            told = (member.suspicion.claim.encoded,)
            shared.send(now, member.profile.address, PacketKind.GOSSIP, first=told)

    def begin(self, now: Now, member: Member, claim: Suspect, telling: Telling | None = None) -> None:
        shared = self.shared
        # The cycle that accuses has lasted for a period. Whom a host holds gets the whole wait after it.
        cycle_ns = shared.settings.probe_interval_ns if claim.legs & Leg.HOST else 0
        case = Suspicion(claim, now.monotonic_ns, now.monotonic_ns - cycle_ns)
        case.not_before_ns = member.restarting_until_ns
        member.suspicion = case
        member.verdict = claim
        self.open[member] = None
        shared.change(now, member, claim.standing, evidence.of_verdict(claim, self.parts(now, member)))
        shared.broadcast(now, member.short, claim.encoded, telling=telling, is_pushed=False)
        self._set_timer(now, member, case)

    def confirm(self, now: Now, member: Member, claim: Suspect, telling: Telling | None = None) -> None:
        case = member.suspicion
        if case is None:
            return
        merged = claims.joined(case.claim, claim)
        if merged is case.claim:
            return
        is_confirmed = len(merged.accusers) > len(case.claim.accusers)
        has_news = is_confirmed or len(merged.refusers) > len(case.claim.refusers)
        case.claim = member.verdict = merged
        if not has_news:
            return  # other legs and a greater phi are kept, and not worth telling everybody
        shared = self.shared
        shared.broadcast(now, member.short, merged.encoded, telling=telling, is_pushed=False)
        self._set_timer(now, member, case)
        if is_confirmed:
            shared.tally.suspicions_confirmed += 1
            shared.note(Note.CONFIRMED, member.profile, evidence.of_verdict(merged))

    # The end of a case.

    def close(self, now: Now, member: Member, *, is_refuted: bool) -> None:
        case = member.suspicion
        if case is None:
            return
        member.suspicion = None
        del self.open[member]
        shared = self.shared
        shared.timers.cancel((GossipTimer.SUSPICION, member.short))
        if is_refuted:
            shared.tally.suspicions_refuted += 1
            if shared.health.score <= 3:  # of a time when we were well ourselves
                shared.phi.refuted(now.monotonic_ns, now.monotonic_ns - case.started_ns)
            if shared.me.short in case.claim.accusers:
                shared.phi.cycles_refuted += 1
            if case.claim.accusers == (shared.me.short,):  # what others saw too was not my eyes' fault
                shared.guard.was_refuted(now.monotonic_ns, 2 * shared.timeouts(now).max_ns)

    def expired(self, now: Now, short: bytes) -> None:
        member = self.shared.roster.by_short.get(short)
        if member is None or member.suspicion is None:
            return
        case = member.suspicion
        if not case.has_witness and self.shared.beats.phi(now.monotonic_ns, member) >= PHI_OF_A_WITNESS:
            case.has_witness = True
            self.shared.tally.witnesses += 1
            self.shared.note(Note.WITNESSED, member.profile, evidence.of_verdict(case.claim))
        if self.verdict_due_ns(now, case) > now.monotonic_ns:
            self._set_timer(now, member, case)  # my health changed, or so did the cluster's size
        elif not case.is_refused(self.shared.refusals_wanted(short)):
            self._convict(now, member, case, DeathCause.SILENT)
        elif self.shared.beats.has_beaten_since(case.started_ns, member):
            self.shared.tally.vetoes += 1
            case.claim = member.verdict = claims.without_refusals(case.claim)
            self._set_timer(now, member, case)
        elif self.shared.refusals_wanted(short) == 1:
            self._look_again(member, case)
        else:
            self._convict(now, member, case, DeathCause.REFUSED)

    def looked_again(self, now: Now, sequence: int, *, is_refused: bool) -> bool:
        """The answer to the second look; False when the number is not one of ours."""
        member = self._rechecks.pop(sequence, None)
        if member is None:
            return False
        case = member.suspicion
        if case is None:
            return True
        case.is_recheck_out = False
        if is_refused:
            self._convict(now, member, case, DeathCause.REFUSED)
        else:
            case.claim = member.verdict = claims.without_refusals(case.claim)
            self._set_timer(now, member, case)
        return True

    def shift(self, now: Now, gap_ns: int) -> None:
        """I did not run for a while, so nobody could refute to me."""
        for member in self.open:
            if member.suspicion is not None:
                member.suspicion.shift(gap_ns)
                self._set_timer(now, member, member.suspicion)

    def wait_for_restart(self, now: Now, member: Member) -> None:
        if member.suspicion is not None:
            member.suspicion.not_before_ns = member.restarting_until_ns
            self._set_timer(now, member, member.suspicion)

    def parts(self, now: Now, member: Member, challenge: float = 0.0) -> PhiParts:
        case = member.suspicion
        waited_ns = now.monotonic_ns - case.started_ns if case else 0
        accusation = self.shared.phi.accusation(waited_ns) if case else 0.0
        if case is not None:
            challenge = max(challenge, min(CHALLENGE_CAP, case.claim.phi_tenths / 10))
        return PhiParts(challenge, self.shared.beats.phi(now.monotonic_ns, member), accusation)

    def _look_again(self, member: Member, case: Suspicion) -> None:
        """Where one refusal decides, it must be seen at both ends of the grace."""
        if case.is_recheck_out:
            return
        shared = self.shared
        case.is_recheck_out = True
        sequence = shared.next_sequence()
        self._rechecks[sequence] = member
        timeout_ns = shared.settings.probe_timeout_ns
        shared.effects.append(PingStream(sequence, member.short, member.profile.address, timeout_ns))

    def _convict(self, now: Now, member: Member, case: Suspicion, cause: DeathCause) -> None:
        shared = self.shared
        parts = self.parts(now, member)
        verdict = claims.dead(case.claim, cause)
        shared.tally.phi.add(parts.challenge + parts.accusation)
        self.died(now, member, verdict, evidence.of_verdict(verdict, parts))

    def died(
        self, now: Now, member: Member, verdict: Dead, why: Evidence, telling: Telling | None = None
    ) -> None:
        """By my own verdict or another's."""
        shared = self.shared
        if member.suspicion is not None:
            shared.tally.detection_s.add((now.monotonic_ns - member.suspicion.started_ns) / 1e9)
        self.close(now, member, is_refuted=False)
        was_present = member.standing.is_present
        member.verdict = verdict
        shared.change(now, member, verdict.standing, why)
        shared.broadcast(now, member.short, verdict.encoded, telling=telling)
        shared.beats.forget(member)
        shared.roster.reap_at(member, now.monotonic_ns + shared.settings.reconnect_timeout_ns)
        is_silent = member.standing.status is MemberStatus.FAILED and verdict.cause is DeathCause.SILENT
        if was_present and is_silent:
            shared.guard.died_silently(now.monotonic_ns, shared.timeouts(now).max_ns)

    # Time.

    def verdict_due_ns(self, now: Now, case: Suspicion) -> int:
        shared, grace_ns = self.shared, self.shared.settings.refused_grace_ns
        timeouts, refusals = shared.timeouts(now), shared.refusals_wanted(case.claim.subject)
        return case.deadline_ns(timeouts, shared.members, shared.health.multiplier, grace_ns, refusals)

    def _set_timer(self, now: Now, member: Member, case: Suspicion) -> None:
        """Never later than T_min from now without another look: a witness may have turned up by then."""
        look_ns = now.monotonic_ns + self.shared.timeouts(now).min_ns
        due_ns = min(self.verdict_due_ns(now, case), look_ns)
        self.shared.timers.set((GossipTimer.SUSPICION, member.short), max(due_ns, now.monotonic_ns))
