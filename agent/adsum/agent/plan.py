"""What a registration changes: worked out before anything is, then on disk, then made as it stands here.

A client's whole change or none of it: what the plan refuses, or the disk, was never visible to anybody.
"""

from __future__ import annotations

from adsum.catalog.own_services import OwnCheck, OwnService
from adsum.effects import FileChange
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RegistrationPlan:
    files: tuple[FileChange, ...] = ()  # on disk before the rest is made
    service: OwnService | None = None  # to put, then
    checks: tuple[OwnCheck, ...] = ()  # to put, in their order
    checks_gone: tuple[str, ...] = ()
    service_gone: str = ""  # with all of its checks
    log: str = ""
