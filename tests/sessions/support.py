"""A keeper of sessions over the store that ships; the log and the world are played by the test."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from adsum.kv import StoreOutcome, decode_answer
from adsum.now import SECOND, Now
from adsum.raft.types import Entry, EntryKind, Term
from adsum.session import EndCause, Session
from adsum.sessions.effects import AnswerRenewals, ConfirmLeadership, KeeperEffect, ProposeInTerm
from adsum.sessions.keeper import RenewThese, SessionKeeper
from adsum.sessions.kept import KeptSessions
from adsum.sessions.reports import (
    HostMoved,
    KeeperReport,
    LeadershipConfirmed,
    LeadershipTurned,
    ProposalEnded,
    SessionsApplied,
)
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, NodeKey, RecordsSeen
from adsum.store.commands import Acquire, CreateSession, StoreCommand, StoreRequest, encode_request
from adsum.store.machine import StoreMachine

A, B, C = "server-a", "server-b", "server-c"
WEB = bytes(15) + b"\1"
WEB_KEY: NodeKey = (WEB, "")
Effect = TypeVar("Effect")


def session(session_id: str = "s", **changes: Any) -> Session:
    """On the agent `web` in its generation 5, whose records were known up to version 40."""
    usual = Session(session_id, "web", WEB, 5, 40, ttl="10s", ttl_ms=10_000)
    return replace(usual, **changes)


def linked(session_id: str = "s", *checks: str, **changes: Any) -> Session:
    """As Consul's clients create them: without a TTL, on the node's health."""
    return session(session_id, ttl="", ttl_ms=0, node_checks=("serfHealth", *checks), **changes)


class SeenHosts:
    def __init__(self) -> None:
        self.is_isolated = False
        self.hosts: dict[NodeKey, HostSeen] = {WEB_KEY: HostSeen(HostVerdict.PRESENT, 5)}
        self.copies: dict[NodeKey, RecordsSeen] = {WEB_KEY: RecordsSeen(5, 40, is_complete=True)}
        self.checks: dict[tuple[NodeKey, str], CheckSeen] = {}
        self.followed: dict[str, int] = {}  # nodes whose name another agent has
        self.looks = 0

    def host(self, who: NodeKey) -> HostSeen:
        self.looks += 1
        return self.hosts.get(who, HostSeen(HostVerdict.UNKNOWN))

    def followed_by(self, _who: NodeKey, node: str) -> int:
        return self.followed.get(node, 0)

    def records(self, who: NodeKey) -> RecordsSeen:
        return self.copies.get(who, RecordsSeen())

    def check(self, who: NodeKey, check_id: str) -> CheckSeen:
        return self.checks.get((who, check_id), CheckSeen.FINE)


class Clock:
    """As consensus keeps it."""

    def __init__(self) -> None:
        self.stood_ns = 0
        self.is_trusted = True

    def is_time_trusted(self, _now: Now) -> bool:
        return self.is_trusted


class Log:
    """What is committed, applied to one store."""

    def __init__(self, machine: StoreMachine | None = None) -> None:
        self.machine = machine or StoreMachine()

    def apply(self, command: StoreCommand, term: int) -> bytes:
        data = encode_request(StoreRequest(command, 0))
        index = self.machine.applied + 1
        return self.machine.apply(Entry(index, Term(term), EntryKind.COMMAND, 0, 2, None, data))

    def create(self, *sessions: Session, term: int = 1) -> None:
        for each in sessions:
            answer = decode_answer(self.apply(CreateSession(each), term))
            assert answer.outcome is StoreOutcome.DONE

    def hold(self, session_id: str, count: int) -> None:
        for number in range(count):
            self.apply(Acquire(f"{session_id}/{number}".encode(), b"", session_id), 1)

    @property
    def sessions(self) -> list[str]:
        return [each.id for each in self.machine.sessions.all()]

    def end_of(self, session_id: str) -> tuple[EndCause, str]:
        ended = self.machine.sessions.ended[session_id]
        return ended.cause, ended.evidence


class Leader:
    """One server that leads in a term, and its keeper. Time is told in seconds."""

    def __init__(
        self,
        log: Log,
        sees: SeenHosts | None = None,
        *,
        me: str = A,
        voters: tuple[str, ...] = (A, B, C),
        term: int = 1,
        at: float = 0,
        keeper: SessionKeeper | None = None,
    ) -> None:
        self.log = log
        self.sees = sees or SeenHosts()
        self.clock = Clock()
        self.at = at
        self.term = term
        kept = KeptSessions(log.machine)
        self.keeper = keeper or SessionKeeper(me, kept, self.sees, self.clock, lambda: voters, str.upper)
        self.told: list[KeeperEffect] = []  # what it wanted as soon as it led
        self.report(LeadershipTurned(term))

    @property
    def now(self) -> Now:
        return Now(int(self.at * SECOND), 0)

    def report(self, report: KeeperReport) -> list[KeeperEffect]:
        return self.keeper.receive(self.now, report)

    def tick(self) -> list[KeeperEffect]:
        return self.keeper.tick(self.now)

    def proven(self) -> Leader:
        """The quorum and the log answer at once."""
        for effect in self.tick():
            assert isinstance(effect, ConfirmLeadership)
            self.report(LeadershipConfirmed(effect.ticket, is_confirmed=True))
        self.told = self.pass_to(self.at)
        return self

    def settle(self) -> list[KeeperEffect]:
        """What it wants until it is content with that."""
        wanted: list[KeeperEffect] = []
        while (due_ns := self.keeper.deadline()) is not None and due_ns <= self.now.monotonic_ns:
            wanted += self.tick()
        return wanted

    def pass_to(self, at: float) -> list[KeeperEffect]:
        """Whatever it wants by then, done at once, and told."""
        wanted: list[KeeperEffect] = []
        while (due_ns := self.keeper.deadline()) is not None and due_ns <= at * SECOND:
            self.at = max(self.at, due_ns / SECOND)
            for effect in self.tick():
                wanted.append(effect)
                wanted += self.do(effect)
        self.at = at
        return wanted

    def do(self, effect: KeeperEffect) -> list[KeeperEffect]:
        if isinstance(effect, ConfirmLeadership):
            return self.report(LeadershipConfirmed(effect.ticket, is_confirmed=True))
        if isinstance(effect, ProposeInTerm):
            return self.commit(effect)
        return []

    def commit(self, effect: ProposeInTerm) -> list[KeeperEffect]:
        answer = decode_answer(self.log.apply(effect.command, effect.term))
        wanted = self.report(SessionsApplied())
        return wanted + self.report(ProposalEnded(effect.ticket, answer.outcome is StoreOutcome.DONE))

    def renew(self, *ids: str, token: str = "t") -> list[KeeperEffect]:
        return self.keeper.command(self.now, RenewThese(ids, token))

    def renewed(self, *ids: str) -> list[str | None]:
        """With a quorum and a log that answer at once: the ids of those that go on."""
        wanted = [*self.renew(*ids), *self.pass_to(self.at)]
        answer = one(wanted, AnswerRenewals)
        assert isinstance(answer.outcome, list), answer.outcome
        return [each.id if each is not None else None for each in answer.outcome]

    def moved(self, who: NodeKey = WEB_KEY) -> list[KeeperEffect]:
        return self.report(HostMoved(who))


def of(effects: list[KeeperEffect], kind: type[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def one(effects: list[KeeperEffect], kind: type[Effect]) -> Effect:
    found = of(effects, kind)
    assert len(found) == 1, effects
    return found[0]
