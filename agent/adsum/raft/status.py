"""How consensus stands on this server, for metrics, pages and autopilot."""

from __future__ import annotations

from dataclasses import dataclass

from adsum.raft.progress import ProgressMode
from adsum.raft.types import Configuration, HardState, MemberId, Role


@dataclass(frozen=True, slots=True)
class PeerStatus:
    member: MemberId
    match: int
    mode: ProgressMode
    is_active: bool
    can_lead: bool
    apply_level_max: int = 0  # until it has told


@dataclass(frozen=True, slots=True)
class RaftStatus:
    role: Role
    leader: MemberId | None
    hard_state: HardState
    first_index: int
    last_index: int
    stable: int
    applied: int
    configuration: Configuration
    transferee: MemberId | None
    members: tuple[PeerStatus, ...]  # as their leader sees them
