"""What the catalog asks of the world beside what every core may ask: runs of checks."""

from __future__ import annotations

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.effects import LogLine
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Run it once, within its timeout, and answer `CheckRan` with the same run number."""

    check_id: str
    run: int
    definition: CheckDefinition


@dataclass(frozen=True, slots=True)
class CheckRan:
    """What came of a run."""

    check_id: str
    run: int
    status: CheckStatus
    output: str


@dataclass(frozen=True, slots=True)
class StopCheck:
    """End a run in progress, if any; its result is not wanted any more."""

    check_id: str


OwnServicesEffect = RunCheck | StopCheck | LogLine
