"""How consensus stands on this server, for metrics, pages and autopilot."""

from __future__ import annotations

from dataclasses import dataclass

from adsum.raft.progress import Mode
from adsum.raft.types import Configuration, HardState, MemberId, Role


@dataclass(frozen=True, slots=True)
class MemberStatus:
    member: MemberId
    match: int
    mode: Mode
    is_active: bool


@dataclass(frozen=True, slots=True)
class Status:
    role: Role
    leader: MemberId | None
    hard_state: HardState
    first_index: int
    last_index: int
    stable: int
    applied: int
    configuration: Configuration
    transferee: MemberId | None
    members: tuple[MemberStatus, ...]  # as their leader sees them
