"""What others tell, and what we make of it: claims are merged into the roster by their order.

Whatever is news here is told on; what is not is let lie, so a rumour dies by itself. Whoever tells
something older than we know about a dead or departed member is answered with what we know (memberlist#311):
after a mass restart that is what ends the disagreement. Verdicts about strangers are kept for when they are
introduced.

Identity. Members are keyed by their id. The same id from another address is let in at once if the member
was not present, else only after the old address failed to answer. Who has an address or a name that two
claim, `rivals` decides."""

from __future__ import annotations

from adsum.allowance import Allowance
from adsum.clocks import GENERATION_STEP_MAX
from adsum.gossip import claims, evidence
from adsum.gossip.broadcasts import Class
from adsum.gossip.claims import Alive, Claim, Dead, Left, RestartingSoon, Suspect, UserEvent, Verdict
from adsum.gossip.effects import EventHeard, GenerationRaised, Note
from adsum.gossip.events import GossipEvents
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.members import Member
from adsum.gossip.newcomers import Newcomers
from adsum.gossip.order import Departure, MemberStatus, Rank, Restarting, Standing
from adsum.gossip.probe import Checked, Prober
from adsum.gossip.rivals import CONFLICT_AGAIN_NS, Rivals, place
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.source import FROM_MEMBER, Source, Telling
from adsum.gossip.suspicions import Suspicions
from adsum.gossip.wire import VERSION_MAX, VERSION_MIN, PacketKind
from adsum.now import MILLISECOND, SECOND, Now

BEGIN_AGAIN_NS = SECOND
# Who lost its data folder and meets its own last lives outdoes each of them at once. Two agents that are told
# to advertise one address would race, so from then on it is rare.
OUTDONE_AT_ONCE = 3
OUTDONE_A_SECOND = 1 / 30
# Strangers that members' datagrams may introduce. What a storm announces beyond it comes with the next sync
# if it is true; a mass start introduces its members through syncs anyway.
INTRODUCED_AT_ONCE = 1_024
INTRODUCED_A_SECOND = 256
NEVER = Standing(-1, 0, 0, 0)
REFUTABLE_MAX = claims.COUNTER_MAX - 1  # a made-up incarnation may leave no room for a greater one


class ClaimMerger:
    def __init__(self, shared: SharedState, suspicions: Suspicions, prober: Prober) -> None:
        self.shared = shared
        self.suspicions = suspicions
        self.prober = prober
        self.events = GossipEvents()
        self.rivals = Rivals(shared, prober)
        self.newcomers = Newcomers(shared)
        self._introductions = Allowance(a_second=INTRODUCED_A_SECOND, at_once=INTRODUCED_AT_ONCE)
        self._outdone = Allowance(a_second=OUTDONE_A_SECOND, at_once=OUTDONE_AT_ONCE)
        self._last_clash_ns = -CONFLICT_AGAIN_NS
        self._begun_ns = -BEGIN_AGAIN_NS
        self._above = 0  # the latest life of mine that somebody told of, while its turn has not come

    def hear(self, now: Now, claim: Claim, source: Source) -> None:
        match claim:
            case UserEvent() if not source.is_member:
                self.shared.tally.drop("event of a stranger")
            case UserEvent():
                if self.events.is_new(now, claim):
                    self.shared.effects.append(EventHeard(claim))
                    key = (claim.subject, claim.clock, claim.number)
                    self.shared.broadcast(now, key, claim.encoded, kind=Class.EVENTS, telling=source.telling)
            case RestartingSoon() if not source.is_member:
                self.shared.tally.drop("restart told by a stranger")
            case RestartingSoon():
                self._hear_restarting(now, claim, source)
            case _ if self.is_wild(now, claim.subject, claim.standing.generation):
                self.shared.tally.drop("generation ahead")
            case _ if claim.subject == self.shared.me.short:
                self._hear_about_me(now, claim, source)
            case Alive():
                self._hear_alive(now, claim, source)
            case _:
                self._hear_verdict(now, claim, source)

    def introduce(self, now: Now, told: Alive, verdict: Verdict | None, age_s: int, source: Source) -> None:
        """One member as a sync tells it. A dead one comes with its verdict, so it was never alive to us."""
        newest = told.standing if verdict is None else max(told.standing, verdict.standing)
        if self.is_wild(now, told.subject, newest.generation):
            self.shared.tally.drop("generation ahead")
            return
        if told.subject == self.shared.me.short:
            self._hear_about_me(now, told, source)
        else:
            is_unknown = told.subject not in self.shared.roster.by_short
            if is_unknown and verdict is not None and verdict.standing > told.standing:
                if not source.is_member:
                    self.shared.tally.drop("introduced by a stranger")
                    return
                self.shared.roster.keep_verdict(verdict)
            self._hear_alive(now, told, source, age_s=age_s)
        if verdict is not None:
            # After a partition each side brings the other verdicts on everybody: they are asked, not buried
            # at once.
            member = self.shared.roster.by_short.get(verdict.subject)
            if isinstance(verdict, Dead) and member is not None and member.standing.is_present:
                verdict = claims.accusation(verdict)
            self.hear(now, verdict, source)

    # Alive.

    def _hear_alive(self, now: Now, told: Alive, source: Source, *, age_s: int = 0) -> None:
        member = self.shared.roster.by_short.get(told.subject)
        if told.profile.address == self.shared.me.profile.address:
            if source.is_member:
                self._hear_of_my_address(now, told, source)
        elif member is None:
            self._meet(now, told, source, age_s=age_s)
        elif self._goes_back(now, member, told, source):
            self.purge(now, member, ChangeCause.REPLACED)
            self._meet(now, told, source, age_s=age_s)
        elif told.standing <= member.standing:
            verdict = member.verdict
            # Old news about the dead is what keeps zombies alive: who tells it is told better.
            if verdict is not None and told.standing < member.standing:
                grounds = claims.accusation(verdict) if isinstance(verdict, Dead) else verdict
                self.shared.correct(member.short, grounds.encoded)
        elif member.profile.node_id != told.profile.node_id:
            self.shared.tally.drop("short id taken")
        elif self._speaks_our_version(told):
            self._hear_of_known(now, member, told, source)

    def _goes_back(self, now: Now, member: Member, told: Alive, source: Source) -> bool:
        """By its own word: its clock was days ahead, we let it in all the same, and most others did not."""
        if told.standing.generation >= member.standing.generation or source.sender != told.subject:
            return False
        return source.is_member and self.shared.clocks.is_ahead(now, member.standing.generation)

    def _hear_of_known(self, now: Now, member: Member, told: Alive, source: Source) -> None:
        is_new_life = told.standing.generation > member.standing.generation
        has_moved = told.profile.address != member.profile.address
        is_there = member.standing.rank == Rank.ALIVE and not member.is_away(now.monotonic_ns)
        if is_new_life and has_moved and is_there:
            self.prober.check(now, member, told)
        else:
            self._accept(now, member, told, source)

    def checked(self, now: Now, checked: Checked | None) -> None:
        """Of what others tell, a member's answer or its silence has shown this."""
        if checked is None:
            return
        match checked.found:
            case Left() as left:
                self._depart(now, checked.member, left)
            case Alive() as alive:
                self._accept(now, checked.member, alive, FROM_MEMBER)
        for rival in checked.rivals:
            self.rivals.conflict(now, checked.member.profile, rival, None)

    def _accept(self, now: Now, member: Member, told: Alive, source: Source) -> None:
        """It says something newer than all verdicts: a refutation, a restart, or another description."""
        shared = self.shared
        before = member.standing
        if told.standing <= before:
            return
        is_new_life = told.standing.generation > before.generation
        has_place = place(told.profile) == place(member.profile)
        if not has_place and not self._makes_room(now, told, source):
            # Its last run is over and must not keep a name that another waits for: two that swapped theirs
            # would shut each other out.
            if is_new_life and source.is_member:
                self.purge(now, member, ChangeCause.REPLACED)
                over = Standing(told.standing.generation - 1, Departure.PRUNED, claims.COUNTER_MAX, Rank.DEAD)
                shared.roster.remember_reaped(member, over)
            return
        self.suspicions.close(now, member, is_refuted=not is_new_life)
        if is_new_life:
            shared.beats.forget(member)
            member.path = None
            member.restarting_until_ns = 0
        member.verdict = None
        if told.profile != member.profile or is_new_life:
            shared.roster.describe(member, told)
        member.alive = told
        cause = _cause_of_return(before, told.standing)
        shared.change(now, member, told.standing, Evidence(cause))
        shared.broadcast(now, member.short, told.encoded, telling=source.telling)

    def _meet(self, now: Now, told: Alive, source: Source, *, age_s: int) -> None:
        shared, roster = self.shared, self.shared.roster
        if not self._speaks_our_version(told):
            return
        if source.is_member and self._is_over(told):
            shared.tally.drop("reaped")
        elif not source.is_member or roster.is_full:
            joins = source.address is None and source.sender == told.subject
            self.newcomers.ask(now, told, joins=joins)
        elif source.address is not None and not self._introductions.take(now.monotonic_ns):
            shared.tally.drop("introductions")
        else:
            verdict = roster.verdicts.get(told.subject)  # that was heard before, or with it
            is_gone = isinstance(verdict, Dead | Left) and verdict.standing > told.standing
            if self._makes_room(now, told, source, is_gone=is_gone):
                self._add(now, told, age_s=age_s, telling=source.telling)

    def _makes_room(self, now: Now, told: Alive, source: Source, *, is_gone: bool = False) -> bool:
        """Whether its address and its name are free, or given up by who had them until now."""
        beaten = self.rivals.giving_way(now, told, source, is_gone=is_gone)
        for member in beaten or ():
            is_reborn = place(member.profile) == place(told.profile)
            self.purge(now, member, ChangeCause.REBORN if is_reborn else ChangeCause.REPLACED)
        return beaten is not None

    def admit(self, now: Now, told: Alive) -> Member | None:
        """It answered, so it is there, whoever introduced it."""
        if told.subject not in self.shared.roster.by_short and not self._take_in(now, told):
            return None
        member = self.shared.roster.by_short[told.subject]
        member.has_answered = True
        return member

    def _take_in(self, now: Now, told: Alive) -> bool:
        """It is there. If its life is over to us, or others know a later one at its address, it is told of
        that, begins another, and comes again."""
        roster, address = self.shared.roster, told.profile.address
        source = Source(address, told.subject, is_member=False, has_answered=True)
        if self._is_over(told):
            # Its host may have stood still for days. Only itself is told: others may have seen it all along.
            generation, _, incarnation, _ = roster.reaped[told.profile.node_id]
            over = claims.left(told.subject, generation, incarnation, Departure.LEFT, self.shared.me.short)
            self.shared.correct(told.subject, over.encoded)
        elif self._makes_room(now, told, source):
            if roster.is_full and (dispensable := roster.dispensable()) is not None:
                self.purge(now, dispensable, ChangeCause.CROWDED_OUT)
            if roster.is_full:
                self.shared.tally.drop("roster full")
                return False
            self._add(now, told, age_s=0, telling=None)
            self.newcomers.let_in(told)
            return True
        if first := self.shared.take_corrections():
            self.shared.send(now, address, PacketKind.GOSSIP, first=first, beats=b"")
        return False

    def _add(self, now: Now, told: Alive, *, age_s: int, telling: Telling | None) -> None:
        shared, roster = self.shared, self.shared.roster
        member = Member(told, now.monotonic_ns)
        verdict = roster.verdicts.pop(told.subject, None)
        if verdict is None or verdict.standing <= told.standing:
            roster.add(member)
            shared.tell_change(told.profile, None, told.standing, Evidence(ChangeCause.JOINED))
            shared.broadcast(now, member.short, told.encoded, telling=telling)
        elif isinstance(verdict, Suspect):
            roster.add(member)
            shared.tell_change(told.profile, None, told.standing, Evidence(ChangeCause.JOINED))
            self.suspicions.begin(now, member, verdict, telling)
        else:
            member.verdict = verdict
            member.standing = verdict.standing
            roster.add(member)
            self._bury(now, member, verdict, age_s=age_s)
            shared.tell_change(told.profile, None, verdict.standing, evidence.of_verdict(verdict))

    def _is_over(self, told: Alive) -> bool:
        """It was dead or had left, and is forgotten for it: what is known is only how far that life went."""
        return told.standing <= self.shared.roster.reaped.get(told.profile.node_id, NEVER)

    def _speaks_our_version(self, told: Alive) -> bool:
        profile = told.profile
        if profile.version_min > VERSION_MAX or profile.version_max < VERSION_MIN:
            self.shared.tally.drop("version range")
            return False
        return True

    def is_wild(self, now: Now, subject: bytes, generation: int) -> bool:
        """From a clock that is days ahead, or made up. A verdict is as bad as a life: whoever believed it of
        a member, or of itself, could only go beyond it to where nobody lets it in."""
        shared, member = self.shared, self.shared.roster.by_short.get(subject)
        if subject == shared.me.short:  # no step: those who say it would have to believe what I answer
            latest = shared.me.generation
        else:
            latest = GENERATION_STEP_MAX + (member.standing.generation if member is not None else -1)
        return generation > latest and shared.clocks.is_ahead(now, generation)

    def purge(self, now: Now, member: Member, cause: ChangeCause) -> None:
        """Gone at once. Whoever was dead or left stays so; whoever was present gave way, to one that may be
        mistaken, and is taken in when it is heard of again and there is room."""
        shared = self.shared
        self.prober.forget(member)
        self.suspicions.close(now, member, is_refuted=False)
        shared.guard.replaced(member.short)
        shared.beats.forget(member)
        shared.roster.remove(member)
        self.newcomers.gone(member.short)
        if not member.standing.is_present or member.is_away(now.monotonic_ns):
            shared.roster.remember_reaped(member, member.standing)
        if cause is not ChangeCause.CROWDED_OUT:  # that says nothing about its host
            shared.roster.remember_forgotten(member, now.monotonic_ns)
        shared.tell_change(member.profile, member.standing, None, Evidence(cause))

    # Verdicts.

    def _hear_verdict(self, now: Now, claim: Verdict, source: Source) -> None:
        member = self.shared.roster.by_short.get(claim.subject)
        if member is None:
            self.shared.roster.keep_verdict(claim)
        elif isinstance(claim, Suspect) and claim.standing == member.standing:
            self.suspicions.confirm(now, member, claim, source.telling)
        elif claim.standing > member.standing:
            self._hear_worse(now, member, claim, source.telling)
        elif member.verdict is None and not isinstance(claim, Suspect):
            self.shared.correct(claim.subject, member.alive.encoded)  # it is back; the teller has not heard

    def _hear_worse(self, now: Now, member: Member, claim: Verdict, telling: Telling | None) -> None:
        """A copy of its data folder, not let in, says goodbye in its name: nobody that is present leaves in a
        life that we never met before it was looked at."""
        is_unmet = claim.standing.generation > member.standing.generation
        is_there = member.standing.is_present and not member.is_away(now.monotonic_ns)
        match claim:
            case Left() if is_unmet and is_there:
                self.prober.check(now, member, claim)
            case Suspect():
                # That of an earlier incarnation was never refuted here.
                self.suspicions.close(now, member, is_refuted=False)
                self.suspicions.begin(now, member, claim, telling)
                if telling is not None and not telling.is_sync:
                    self.prober.look_too(now, member)
            case Dead():
                why = evidence.of_verdict(claim, self.suspicions.parts(now, member))
                self.suspicions.died(now, member, claim, why, telling)
            case Left():
                self._depart(now, member, claim, telling)

    def _depart(self, now: Now, member: Member, claim: Left, telling: Telling | None = None) -> None:
        shared = self.shared
        if claim.standing <= member.standing:
            return
        self.suspicions.close(now, member, is_refuted=False)
        member.verdict = claim
        shared.change(now, member, claim.standing, evidence.of_verdict(claim))
        shared.broadcast(now, member.short, claim.encoded, telling=telling)
        shared.beats.forget(member)
        self._bury(now, member, claim, age_s=0)

    def _bury(self, now: Now, member: Member, verdict: Dead | Left, *, age_s: int) -> None:
        settings = self.shared.settings
        is_departed = isinstance(verdict, Left)
        kept_ns = settings.tombstone_timeout_ns if is_departed else settings.reconnect_timeout_ns
        self.shared.roster.reap_at(member, now.monotonic_ns + max(0, kept_ns - age_s * SECOND))

    def _hear_restarting(self, now: Now, claim: RestartingSoon, source: Source) -> None:
        member = self.shared.roster.by_short.get(claim.subject)
        register = Restarting(claim.generation, claim.duration_ms)
        if member is None or register <= member.restarting or claim.generation != member.standing.generation:
            return
        member.restarting = register
        member.restarting_until_ns = now.monotonic_ns + claim.duration_ms * MILLISECOND
        self.suspicions.wait_for_restart(now, member)
        self.shared.broadcast(now, (claim.subject, "restarting"), claim.encoded, telling=source.telling)
        self.shared.note(Note.RESTARTING, member.profile, Evidence(ChangeCause.CHANGED))

    # Myself.

    def _hear_about_me(self, now: Now, claim: Alive | Suspect | Dead | Left, source: Source) -> None:
        me = self.shared.me
        if me.departure:
            return
        is_refutable = not claim.standing.departure and claim.standing.incarnation < REFUTABLE_MAX
        if isinstance(claim, Alive) and claim.profile.node_id != me.profile.node_id:
            self.shared.tally.drop("short id taken")
        elif claim.standing <= me.standing:
            if not isinstance(claim, Alive):  # whoever still believes an accusation is told that it is over
                self.shared.correct(claim.subject, me.alive.encoded)
        elif isinstance(claim, Alive) and claim.profile != me.profile:
            # Somebody else lives under my id, or I did once and moved. Raising is rationed: two clones would
            # race.
            self.rivals.conflict(now, me.profile, claim.profile, source.address)
            if now.monotonic_ns - self._last_clash_ns >= CONFLICT_AGAIN_NS:
                self._last_clash_ns = now.monotonic_ns
                self._begin_again(now, claim.standing.generation, source.telling)
        elif claim.standing.generation == me.generation and is_refutable:
            self._refute(now, claim, source.telling)
        else:
            self._begin_again(now, claim.standing.generation, source.telling)

    def _refute(self, now: Now, claim: Alive | Suspect | Dead | Left, telling: Telling | None) -> None:
        shared = self.shared
        shared.me.refute(claim.standing.incarnation)
        shared.health.had_to_refute()
        shared.tally.suspicions_of_me += 1
        why = Evidence(ChangeCause.REFUTED)
        if isinstance(claim, Suspect | Dead):
            why = evidence.of_verdict(claim)
            for accuser in filter(None, map(shared.roster.by_short.get, claim.accusers)):
                first = (shared.me.alive.encoded,)
                shared.send(now, accuser.profile.address, PacketKind.GOSSIP, first=first, beats=b"")
        shared.note(Note.ACCUSED_ME, shared.me.profile, why)
        self.publish_me(now, telling)

    def _hear_of_my_address(self, now: Now, told: Alive, source: Source) -> None:
        """A member at my own address is a life of this host before it lost its data folder, or a host that
        had the address before. I am who answers here, so I outdo it; unless it outdoes me again, for then two
        agents advertise one address."""
        me = self.shared.me
        if told.standing.generation >= me.generation:
            if self._outdone.take(now.monotonic_ns):
                self._begin_again(now, told.standing.generation, source.telling)
            else:
                self.rivals.conflict(now, me.profile, told.profile, None)
        self.shared.correct(me.short, me.alive.encoded)

    def _begin_again(self, now: Now, above: int, telling: Telling | None) -> None:
        """All that I publish is published anew: once a second at most, whatever is said of me."""
        self._above = max(self._above, above)
        wait_ns = self._begun_ns + BEGIN_AGAIN_NS - now.monotonic_ns
        if wait_ns > 0:
            self.shared.timers.set((GossipTimer.BEGIN_AGAIN, None), now.monotonic_ns + wait_ns)
        else:
            self.begin_again(now, telling)

    def begin_again(self, now: Now, telling: Telling | None = None) -> None:
        shared = self.shared
        above, self._above, self._begun_ns = self._above, 0, now.monotonic_ns
        if above < shared.me.generation:
            return
        shared.me.raise_generation(above)
        shared.effects.append(GenerationRaised(shared.me.generation))
        self.publish_me(now, telling)

    def publish_me(self, now: Now, telling: Telling | None = None) -> None:
        me = self.shared.me
        self.shared.claims.remember(me.alive)
        self.shared.broadcast(now, me.short, me.alive.encoded, telling=telling)


def _cause_of_return(before: Standing, after: Standing) -> ChangeCause:
    if after.generation > before.generation:
        return ChangeCause.RESTARTED
    if before.departure == Departure.NONE and before.status in (MemberStatus.SUSPECT, MemberStatus.FAILED):
        return ChangeCause.REFUTED
    return ChangeCause.CHANGED
