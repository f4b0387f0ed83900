"""Commands that wait for the disk, in the order in which they came.

A change is on disk before it is made: one that the disk refuses was never there, and nobody else has heard of
it. So those that touch the same files take turns, each deciding on what the one before it left. All others
are on their way together, which is what lets the disk take many with one trip to its thread.

The first that must wait holds up all behind it. That costs those a trip to the disk at most, and order is a
thing that nobody has to think about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from adsum.agent.commands import RegisterCheck, RegisterService, Registration, Reload, WriteAll
from adsum.catalog.own_services import OwnCheck, OwnService
from adsum.effects import FileChange
from adsum.frozen import dataclass

Ordered = Registration | Reload | WriteAll
NOBODY = 0  # the request of a command that nobody waits for


class Coming(NamedTuple):
    """What may be new, if the disk takes it."""

    services: int
    checks: int


@dataclass(frozen=True, slots=True)
class RegistrationPlan:
    """What a registration changes, worked out before anything is: on disk first, then made as it stands.

    A client's whole change or none: what the plan refuses, or the disk, was never visible to anybody."""

    files: tuple[FileChange, ...] = ()  # on disk before the rest is made
    service: OwnService | None = None  # to put, then
    checks: tuple[OwnCheck, ...] = ()  # to put, in their order
    checks_gone: tuple[str, ...] = ()
    service_gone: str = ""  # with all of its checks
    log: str = ""


class BegunCommand(NamedTuple):
    """On its way to the disk."""

    request: int
    command: Registration
    plan: RegistrationPlan
    touched: tuple[str, ...]


class WaitingCommands:
    def __init__(self) -> None:
        self.coming = Coming(0, 0)
        self.waiting: deque[tuple[int, Ordered]] = deque()  # with their requests
        self._begun: dict[int, BegunCommand] = {}  # by ticket
        self._touched: set[str] = set()

    def __len__(self) -> int:
        return len(self.waiting) + len(self._begun)

    def next(
        self, touched_by: Callable[[Registration], tuple[str, ...]]
    ) -> tuple[int, Ordered, tuple[str, ...]] | None:
        """Whose turn it is, and the files that it touches; None if the first must wait. One that is no
        registration touches everything."""
        if not self.waiting:
            return None
        request, command = self.waiting[0]
        touched: tuple[str, ...] = ()
        if isinstance(command, Reload | WriteAll):
            must_wait = bool(self._begun)
        else:
            touched = touched_by(command)
            must_wait = not self.is_free(touched)
        if must_wait:
            return None
        self.waiting.popleft()
        return request, command, touched

    def is_free(self, touched: tuple[str, ...]) -> bool:
        return self._touched.isdisjoint(touched)

    def begin(self, ticket: int, begun: BegunCommand) -> None:
        self._begun[ticket] = begun
        self._touched.update(begun.touched)
        self._count(begun.command, +1)

    def end(self, ticket: int) -> BegunCommand:
        begun = self._begun.pop(ticket)
        self._touched.difference_update(begun.touched)
        self._count(begun.command, -1)
        return begun

    def _count(self, command: Registration, sign: int) -> None:
        services, checks = self.coming
        match command:
            case RegisterService(definition):
                self.coming = Coming(services + sign, checks + sign * len(definition.checks))
            case RegisterCheck():
                self.coming = Coming(services, checks + sign)
