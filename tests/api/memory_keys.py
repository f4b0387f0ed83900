"""A store of keys for endpoints to stand on: the shipped one, on a log that is committed at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import Turned
from adsum.dedup import WriteNumbers
from adsum.kv import KeyRefusal, KeyVerb, KeyWrite
from adsum.leading import ConsensusFigures
from adsum.raft.types import Entry, EntryKind, MemberId, Role, Term, Turn, TurnCause
from adsum.servers.keys import STORE_LIMITS, ServerKeys, StoreLimits
from adsum.servers.renewals import AllRenewed
from adsum.store.machine import StoreMachine
from adsum.store_requests import RenewAnswered

ME = MemberId("n1", "log")
WALL_MS = 1_800_000_000_000


class InstantConsensus:
    """It leads from the start. `refuses` is what it answers instead, if a test sets it; `holds` what is asked
    is kept without an answer."""

    def __init__(self, limits: StoreLimits = STORE_LIMITS) -> None:
        self.machine = StoreMachine()
        numbers = WriteNumbers("n1", 1)
        self.renewals = InstantRenewals(self.machine)
        self.keys = ServerKeys(self, self.machine, numbers, lambda: WALL_MS, _wake_all, limits, self.renewals)
        self.keys.turned(Turned(Role.LEADER, ME, Term(1), Turn(TurnCause.ELECTED, (ME,))))
        self.leader: MemberId | None = ME
        self.behind_ms = 0
        self.apply_level = 2
        self.level_waits_for: list[str] = []
        self.waits_for = ""
        self.read_turn: int | None = None  # each read is asked by itself
        self.figures: ConsensusFigures | None = None
        self.refuses: Exception | None = None
        self.holds = False
        self.held: list[Callable[[int], None]] = []  # what waits for an answer
        self.given_up: list[object] = []

    def submit(self, request: SubmitProposal | SubmitRead) -> None:
        token: object = request.token
        assert callable(token)
        if self.holds:
            self.held.append(token)
            return
        if self.refuses is not None:
            token(self.refuses)
        elif isinstance(request, SubmitRead):
            token(self.machine.applied)
        else:
            index = self.machine.applied + 1
            dedup, data = request.dedup, request.data
            token(self.machine.apply(Entry(index, Term(1), EntryKind.COMMAND, 0, 2, dedup, data)))
            self.keys.applied()

    def put(self, key: bytes, value: bytes) -> None:
        """By somebody else."""
        self.keys.write(KeyWrite(KeyVerb.PUT, key, value), lambda _outcome: None)

    def give_up(self, token: object) -> None:
        self.given_up.append(token)


class InstantRenewals:
    """It `RenewsSessions`, as a proven leader does. `refuses` is what it answers instead."""

    def __init__(self, machine: StoreMachine) -> None:
        self._machine = machine
        self.refuses: KeyRefusal | None = None

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        answered(self.refuses or self._machine.sessions.get(session_id))
        return None

    def renew_all(self, ids: Sequence[str], answered: AllRenewed) -> object:
        answered(self.refuses or [self._machine.sessions.get(each) for each in ids])
        return None

    def give_up(self, asked: object) -> None:
        """It was answered at once."""


def _wake_all(woken: list[Callable[[], None]]) -> None:
    for wake in woken:
        wake()
