"""What a leader does for sessions with one rule broken. The world of sessions has to notice every one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from adsum.now import MILLISECOND, SECOND, Now
from adsum.session import Session
from adsum.sessions import deadlines, judging, keeper
from adsum.sessions.deadlines import Deadlines
from adsum.sessions.effects import KeeperEffect
from adsum.sessions.failures import NodeFailures
from adsum.sessions.keeper import RenewThese, SessionKeeper
from adsum.sessions.renewals import RenewalBatch
from adsum.sessions.sees import NodeKey, SeesHosts

Mutation = Callable[[pytest.MonkeyPatch], None]


def sessions_end_when_one_ttl_has_passed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deadlines, "LATE_FACTOR", 1)


def renewals_are_acknowledged_without_a_proof(patch: pytest.MonkeyPatch) -> None:
    command = SessionKeeper.command

    def acknowledge(self: SessionKeeper, now: Now, request: RenewThese) -> list[KeeperEffect]:
        if not self.is_proven:
            return command(self, now, request)
        self._note(now)
        self._emit(self._renewals.gather(request.token, request.ids))
        for batch, session_id in self._renewals.take_gathered():
            self._renew(batch, session_id)
        return self._taken()

    patch.setattr(SessionKeeper, "command", acknowledge)


def renewals_do_not_wait_for_an_end_that_is_under_way(patch: pytest.MonkeyPatch) -> None:
    renew = SessionKeeper._renew

    def at_once(self: SessionKeeper, batch: RenewalBatch, session_id: str) -> None:
        leaving, self._leaving = self._leaving, {}
        renew(self, batch, session_id)
        self._leaving = leaving

    patch.setattr(SessionKeeper, "_renew", at_once)


def notes_are_not_taken_back(patch: pytest.MonkeyPatch) -> None:
    def renew(self: SessionKeeper, batch: RenewalBatch, session_id: str) -> None:
        if session_id in self._leaving:
            self._renewals.held.setdefault(session_id, []).append(batch)
        else:
            self._acknowledge(batch, session_id, self._sessions.get(session_id))

    patch.setattr(SessionKeeper, "_renew", renew)


def a_new_leader_does_not_read_the_notes(patch: pytest.MonkeyPatch) -> None:
    take_over = Deadlines.take_over

    def anew(self: Deadlines, session: Session, now_ns: int) -> None:
        take_over(self, replace(session, remaining_ms=None), now_ns)

    patch.setattr(Deadlines, "take_over", anew)


def a_new_leader_forgets_to_begin_ttls_anew(patch: pytest.MonkeyPatch) -> None:
    def take_over(self: Deadlines, session: Session, now_ns: int) -> None:
        if session.ttl_ms and session.id not in self:
            self._set(session, now_ns + SECOND)

    patch.setattr(Deadlines, "take_over", take_over)


def renewals_move_no_deadline(patch: pytest.MonkeyPatch) -> None:
    def renew(self: Deadlines, session: Session, now_ns: int) -> None:
        if session.ttl_ms and session.id not in self:
            self._set(session, now_ns + 2 * session.ttl_ms * MILLISECOND)

    patch.setattr(Deadlines, "renew", renew)


def nobody_else_is_asked_whether_a_node_failed(patch: pytest.MonkeyPatch) -> None:
    def to_ask(self: NodeFailures, now_ns: int) -> list[tuple[NodeKey, str]]:
        ripe = [
            (who, known)
            for who, known in self._failing.items()
            if now_ns >= known.since_ns + self._grace_ns and not known.agreed
        ]
        for _who, known in ripe:
            self._agree(known, now_ns, "seen by this one")
        return [(who, "") for who, _known in ripe]

    patch.setattr(NodeFailures, "to_ask", to_ask)


def verdicts_on_an_earlier_life_count(patch: pytest.MonkeyPatch) -> None:
    judged = judging.judged

    def of_any_life(
        session: Session, who: NodeKey, sees: SeesHosts, failure: str, *, is_long_missing: bool
    ) -> judging.Ending | judging.WeakEvidence | None:
        return judged(replace(session, generation=0), who, sees, failure, is_long_missing=is_long_missing)

    patch.setattr(keeper, "judged", of_any_life)


def evidence_from_before_the_session_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judging, "_holds_what_was_seen", lambda _records, _session: True)


def only_what_moves_is_looked_at(patch: pytest.MonkeyPatch) -> None:
    look_at = SessionKeeper._look_at

    def known_only(self: SessionKeeper, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is None or session_id in self._watching.sessions:
            look_at(self, session_id)
        else:
            self._watching.add(session)
            self._deadlines.take_over(session, self._now_ns)

    patch.setattr(SessionKeeper, "_look_at", known_only)


def pauses_move_no_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keeper.SessionKeeper, "_note", _note_without_pauses)


def _note_without_pauses(self: SessionKeeper, now: Now) -> None:
    self._is_due = True
    self._is_trusted = True
    self._now_ns = now.monotonic_ns
