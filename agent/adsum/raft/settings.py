"""Times and limits of consensus. Times are in ticks: the driver calls `tick` once every `TICK_MS`, times the
operator's `raft_multiplier`."""

from __future__ import annotations

from dataclasses import dataclass

from adsum.raft.types import NEWEST_APPLY_LEVEL

# With 50 ms, heartbeats leave every 100 ms and a follower waits 0.5 to 1 s before it stands for election.
TICK_MS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftSettings:
    heartbeat_ticks: int = 2
    election_ticks: int = 10  # the least; each wait is drawn from [this, twice this)
    append_bytes_max: int = 1 << 20  # of one message; etcd's value. A larger single entry travels alone.
    inflight_messages_max: int = 256  # appends on their way to one follower
    inflight_bytes_max: int = 8 << 20
    uncommitted_bytes_max: int = 64 << 20  # past it proposals are refused
    apply_bytes_max: int = 4 << 20  # of one committed slice
    unapplied_bytes_max: int = 64 << 20  # stored of a log that goes on at a level this program does not know
    applying_bytes_max: int = 16 << 20  # handed out and not yet applied
    entry_bytes_max: int = 8 << 20  # of one proposal's data; Consul's transactions end at 512 KiB
    reads_pending_max: int = 16_384  # as many as the API has connections
    promotion_trailing_max: int = 250  # entries a learner may lack when it gets its vote; Consul's autopilot
    apply_level_max: int = NEWEST_APPLY_LEVEL  # what this program can apply

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_ticks < self.election_ticks, "a leader must be heard before it is doubted"
        assert self.apply_bytes_max <= self.applying_bytes_max, "a slice must fit its window"
