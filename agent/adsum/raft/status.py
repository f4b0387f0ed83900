"""How consensus stands on this server, for metrics, pages and autopilot."""

from __future__ import annotations

from dataclasses import dataclass

from adsum.raft.leader import Leader
from adsum.raft.progress import ProgressMode
from adsum.raft.replica import Replica
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


def status_of(replica: Replica, leader: Leader | None) -> RaftStatus:
    log = replica.log
    progress = leader.progress if leader else {}
    return RaftStatus(
        role=replica.role,
        leader=replica.leader,
        hard_state=replica.hard_state,
        first_index=log.first_index,
        last_index=log.last_index,
        stable=log.stable,
        applied=log.applied,
        configuration=replica.configuration,
        transferee=leader.transferee if leader else None,
        members=tuple(
            PeerStatus(id_, p.match, p.mode, p.is_active, p.can_lead, p.apply_level_max)
            for id_, p in progress.items()
        ),
    )
