"""Consul's names for what only servers have: consensus and keys. As in `consul_metrics`, only what is true.

What Consul times and we time is a summary in milliseconds; of writes one at a time is timed, and at most a
hundred a second, so its `_count` is of those.
"""

from __future__ import annotations

from adsum.kv import ReadMode
from adsum.observe.consensus_metrics import (
    driven,
    failure_tolerance,
    histogram_of,
    leader_only,
    no_histogram,
    silences_s,
    space_of,
)
from adsum.observe.series import Sources, SpreadReading, counter, gauge, table, timer
from adsum.raft.types import Role
from adsum.servers.driver import SNAPSHOT_EDGES_S, Driver
from adsum.servers.stages import EDGES_S, WriteStage
from adsum.session import EndCause
from adsum.store.commands import CreateSession, EndSessions

NO_WRITE, NO_SNAPSHOT = no_histogram(EDGES_S), no_histogram(SNAPSHOT_EDGES_S)


def _is_healthy(driver: Driver) -> int:
    return int(all(each.is_active for each in driver.core.raft.status().members))


def _voters(driver: Driver) -> int:
    return len(driver.core.raft.replica.configuration.voters)


def _kvs_applied(sources: Sources) -> int:
    return sum(map(sum, sources.consensus.machine.writes.values()))


def _sessions_applied(sources: Sources) -> int:
    writes = sources.consensus.machine.writes
    return sum(sum(writes[command]) for command in (CreateSession, EndSessions))


CONSUL_SERVERS = table(
    "Entries that this server put into the log as leader.",
    counter("raft.apply", driven(lambda d: d.counters.entries_led)),
    "From when the leader took a write until a quorum had it.",
    timer("raft.commitTime", driven(lambda d: histogram_of(d.stages.committing), NO_WRITE)),
    "How long ago the leader heard of each follower, now.",
    timer("raft.leader.lastContact", lambda s: SpreadReading(tuple(silences_s(s).values()))),
    "Writes of this server's log with their syncs.",
    timer("raft.leader.dispatchLog", lambda s: histogram_of(s.consensus.log.syncs)),
    "Times that this server became leader.",
    counter("raft.state.leader", driven(lambda d: d.counters.turns[Role.LEADER])),
    "Times that it stood for election.",
    counter("raft.state.candidate", driven(lambda d: d.counters.turns[Role.CANDIDATE])),
    "Times that it became a follower again.",
    counter("raft.state.follower", driven(lambda d: d.counters.turns[Role.FOLLOWER])),
    "The newest entry of the log here.",
    gauge("raft.last_index", driven(lambda d: d.core.raft.replica.log.last_index)),
    "How far the state here is.",
    gauge("raft.applied_index", driven(lambda d: d.core.applied)),
    "Voters.",
    gauge("raft.peers", driven(_voters)),
    "Applying, with what came with it.",
    timer("raft.fsm.apply", driven(lambda d: histogram_of(d.stages.times[WriteStage.APPLY]), NO_WRITE)),
    "Snapshots written.",
    timer("raft.snapshot.takeSnapshot", driven(lambda d: histogram_of(d.snapshots_written), NO_SNAPSHOT)),
    "Snapshots written.",
    timer("raft.snapshot.persist", driven(lambda d: histogram_of(d.snapshots_written), NO_SNAPSHOT)),
    "Snapshots of the leader's read here.",
    timer("raft.rpc.installSnapshot", driven(lambda d: histogram_of(d.snapshots_read), NO_SNAPSHOT)),
    "How long writes took on the leader.",
    timer("kvs.apply", driven(lambda d: histogram_of(d.stages.whole), NO_WRITE)),
    "Writes of keys run on the copy here.",
    timer("fsm.kvs", _kvs_applied),
    "Sessions created, and ended by clients or by the leader, on the copy here.",
    timer("session.apply", _sessions_applied),
    "Renewals that this server did as leader.",
    timer("session.renew", lambda s: s.consensus.sessions.counters.renewed),
    "Sessions whose TTL this server counts, as their leader.",
    gauge("session_ttl.active", lambda s: s.consensus.sessions.with_ttl),
    "Sessions that nobody renewed.",
    timer("session_ttl.invalidate", lambda s: s.consensus.machine.sessions.ends[EndCause.EXPIRED]),
    "Keys in the store.",
    gauge("state.kv_entries", lambda s: len(space_of(s).table)),
    "1 while the leader hears every member of consensus; told by the leader only.",
    gauge("autopilot.healthy", leader_only(_is_healthy)),
    "How many more voters may fail before nobody can write; told by the leader only.",
    gauge("autopilot.failure_tolerance", leader_only(failure_tolerance)),
    "Reads that came to this server.",
    counter("rpc.query", lambda s: sum(s.consensus.keys.counters.reads)),
    "Those with ?consistent.",
    timer("rpc.consistentRead", lambda s: s.consensus.keys.counters.reads[ReadMode.CONSISTENT]),
)
