"""What a server of consensus counts of itself."""

from __future__ import annotations

from dataclasses import field

from adsum.mutable import dataclass
from adsum.raft.types import Role


@dataclass(slots=True)
class ConsensusCounters:
    batches: int = 0
    entries_led: int = 0  # that this server put into the log as leader
    entries_applied: int = 0
    refused_full: int = 0  # proposals, for want of room
    leader_changes: int = 0  # another leader than the last one that was known
    turns: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))  # into each role
    snapshots_made: int = 0
    snapshots_failed: int = 0
    snapshots_damaged: int = 0  # found so when they were to be sent
    snapshots_installed: int = 0
