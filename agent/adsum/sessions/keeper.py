"""What a leader does for sessions: it renews them, ends those that nobody renews, and those whose node or
checks failed.

    keeper.command(now, RenewThese(…))  -> effects    clients are alive
    keeper.receive(now, report)         -> effects    what became of an effect; what moved in the world
    keeper.tick(now)                    -> effects    time has passed
    keeper.deadline()                   -> int | None when the next tick is wanted

All that it knows is how things are now, never what happened: it looks at a session when it takes over, when
the session is created and when something moves on which it hangs, and proposes an end with evidence that is
true at that moment. What it proposes is bound to its term, and its own leadership is proven before it does
anything at all: until then what an earlier leader put into the log may not have been applied here.

A session ends when twice its TTL has passed since its last renewal was acknowledged. Another leader begins
that time anew; so of a long session what is left of it is noted in the log every few seconds, and a renewal
takes that back before it is acknowledged. With that a dead client's session ends within 2 x TTL, the time
without a leader, pauses, and for each change of the leader 2 x TTL, or 10 s where the TTL is above 60 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from adsum.allowance import Allowance
from adsum.effects import LogLine, Severity
from adsum.frozen import dataclass
from adsum.kv import KeyCause, KeyRefusal
from adsum.now import Now
from adsum.session import Session
from adsum.sessions.counters import KeeperCounters
from adsum.sessions.deadlines import Deadlines
from adsum.sessions.effects import AnswerRenewals, AskVerdict, ConfirmLeadership, KeeperEffect, ProposeInTerm
from adsum.sessions.failures import NodeFailures
from adsum.sessions.judging import Ending, WeakEvidence, judged, told
from adsum.sessions.kept import KeptSessions
from adsum.sessions.renewals import RenewalBatch, Renewals
from adsum.sessions.reports import (
    HostMoved,
    KeeperReport,
    LeadershipConfirmed,
    LeadershipTurned,
    ProposalEnded,
    SessionsApplied,
    VerdictGiven,
)
from adsum.sessions.sees import HostSeen, HostVerdict, KeepsTime, NodeKey, SeesHosts, node_of
from adsum.sessions.settings import (
    BEHIND_LOOK_NS,
    ENTRIES_UNDER_WAY_MAX,
    KEEPER_SETTINGS,
    KEYS_PER_ENTRY_MAX,
    LOOKS_PER_TICK,
    NOTED_EVERY_NS,
    RETRY_NS,
    SESSIONS_PER_ENTRY_MAX,
    UNTRUSTED_LOOK_NS,
    KeeperSettings,
)
from adsum.sessions.watching import SessionsByNode
from adsum.store.commands import EndSessions, ExpireSessions, NoteRemaining
from adsum.timers import Timers

LINES_A_SECOND, LINES_AT_ONCE = 10, 100
NO_LONGER_LEADS = "this server does not lead, or not any more"
TOO_MANY = "too many renewals of sessions wait for this leader"


@dataclass(frozen=True, slots=True)
class RenewThese:
    """Answered once, with `AnswerRenewals`."""

    ids: Sequence[str]
    token: object


LeadersCommand: TypeAlias = EndSessions | ExpireSessions | NoteRemaining


class _Confirming(NamedTuple):
    stood_ns: int  # when it was asked: a proof from before a pause proves nothing after it
    renewals: list[tuple[RenewalBatch, str]]


class SessionKeeper:
    def __init__(
        self,
        me: str,
        sessions: KeptSessions,
        sees: SeesHosts,
        time: KeepsTime,
        voters: Callable[[], Sequence[str]],
        name_of: Callable[[str], str],
        settings: KeeperSettings = KEEPER_SETTINGS,
    ) -> None:
        """`me` and `voters` are ids of servers."""
        self.counters = KeeperCounters()
        self._sessions = sessions
        self._sees = sees
        self._time = time
        self._settings = settings
        self._new_failures = partial(NodeFailures, sees, me, voters, name_of, settings.node_grace_ns)
        self._lines = Allowance(a_second=LINES_A_SECOND, at_once=LINES_AT_ONCE)
        self._effects: list[KeeperEffect] = []
        self._tickets = 0
        self._now_ns = 0  # awake, without the pauses
        self._stood_ns = 0
        self._is_trusted = False
        self._renewals = Renewals()
        self._begin(None)

    def _begin(self, term: int | None) -> None:
        """Nothing of an earlier term counts."""
        self._term = term
        self._is_proven = False
        self._is_due = True
        self._revision = 0  # of sessions, up to which they were looked at
        self._deadlines = Deadlines(self._settings.long_ttl_ms)
        self._watching = SessionsByNode(self._sees)
        self._failures = self._new_failures()
        self._missing: Timers[str] = Timers()  # sessions whose check is not published any more
        self._behind: dict[NodeKey, None] = {}  # nodes whose newer records may end a session
        self._behind_ns = 0  # when they are looked at again
        self._to_look: dict[str, None] = {}
        self._to_end: dict[str, bool] = {}  # and whether a check has been missing for long
        self._leaving: dict[str, None] = {}  # whose end is under way
        self._to_note: list[str] = []
        self._noting: dict[str, None] = {}  # of which what is left is on its way into the log
        self._note_ns = 0
        self._retry_ns = 0  # what the log did not take
        self._is_taking_back = False
        self._proposals: dict[int, LeadersCommand] = {}
        self._confirming: dict[int, _Confirming] = {}
        self._confirm_ns = 0  # not before
        self._asked: dict[int, tuple[NodeKey, str]] = {}

    # To look at.

    @property
    def is_proven(self) -> bool:
        """That it leads, at least once in its term: from then on it keeps sessions."""
        return self._is_proven

    @property
    def watches_nodes(self) -> bool:
        return bool(self._watching.nodes)

    @property
    def renewals_waiting(self) -> int:
        return self._renewals.waiting

    @property
    def with_ttl(self) -> int:
        """Sessions whose time this leader counts; 0 on others."""
        return len(self._deadlines)

    # The verbs.

    def command(self, now: Now, request: RenewThese) -> list[KeeperEffect]:
        self._note(now)
        if self._term is None:
            self.counters.refused += len(request.ids)
            self._effects.append(
                AnswerRenewals(request.token, KeyRefusal(KeyCause.NO_LEADER, NO_LONGER_LEADS))
            )
        elif not self._renewals.has_room(request.ids):
            self.counters.refused_full += len(request.ids)
            self._refuse(request, KeyCause.BUSY, TOO_MANY)
        else:
            self._emit(self._renewals.gather(request.token, request.ids))
        return self._taken()

    def receive(self, now: Now, report: KeeperReport) -> list[KeeperEffect]:
        self._note(now)
        match report:
            case LeadershipTurned(term):
                self._turn(term)
            case SessionsApplied():
                pass  # what changed is looked for in the next tick
            case HostMoved(who):
                self._host_moved(who)
            case LeadershipConfirmed(ticket, is_confirmed):
                self._confirmed(ticket, is_confirmed=is_confirmed)
            case ProposalEnded(ticket, is_applied):
                self._proposal_ended(ticket, is_applied=is_applied)
            case VerdictGiven(ticket, seen):
                self._verdict_given(ticket, seen)
        return self._taken()

    def tick(self, now: Now) -> list[KeeperEffect]:
        self._note(now)
        self._is_due = False
        if self._term is None:
            return self._taken()
        self._confirm()
        if self._is_proven:
            self._see_changes()
            self._look()
            self._look_at_failures()
            self._expire()
            self._end()
            self._write_notes()
            self._take_back_notes()
        return self._taken()

    def deadline(self) -> int | None:
        if self._term is None:
            return None
        if self._is_due or self._to_look:
            return self._now_ns + self._stood_ns
        wanted: list[int] = []
        if self._wants_confirmation:
            wanted.append(self._confirm_ns)
        if self._is_proven:
            failures_ns = self._failures.earliest(self._now_ns)
            timers = (self._deadlines.earliest(), self._missing.earliest(), failures_ns)
            wanted += [each for each in timers if each is not None]
            if self._deadlines.long:
                wanted.append(self._note_ns)
            if self._behind:
                wanted.append(self._behind_ns)
            if self._to_end or self._renewals.noted:
                wanted.append(max(self._retry_ns, self._now_ns + UNTRUSTED_LOOK_NS))
            if self._deadlines.due:
                wanted.append(self._now_ns + UNTRUSTED_LOOK_NS)
        return max(min(wanted), self._now_ns) + self._stood_ns if wanted else None

    # Leadership.

    def _turn(self, term: int | None) -> None:
        if term == self._term:
            return
        self.counters.refused += self._renewals.waiting
        self._effects += self._renewals.refuse_all(KeyCause.NO_LEADER, NO_LONGER_LEADS)
        self._begin(term)

    @property
    def _wants_confirmation(self) -> bool:
        return not self._confirming and (not self._is_proven or bool(self._renewals.gathered))

    def _confirm(self) -> None:
        if self._wants_confirmation and self._now_ns >= self._confirm_ns:
            ticket = self._next_ticket()
            self._confirming[ticket] = _Confirming(self._stood_ns, self._renewals.take_gathered())
            self._effects.append(ConfirmLeadership(ticket))

    def _confirmed(self, ticket: int, *, is_confirmed: bool) -> None:
        if ticket not in self._confirming:
            return
        stood_ns, renewals = self._confirming.pop(ticket)
        if not is_confirmed or stood_ns != self._stood_ns:
            self._renewals.gathered[:0] = renewals
            self._confirm_ns = self._now_ns + UNTRUSTED_LOOK_NS
            return
        if not self._is_proven:
            self._is_proven = True
            self._revision = self._sessions.revision
            self._to_look = dict.fromkeys(self._sessions.ids())
            self._note_ns = self._now_ns + NOTED_EVERY_NS
        for batch, session_id in renewals:
            self._renew(batch, session_id)

    # Renewals, once leadership is proven.

    def _refuse(self, request: RenewThese, cause: KeyCause, sentence: str) -> None:
        self._effects.append(AnswerRenewals(request.token, KeyRefusal(cause, sentence)))

    def _renew(self, batch: RenewalBatch, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session_id in self._leaving:
            self._renewals.held.setdefault(session_id, []).append(batch)
        elif session is not None and (session.remaining_ms is not None or session_id in self._noting):
            # What is noted from here on is of the time that it has now.
            self._deadlines.renew(session, self._now_ns)
            self._renewals.noted.setdefault(session_id, []).append(batch)
        else:
            self._acknowledge(batch, session_id, session)

    def _acknowledge(self, batch: RenewalBatch, session_id: str, session: Session | None) -> None:
        if session is None:
            self.counters.not_found += 1
        else:
            self.counters.renewed += 1
            self._deadlines.renew(session, self._now_ns)
        self._emit(self._renewals.settle(batch, session_id, session))

    def _take_back_notes(self) -> None:
        noted = self._renewals.noted
        if not noted or self._is_taking_back or self._now_ns < self._retry_ns:
            return
        ids = [each for _place, each in zip(range(SESSIONS_PER_ENTRY_MAX), noted, strict=False)]
        self._is_taking_back = True
        self.counters.notes_taken_back += 1
        self._propose(NoteRemaining(tuple((each, None) for each in ids), self._led_term))

    def _took_back(self, ids: Iterable[str], *, is_applied: bool) -> None:
        self._is_taking_back = False
        if not is_applied:
            self._retry_ns = self._now_ns + RETRY_NS
            return
        for session_id in ids:
            session = self._sessions.get(session_id)
            for batch in self._renewals.noted.pop(session_id, ()):
                self._acknowledge(batch, session_id, session)

    # What moved in the world.

    def _see_changes(self) -> None:
        revision = self._sessions.revision
        if revision == self._revision:
            return
        changed = self._sessions.changed_since(self._revision)
        if changed is None:
            changed = [*self._watching.sessions, *self._sessions.ids()]
        self._revision = revision
        self._to_look |= dict.fromkeys(changed)

    def _host_moved(self, who: NodeKey) -> None:
        if who in self._watching.nodes:
            self._to_look |= self._watching.moved(who)
            self._failures.look_at(who, self._now_ns)

    def _look(self) -> None:
        self._deadlines.pass_to(self._now_ns, LOOKS_PER_TICK)
        if self._behind and self._now_ns >= self._behind_ns:
            self._behind_ns = self._now_ns + BEHIND_LOOK_NS
            behind, self._behind = self._behind, {}
            for who in behind:
                self._host_moved(who)
                if who in self._watching.nodes and self._watching.nodes[who].behind:
                    self._behind[who] = None
        for session_id in self._missing.take_due(self._now_ns):
            self._to_end[session_id] = True
        for session_id in [each for _place, each in zip(range(LOOKS_PER_TICK), self._to_look, strict=False)]:
            del self._to_look[session_id]
            self._look_at(session_id)

    def _look_at(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            self._forget(session_id)
            return
        is_new = session_id not in self._watching.sessions
        who = self._watching.add(session)
        self._deadlines.take_over(session, self._now_ns)
        if who is None:
            return
        if is_new and len(self._watching.nodes[who].sessions) == 1:
            self._failures.look_at(who, self._now_ns)
        if session_id not in self._leaving and isinstance(self._judge(session, who), Ending):
            self._to_end.setdefault(session_id, False)

    def _judge(self, session: Session, who: NodeKey, *, is_long_missing: bool = False) -> Ending | None:
        failure = self._failures.agreed(who)
        found = judged(session, who, self._sees, failure, is_long_missing=is_long_missing)
        if found is WeakEvidence.BEHIND:
            self._watching.nodes[who].behind[session.id] = None
            self._behind[who] = None
        if found is not WeakEvidence.MISSING_ANEW:
            self._missing.cancel(session.id)
        elif session.id not in self._missing:
            self._missing.set(session.id, self._now_ns + self._settings.node_grace_ns)
        return found if isinstance(found, Ending) else None

    def _forget(self, session_id: str) -> None:
        """It has ended, by whomever."""
        self._deadlines.forget(session_id)
        self._missing.cancel(session_id)
        self._to_end.pop(session_id, None)
        session = self._watching.remove(session_id)
        if session is None:
            return
        if session.node and node_of(session) not in self._watching.nodes:
            self._failures.forget(node_of(session))
        ended = self._sessions.ended(session_id)
        if ended is None or not self._lines.take(self._now_ns):
            self.counters.lines_dropped += 1
            return
        self._effects.append(LogLine(Severity.INFO, told(session, ended)))

    # Nodes that failed.

    def _look_at_failures(self) -> None:
        for who, voter in self._failures.to_ask(self._now_ns):
            if not voter:
                self._to_look |= self._watching.nodes[who].sessions
                continue
            ticket = self._next_ticket()
            self._asked[ticket] = who, voter
            self.counters.verdicts_asked += 1
            self._effects.append(AskVerdict(ticket, voter, who[0]))

    def _verdict_given(self, ticket: int, seen: HostSeen | None) -> None:
        if ticket not in self._asked:
            return
        who, voter = self._asked.pop(ticket)
        self.counters.verdicts_unlike += seen is None or seen.verdict is not HostVerdict.FAILED
        if self._failures.answered(who, voter, seen, self._now_ns):
            self._to_look |= self._watching.nodes[who].sessions

    # Ends.

    def _expire(self) -> None:
        """Only by a time that is trusted: after a pause another may lead, and have renewed them."""
        due = self._deadlines.due
        while due and self._is_trusted and self._has_room:
            told: list[tuple[str, int]] = []
            for session_id in self._first_of(due):
                del due[session_id]
                session = self._sessions.get(session_id)
                if session_id in self._leaving:
                    self._deadlines.postpone(session_id, self._now_ns + RETRY_NS)
                elif session is not None:
                    told.append((session_id, session.renewals))
            if told:
                self.counters.expiries += 1
                self._leaving |= dict.fromkeys(each for each, _ in told)
                self._propose(ExpireSessions(tuple(told), self._led_term))

    def _expired(self, told: Sequence[tuple[str, int]]) -> None:
        for session_id, renewals in told:
            session = self._let_stay(session_id)
            if session is not None and session.renewals != renewals:
                # It was renewed through the log meanwhile.
                self._deadlines.renew(session, self._now_ns)
            elif session is not None:
                self._deadlines.postpone(session_id, self._now_ns + RETRY_NS)

    def _end(self) -> None:
        while self._to_end and self._has_room and self._now_ns >= self._retry_ns:
            ending, ids = self._next_ending()
            if ending is not None:
                self.counters.invalidations += 1
                self._leaving |= dict.fromkeys(ids)
                self._propose(EndSessions(tuple(ids), *ending, self._led_term))

    def _next_ending(self) -> tuple[Ending | None, list[str]]:
        """The first of those that wait, and all behind it that end for the same reason; judged as things are
        now, when they are proposed."""
        ending, ids = None, list[str]()
        for session_id in self._first_of(self._to_end):
            session = self._watching.sessions.get(session_id)
            found = None
            if session is not None and session_id not in self._leaving:
                is_long_missing = self._to_end[session_id]
                found = self._judge(session, node_of(session), is_long_missing=is_long_missing)
            if found is not None and ending not in (None, found):
                break
            del self._to_end[session_id]
            if found is not None:
                ending = found
                ids.append(session_id)
        return ending, ids

    def _was_ended(self, ids: Sequence[str]) -> None:
        for session_id in ids:
            if self._let_stay(session_id) is not None:
                self._to_end[session_id] = False
                self._retry_ns = self._now_ns + RETRY_NS

    def _let_stay(self, session_id: str) -> Session | None:
        """Its end is not under way any more, and meanwhile nobody judged it; None: it has ended."""
        del self._leaving[session_id]
        self._to_look[session_id] = None
        self._renewals.release(session_id)
        return self._sessions.get(session_id)

    def _first_of(self, ids: dict[str, None] | dict[str, bool]) -> list[str]:
        """As many as one entry may end."""
        found, keys = list[str](), 0
        for session_id in ids:
            keys += self._sessions.keys_held(session_id)
            if len(found) == SESSIONS_PER_ENTRY_MAX or (found and keys > KEYS_PER_ENTRY_MAX):
                break
            found.append(session_id)
        return found

    # What is left of long sessions.

    def _write_notes(self) -> None:
        if self._now_ns >= self._note_ns and not self._to_note and self._deadlines.long:
            self._to_note = list(self._deadlines.long)
            self._note_ns = self._now_ns + NOTED_EVERY_NS
        if self._noting or not self._to_note:
            return
        wanted, self._to_note = self._to_note[:SESSIONS_PER_ENTRY_MAX], self._to_note[SESSIONS_PER_ENTRY_MAX:]
        known = [each for each in wanted if each in self._deadlines and each not in self._leaving]
        if known:
            self._noting = dict.fromkeys(known)
            told = tuple((each, self._deadlines.left_ms(each, self._now_ns)) for each in known)
            self.counters.notes += 1
            self._propose(NoteRemaining(told, self._led_term))

    # Inside.

    @property
    def _led_term(self) -> int:
        assert self._term is not None, "only a leader proposes"
        return self._term

    def _propose(self, command: LeadersCommand) -> None:
        ticket = self._next_ticket()
        self._proposals[ticket] = command
        self._effects.append(ProposeInTerm(ticket, command, self._led_term))

    def _proposal_ended(self, ticket: int, *, is_applied: bool) -> None:
        if ticket not in self._proposals:  # of an earlier term
            return
        match self._proposals.pop(ticket):
            case ExpireSessions(sessions):
                self._expired(sessions)
            case EndSessions(ids):
                self._was_ended(ids)
            case NoteRemaining(sessions) if sessions[0][1] is None:
                self._took_back([each for each, _ in sessions], is_applied=is_applied)
            case NoteRemaining():
                self._noting = {}

    @property
    def _has_room(self) -> bool:
        return len(self._proposals) < ENTRIES_UNDER_WAY_MAX

    def _next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def _note(self, now: Now) -> None:
        """Every verb begins with it."""
        self._is_due = True
        self._is_trusted = self._time.is_time_trusted(now)
        stood_ns = self._time.stood_ns
        self._now_ns = now.monotonic_ns - stood_ns
        if stood_ns != self._stood_ns:
            paused_ns, self._stood_ns = stood_ns - self._stood_ns, stood_ns
            self._failures.paused(self._now_ns, paused_ns)

    def _emit(self, answer: AnswerRenewals | None) -> None:
        if answer is not None:
            self._effects.append(answer)

    def _taken(self) -> list[KeeperEffect]:
        effects, self._effects = self._effects, []
        return effects
