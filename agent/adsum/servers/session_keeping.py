"""Carries out what the keeper of sessions wants of consensus and of other servers. No sockets and no clock of
its own: so it is simulated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from msgspec import DecodeError

from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import Turned
from adsum.consensus.errors import Unavailable
from adsum.effects import LogLine, Severity
from adsum.kv import StoreOutcome, decode_answer
from adsum.now import Now
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Role
from adsum.servers.renewals import AllRenewed
from adsum.sessions.effects import (
    AnswerRenewals,
    AskVerdict,
    ConfirmLeadership,
    KeeperEffect,
    ProposeInTerm,
)
from adsum.sessions.keeper import RenewThese, SessionKeeper
from adsum.sessions.kept import KeptSessions
from adsum.sessions.reports import (
    HostMoved,
    KeeperReport,
    LeadershipConfirmed,
    LeadershipTurned,
    ProposalEnded,
    SessionsApplied,
    VerdictGiven,
)
from adsum.sessions.sees import HostSeen, NodeKey, SeesHosts
from adsum.sessions.settings import KEEPER_SETTINGS, KeeperSettings
from adsum.store.commands import StoreRequest, encode_request
from adsum.store.machine import StoreMachine

LEVELS = {Severity.INFO: logging.INFO, Severity.WARN: logging.WARNING, Severity.ERROR: logging.ERROR}

log = logging.getLogger("sessions")


class LeadersDoor(Protocol):
    """What a leader asks of consensus and of other servers. The first two raise what consensus refuses."""

    @property
    def core(self) -> ConsensusCore | None:
        """None while this server belongs to no cluster."""
        ...

    def propose(self, data: bytes, answered: Callable[[bytes | Exception], None], term: int) -> None: ...

    def read(self, answered: Callable[[int | Exception], None]) -> None: ...

    def ask_verdict(
        self, voter: str, node_id: bytes, answered: Callable[[HostSeen | None], None]
    ) -> None: ...

    def name_of(self, node: str) -> str: ...

    def wake(self) -> None:
        """The next tick is wanted at another time than before, perhaps at once."""


class SessionKeeping:
    """It `KeepsSessions`."""

    def __init__(
        self,
        me: str,
        machine: StoreMachine,
        sees: SeesHosts,
        door: LeadersDoor,
        now: Callable[[], Now],
        settings: KeeperSettings = KEEPER_SETTINGS,
    ) -> None:
        self._door = door
        self._now = now
        self._kept = KeptSessions(machine)
        self._revision = -1  # of sessions, that was told
        time = _ConsensusTime(door)
        self.keeper = SessionKeeper(me, self._kept, sees, time, self._voters, door.name_of, settings)

    def renew(self, ids: Sequence[str], answered: AllRenewed) -> None:
        self._door.wake()
        self._carry_out(self.keeper.command(self._now(), RenewThese(ids, answered)))

    def turned(self, turned: Turned) -> None:
        self._report(LeadershipTurned(turned.term if turned.role is Role.LEADER else None))

    def applied(self) -> None:
        if self._kept.revision != self._revision:
            self._revision = self._kept.revision
            self._report(SessionsApplied())

    def host_moved(self, who: NodeKey) -> None:
        if self.keeper.watches_nodes:
            self._report(HostMoved(who))

    def tick(self) -> None:
        self._carry_out(self.keeper.tick(self._now()))

    def deadline(self) -> int | None:
        return self.keeper.deadline()

    def _voters(self) -> list[str]:
        core = self._door.core
        if core is None:
            return []
        configuration = core.raft.replica.configuration
        voters = dict.fromkeys((*configuration.voters, *configuration.voters_outgoing))
        return [member.node for member in voters]

    def _report(self, report: KeeperReport) -> None:
        self._door.wake()
        self._carry_out(self.keeper.receive(self._now(), report))

    def _carry_out(self, wanted: list[KeeperEffect]) -> None:
        for effect in wanted:
            match effect:
                case ProposeInTerm():
                    self._propose(effect)
                case ConfirmLeadership(ticket):
                    self._confirm(ticket)
                case AskVerdict(ticket, voter, node_id):
                    self._door.ask_verdict(voter, node_id, partial(self._verdict_given, ticket))
                case AnswerRenewals(token, outcome):
                    answered: Any = token
                    answered(outcome)
                case LogLine(severity, sentence):
                    log.log(LEVELS[severity], "%s", sentence)

    def _propose(self, effect: ProposeInTerm) -> None:
        request = StoreRequest(effect.command, self._now().wall_ms)
        ended = partial(self._proposal_ended, effect.ticket)
        try:
            self._door.propose(encode_request(request), ended, effect.term)
        except (RaftRefused, Unavailable) as refused:
            ended(refused)

    def _confirm(self, ticket: int) -> None:
        try:
            self._door.read(partial(self._confirmed, ticket))
        except (RaftRefused, Unavailable) as refused:
            self._confirmed(ticket, refused)

    def _proposal_ended(self, ticket: int, outcome: bytes | Exception) -> None:
        is_applied = False
        if isinstance(outcome, bytes):
            with suppress(DecodeError):
                is_applied = decode_answer(outcome).outcome is StoreOutcome.DONE
        self._report(ProposalEnded(ticket, is_applied))

    def _confirmed(self, ticket: int, outcome: int | Exception) -> None:
        self._report(LeadershipConfirmed(ticket, is_confirmed=isinstance(outcome, int)))

    def _verdict_given(self, ticket: int, seen: HostSeen | None) -> None:
        self._report(VerdictGiven(ticket, seen))


class _ConsensusTime:
    """It `KeepsTime`."""

    def __init__(self, door: LeadersDoor) -> None:
        self._door = door

    @property
    def stood_ns(self) -> int:
        core = self._door.core
        return core.pace.stood_ns if core is not None else 0

    def is_time_trusted(self, now: Now) -> bool:
        core = self._door.core
        return core is not None and core.is_time_trusted(now)
