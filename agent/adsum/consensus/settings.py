"""How a server of consensus behaves where the algorithm leaves it open. The algorithm's own limits are in
`adsum.raft.settings`."""

from __future__ import annotations

from dataclasses import dataclass, field

from adsum.raft.settings import TICK_MS
from adsum.raft.settings import RaftSettings as RaftSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    datacenter: str = "dc1"
    # Servers to wait for before a cluster is founded; 0: never found one, wait to be taken in.
    expect: int = 0
    raft_multiplier: int = 1  # stretches every tick; Consul's 1 to 10
    stable_s: float = 10.0  # how long a newcomer only learns; Consul's server_stabilization_time
    removes_dead: bool = True  # Consul's cleanup_dead_servers
    voters_min: int = 0  # so many stay, however many are dead; Consul's min_quorum
    rpc_hold_timeout_s: float = 7.0  # how long a request is held while there is no leader; Consul's
    # A snapshot when so many entries were applied since the last one, looked at so often; both Consul's.
    snapshot_entries: int = 16_384
    snapshot_interval_s: float = 30.0
    # Or at once when the log has grown by so many since, for it is all in memory, where an entry of 150 bytes
    # takes half a kilobyte. Unless making them would take more than a tenth of the time.
    snapshot_entries_at_once: int = 65_536
    # Or by so much, whatever it takes: to let go of more than this at once would hold the loop for too long
    # (a hundred thousand entries take some 15 ms).
    snapshot_log_bytes: int = 32 << 20
    # What a snapshot leaves behind it in the log, for followers that are only a little late: so many entries,
    # which is Consul's number, as far as they come to so much.
    entries_kept: int = 10_240
    entries_kept_bytes: int = 16 << 20
    # And so much of what follows on a snapshot that a member is being brought, until it has installed it: at
    # 10,000 writes a second of 300 bytes, half a minute for the way. With less it would need another snapshot
    # on arrival, and so for ever.
    entries_awaited_bytes: int = 128 << 20
    # A hash of the state at each index that this divides, by which servers find out that they differ.
    hash_entries: int = 8_192
    # Proposals in the log that are not applied yet: some rounds of the disk, and what another agent's waits
    # for at most. The others wait in the queue.
    proposals_under_way_max: int = 1_024
    proposals_queued_max: int = 8_192
    proposals_queued_bytes_max: int = 64 << 20
    raft: RaftSettings = field(default_factory=RaftSettings)

    @property
    def tick_s(self) -> float:
        return TICK_MS * self.raft_multiplier / 1_000

    @property
    def election_timeout_s(self) -> float:
        """The shortest."""
        return self.raft.election_ticks * self.tick_s
