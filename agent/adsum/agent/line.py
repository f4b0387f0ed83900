"""Commands that wait for the disk, in the order in which they came.

A change is on disk before it is made: one that the disk refuses was never there, and nobody else has heard of
it. So those that touch the same files take turns, each deciding on what the one before it left. All others
are on their way together, which is what lets the disk take many with one trip to its thread.

The first that must wait holds up all behind it. That costs those a trip to the disk at most, and order is a
thing that nobody has to think about.
"""

from __future__ import annotations

from collections import deque

from adsum.agent.commands import Registration, Reload, WriteAll
from adsum.catalog.own_services import OwnCheck, OwnService
from adsum.effects import FileChange, Persist
from adsum.frozen import dataclass
from adsum.named import NamedTuple

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
    touched: tuple[str, ...] = ()  # files whose content decided what it does, or is changed by it
    coming: Coming = Coming(0, 0)
    service: OwnService | None = None  # to put, then
    checks: tuple[OwnCheck, ...] = ()  # to put, in their order
    checks_gone: tuple[str, ...] = ()
    service_gone: str = ""  # with all of its checks
    log: str = ""


class BegunCommand(NamedTuple):
    """On its way to the disk."""

    request: int
    plan: RegistrationPlan


class WaitingCommands:
    def __init__(self) -> None:
        self.coming = Coming(0, 0)
        self.waiting: deque[tuple[int, Ordered]] = deque()  # with their requests
        self._tickets = 0
        self._begun: dict[int, BegunCommand] = {}  # by ticket
        self._touched: set[str] = set()

    def __len__(self) -> int:
        return len(self.waiting) + len(self._begun)

    @property
    def has_begun(self) -> bool:
        return bool(self._begun)

    def is_free(self, touched: tuple[str, ...]) -> bool:
        """Nothing that is on its way to the disk touches these files."""
        return self._touched.isdisjoint(touched)

    def begin(self, request: int, plan: RegistrationPlan) -> Persist:
        self._tickets += 1
        self._begun[self._tickets] = BegunCommand(request, plan)
        self._touched.update(plan.touched)
        services, checks = plan.coming
        self.coming = Coming(self.coming.services + services, self.coming.checks + checks)
        return Persist(self._tickets, plan.files)

    def end(self, ticket: int) -> BegunCommand:
        begun = self._begun.pop(ticket)
        self._touched.difference_update(begun.plan.touched)
        services, checks = begun.plan.coming
        self.coming = Coming(self.coming.services - services, self.coming.checks - checks)
        return begun
