"""What a server tells about consensus and the store: who leads, how far the log is, what the disk takes, what
requests go through. A client agent has none of it, and loads none of it.

No label is a key, a value or a client; the only one from outside is the name of a server, of which there are
few. What only a leader knows, only a leader tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

from adsum.buckets import Buckets
from adsum.consensus.storing import GROUP_EDGES
from adsum.kv import KeyCause, ReadMode, StoreOutcome
from adsum.net.unread import REASONS as UNREAD_REASONS
from adsum.now import SECOND
from adsum.observe.series import (
    HistogramReading,
    Labelled,
    Reading,
    Sources,
    counter,
    gauge,
    histogram,
    table,
)
from adsum.raft.types import MemberId, Role
from adsum.servers.driver import SNAPSHOT_EDGES_S, Driver
from adsum.servers.stages import EDGES_S, WriteStage
from adsum.store.commands import (
    CONSUL,
    Acquire,
    CreateSession,
    Delete,
    DeleteTree,
    DeregisterExternal,
    EndSessions,
    ExpireSessions,
    NoteRemaining,
    Put,
    RegisterExternal,
    Release,
    RenewExternal,
    RunTransaction,
)
from adsum.store.keyspace import Keyspace

VERBS = {
    Put: "put",
    Delete: "delete",
    DeleteTree: "delete_tree",
    Acquire: "acquire",
    Release: "release",
    CreateSession: "session_create",
    EndSessions: "session_end",
    ExpireSessions: "session_expire",
    NoteRemaining: "session_note",
    RunTransaction: "transaction",
    RegisterExternal: "register",
    DeregisterExternal: "deregister",
    RenewExternal: "renew_external",
}
# Of what came from other servers; by the names of raft's own counters.
HELD = ("forwarded", "retried", "doubtful", "run_out")  # as they are counted
DOUBTS = ("differs", "disputed")
QUEUE = ("queued", "refused")
READ_QUESTIONS = ("asked", "late")
# Of client agents, by the names of their own counters.
CALL_ENDS = ("answered", "declined", "busy", "overdue", "cancelled", "faults")
QUESTIONS = ("writes", "reads", "renewals", "renewals", "pieces")
UNUSED = ("foreign", "misaddressed", "strangers", "stale", "malformed", "defended")


def driven(read: Callable[[Driver], Reading], without: Reading = 0) -> Callable[[Sources], Reading]:
    """Of a server that belongs to a cluster; `without` says what is told before."""

    def reading(sources: Sources) -> Reading:
        driver = sources.consensus.driver()
        return read(driver) if driver is not None else without

    return reading


def histogram_of(buckets: Buckets) -> HistogramReading:
    return HistogramReading(buckets.edges, tuple(buckets.counts), buckets.total)


def no_histogram(edges: tuple[float, ...]) -> HistogramReading:
    return HistogramReading(edges, (0,) * (len(edges) + 1), 0.0)


# What only a leader knows.


def failure_tolerance(driver: Driver) -> int:
    """How many more voters may fail, from what it heard of them lately; in a joint configuration both sets
    have to agree."""
    status = driver.core.raft.status()
    active = {each.member for each in status.members if each.is_active}
    configuration = status.configuration
    sets = [each for each in (configuration.voters, configuration.voters_outgoing) if each]
    return max(0, min((_spare(each, active) for each in sets), default=0))


def _spare(voters: Sequence[MemberId], active: Iterable[MemberId]) -> int:
    return len(set(voters) & set(active)) - (len(voters) // 2 + 1)


def _followers(sources: Sources) -> Labelled:
    """Entries that each lacks."""
    driver = sources.consensus.driver()
    if driver is None or not driver.is_leader:
        return {}
    status, me = driver.core.raft.status(), driver.core.raft.replica.me
    return {
        (sources.consensus.name_of(each.member.node),): status.last_index - each.match
        for each in status.members
        if each.member != me
    }


def silences_s(sources: Sources) -> dict[str, float]:
    """How long ago each follower was heard. One that never was is in it since this server leads, unless it
    became a member later."""
    driver = sources.consensus.driver()
    if driver is None or not driver.is_leader:
        return {}
    me, silences_ns = driver.core.raft.replica.me.node, {**driver.unheard_ns(), **driver.silences_ns()}
    nodes = {each.node for each in driver.core.raft.replica.configuration.members()} - {me}
    return {
        sources.consensus.name_of(node): silences_ns[node] / SECOND
        for node in sorted(nodes)
        if node in silences_ns
    }


def _silent(sources: Sources) -> Labelled:
    return {(node,): silence_s for node, silence_s in silences_s(sources).items()}


def leader_only(read: Callable[[Driver], float]) -> Callable[[Sources], Reading]:
    def reading(sources: Sources) -> Labelled:
        driver = sources.consensus.driver()
        return {(): read(driver)} if driver is not None and driver.is_leader else {}

    return reading


# What every server knows.


def _roles(driver: Driver) -> Reading:
    role = driver.core.soft.role
    return {each.value: int(each is role) for each in Role}


def _members(driver: Driver) -> Reading:
    configuration = driver.core.raft.replica.configuration
    return {"voter": len(configuration.voters), "learner": len(configuration.learners)}


def _log_bytes(sources: Sources) -> Reading:
    driver = sources.consensus.driver()
    in_memory = 0
    if driver is not None:
        log = driver.core.raft.replica.log
        in_memory = log.bytes_after(log.first_index - 1)
    return {"memory": in_memory, "disk": sources.consensus.log.bytes_on_disk}


def _log_entries(driver: Driver) -> int:
    log = driver.core.raft.replica.log
    return log.last_index - log.first_index + 1


def _since_snapshot(driver: Driver) -> int:
    log = driver.core.raft.replica.log
    return log.applied - log.snapshot.index


def _snapshot_bytes(sources: Sources) -> int:
    newest = sources.consensus.log.snapshot
    return newest.size_bytes if newest is not None else 0


def _snapshots(driver: Driver) -> Reading:
    counters = driver.counters
    return {
        "made": counters.snapshots_made,
        "installed": counters.snapshots_installed,
        "failed": counters.snapshots_failed,
        "damaged": counters.snapshots_damaged,
    }


def _transfers(sources: Sources) -> Reading:
    counters = sources.consensus.carrying
    return {each.name: getattr(counters, each.name) for each in fields(counters)}


def _snapshot_times(driver: Driver) -> Reading:
    return {"write": histogram_of(driver.snapshots_written), "read": histogram_of(driver.snapshots_read)}


def _held(driver: Driver) -> Reading:
    counters = driver.core.requests.counters
    return {name: getattr(counters, name) for name in HELD}


def _doubts(driver: Driver) -> Reading:
    doubt = driver.core.comparing.doubt
    return {each: int(each == doubt) for each in DOUBTS}


def _stages(driver: Driver) -> Reading:
    return {stage.name.lower(): histogram_of(driver.stages.times[stage]) for stage in WriteStage}


def _counted(*names: str) -> Callable[[Sources], Reading]:
    return driven(
        lambda driver: {name: getattr(driver.core.raft.counts, name) for name in names},
        dict.fromkeys(names, 0),
    )


def space_of(sources: Sources) -> Keyspace:
    return sources.consensus.machine.keyspaces[CONSUL]


def _writes(sources: Sources) -> Labelled:
    return {
        (VERBS[verb], outcome.name.lower()): counts[outcome]
        for verb, counts in sources.consensus.machine.writes.items()
        for outcome in StoreOutcome
    }


def _agent_calls(sources: Sources) -> Reading:
    counters = sources.consensus.agents.call_counters
    return {how: getattr(counters, how) for how in CALL_ENDS}


def _agent_questions(sources: Sources) -> Reading:
    counters = sources.consensus.agents.questions.counters
    return {what: getattr(counters, what) for what in QUESTIONS}


def _agent_questions_refused(sources: Sources) -> Reading:
    agents = sources.consensus.agents
    counters = agents.questions.counters
    return {
        "stranger": agents.strangers,
        "impostor": counters.impostors,
        "malformed": counters.malformed,
    }


NO_STAGES = {stage.name.lower(): no_histogram(EDGES_S) for stage in WriteStage}
NO_SNAPSHOT_TIMES = {"write": no_histogram(SNAPSHOT_EDGES_S), "read": no_histogram(SNAPSHOT_EDGES_S)}
CONTRADICTIONS = ("contradictions", "forgotten")
STEP_DOWNS = {"quorum": "quorum_losses", "disk": "store_losses"}

CONSENSUS = table(
    "1 on the server that leads, as it sees it.",
    gauge("adsum_raft_leader", driven(lambda d: int(d.is_leader))),
    "1 while this server knows who leads.",
    gauge("adsum_raft_leader_known", driven(lambda d: int(d.leader is not None))),
    "The term that this server is in.",
    gauge("adsum_raft_term", driven(lambda d: d.core.soft.term)),
    "1 for the role that this server has.",
    gauge("adsum_raft_role{role}", driven(_roles, dict.fromkeys([each.value for each in Role], 0))),
    "Elections begun here.",
    counter("adsum_raft_elections_total", driven(lambda d: d.core.raft.counts.elections)),
    "Times that this server came to know another leader than the last one.",
    counter("adsum_raft_leader_changes_total", driven(lambda d: d.counters.leader_changes)),
    "Times that this server gave up leading: a quorum was silent, or its own disk was.",
    counter(
        "adsum_raft_step_downs_total{cause}",
        driven(
            lambda d: {cause: getattr(d.core.raft.counts, name) for cause, name in STEP_DOWNS.items()},
            dict.fromkeys(STEP_DOWNS, 0),
        ),
    ),
    "Members of consensus, as this server has them.",
    gauge("adsum_raft_members{kind}", driven(_members, {"voter": 0, "learner": 0})),
    "How many more voters may fail before nobody can write; told by the leader only.",
    gauge("adsum_raft_failure_tolerance", leader_only(failure_tolerance)),
    "Entries that a server lacks on its disk; told by the leader only.",
    gauge("adsum_raft_follower_lag_entries{node}", _followers),
    "How long ago the leader heard of a server, or began to lead if it never did; told by the leader only.",
    gauge("adsum_raft_follower_silent_seconds{node}", _silent),
    # The log.
    "The newest entry of the log here.",
    gauge("adsum_raft_last_index", driven(lambda d: d.core.raft.replica.log.last_index)),
    "How far the log is known to be on the disks of a quorum.",
    gauge("adsum_raft_commit_index", driven(lambda d: d.core.raft.replica.log.commit)),
    "How far the state here is.",
    gauge("adsum_raft_applied_index", driven(lambda d: d.core.applied)),
    "Entries in memory.",
    gauge("adsum_raft_log_entries", driven(_log_entries)),
    "The log in memory, and its segments on the disk with the room ahead in them.",
    gauge("adsum_raft_log_bytes{where}", _log_bytes),
    "1 while the disk has no room for the log.",
    gauge("adsum_raft_log_full", driven(lambda d: int(not d.core.storing.has_room))),
    "Times that a write of the log had to wait for room on the disk.",
    counter("adsum_raft_log_full_total", driven(lambda d: d.core.storing.counters.disk_full)),
    "How long a write of the log takes with its sync.",
    histogram("adsum_raft_log_sync_seconds", lambda s: histogram_of(s.consensus.log.syncs)),
    "Entries that were written to the log at once.",
    histogram(
        "adsum_raft_group_entries",
        driven(lambda d: histogram_of(d.core.storing.counters.sizes), no_histogram(GROUP_EDGES)),
    ),
    # Snapshots.
    "Snapshots: made here, installed from the leader, given up for want of room, found damaged on this disk.",
    counter(
        "adsum_raft_snapshots_total{what}",
        driven(_snapshots, dict.fromkeys(("made", "installed", "failed", "damaged"), 0)),
    ),
    "How long it took to write a snapshot, and to read one that was installed.",
    histogram("adsum_raft_snapshot_seconds{what}", driven(_snapshot_times, NO_SNAPSHOT_TIMES)),
    "Size of the newest snapshot.",
    gauge("adsum_raft_snapshot_bytes", _snapshot_bytes),
    "Entries applied since the newest snapshot.",
    gauge("adsum_raft_entries_since_snapshot", driven(_since_snapshot)),
    "Snapshots on their way to other servers and from them, and their pieces.",
    counter("adsum_raft_snapshot_transfers_total{what}", _transfers),
    # Hashes of the state.
    "1 while the state here is in doubt: it differs from a majority's, or servers differ and none has one.",
    gauge("adsum_raft_state_doubted{what}", driven(_doubts, dict.fromkeys(DOUBTS, 0))),
    "Times that a majority was found to have the same state as this server.",
    counter("adsum_raft_state_agreed_total", driven(lambda d: d.core.comparing.agreed)),
    # Requests.
    "Writes that wait here for their entry to be committed and applied.",
    gauge("adsum_raft_proposals_waiting", driven(lambda d: d.core.proposals_waiting)),
    "Writes that wait in the leader's queue for room in the log.",
    gauge("adsum_raft_proposals_queued", driven(lambda d: d.core.proposing.queue.count)),
    "Writes that had to wait in the leader's queue, and those refused for want of room for their agent.",
    counter(
        "adsum_raft_proposals_queue_total{what}",
        driven(
            lambda d: {name: getattr(d.core.proposing.counters, name) for name in QUEUE},
            dict.fromkeys(QUEUE, 0),
        ),
    ),
    "Reads that wait here for a quorum.",
    gauge("adsum_raft_reads_waiting", driven(lambda d: len(d.core.reads))),
    "Questions of this leader to its quorum, each about all reads that had gathered, and how many were not "
    "answered in time, so that every server was asked.",
    counter(
        "adsum_raft_read_questions_total{what}",
        driven(
            lambda d: {name: getattr(d.core.reads.counters, name) for name in READ_QUESTIONS},
            dict.fromkeys(READ_QUESTIONS, 0),
        ),
    ),
    "Requests held here: without an answer yet, from here or from the leader.",
    gauge("adsum_raft_requests_held", driven(lambda d: len(d.core.requests))),
    "What requests went through: sent on to the leader, tried again, without anybody knowing what came of a "
    "try, not answered in time.",
    counter("adsum_raft_requests_total{what}", driven(_held, dict.fromkeys(HELD, 0))),
    "Entries that this server put into the log as leader.",
    counter("adsum_raft_entries_led_total", driven(lambda d: d.counters.entries_led)),
    "How long writes took on the leader, by stage; of one at a time, and at most a hundred a second.",
    histogram("adsum_raft_write_stage_seconds{stage}", driven(_stages, NO_STAGES)),
    "How long the same writes took on the leader from first to last.",
    histogram(
        "adsum_raft_write_seconds", driven(lambda d: histogram_of(d.stages.whole), no_histogram(EDGES_S))
    ),
    # Between servers.
    "Messages to other servers, and those dropped for want of a connection or of room on it.",
    counter(
        "adsum_raft_messages_total{what}",
        lambda s: {"sent": s.consensus.links.told, "dropped": s.consensus.links.dropped},
    ),
    "Messages of other servers that were not used, by reason; defended: elections that a live leader spared.",
    counter("adsum_raft_messages_unused_total{reason}", _counted(*UNUSED)),
    "What must never happen: two leaders in one term, or a disk that has lost what it had acknowledged.",
    counter("adsum_raft_contradictions_total{what}", _counted(*CONTRADICTIONS)),
    "Times that this server stood still for longer than three ticks.",
    counter("adsum_raft_pauses_total", driven(lambda d: d.core.pace.pauses)),
    # Client agents.
    "Connections of client agents open now.",
    gauge("adsum_agent_lines_open", lambda s: s.consensus.agent_places.open),
    "Connections of client agents turned away, because too many were open, in all or of one host.",
    counter("adsum_agent_lines_turned_away_total", lambda s: s.consensus.agent_places.turned_away),
    "Calls of client agents without an answer yet; most of them wait for a change.",
    gauge("adsum_agent_calls_open", lambda s: s.consensus.agents.call_counters.in_flight),
    "How calls of client agents ended; busy: too many were under way, faults: a bug of the agent.",
    counter("adsum_agent_calls_total{how}", _agent_calls),
    "What client agents asked; pieces: of a long answer, after the first.",
    counter("adsum_agent_questions_total{what}", _agent_questions),
    "Questions that were not answered, by reason: of nobody that this server knows, in another agent's name, "
    "or without a sense.",
    counter("adsum_agent_questions_refused_total{reason}", _agent_questions_refused),
    "Rests of long answers that are kept until their agents fetch them.",
    gauge("adsum_agent_rests_kept", lambda s: s.consensus.agents.questions.counters.rests),
    "Rests that nobody fetched in time, or that made room for others.",
    counter("adsum_agent_rests_dropped_total", lambda s: s.consensus.agents.questions.counters.rests_dropped),
    "Memory held by what client agents sent and is not read yet.",
    gauge("adsum_agent_unread_bytes", lambda s: s.consensus.agents.unread_counters.held_bytes),
    "Frames of client agents that were not taken, by the limit they met.",
    counter(
        "adsum_agent_unread_refused_total{limit}",
        lambda s: {limit: s.consensus.agents.unread_counters.refused[limit] for limit in UNREAD_REASONS},
    ),
    # Keys.
    "Keys in the store.",
    gauge("adsum_kv_keys", lambda s: len(space_of(s).table)),
    "What keys and values take in memory.",
    gauge("adsum_kv_bytes", lambda s: space_of(s).table.bytes_total),
    "Revision of the last change of a key.",
    gauge("adsum_kv_revision", lambda s: space_of(s).revision),
    "Changes that are remembered with what was before.",
    gauge("adsum_kv_history_changes", lambda s: len(space_of(s).history)),
    "What they take in memory.",
    gauge("adsum_kv_history_bytes", lambda s: space_of(s).history.bytes_total),
    "Revision of the newest change that is not remembered any more.",
    gauge("adsum_kv_history_floor", lambda s: space_of(s).history.floor),
    "Deleted keys that are remembered.",
    gauge("adsum_kv_tombstones", lambda s: len(space_of(s).tombstones)),
    "Agents whose answered writes are remembered, to know a repeated one again.",
    gauge("adsum_kv_result_agents", lambda s: len(s.consensus.machine.results.rows)),
    "What those answers take in memory.",
    gauge("adsum_kv_result_bytes", lambda s: s.consensus.machine.results.bytes_total),
    "Revision of the newest answer that had to be forgotten.",
    gauge("adsum_kv_result_floor", lambda s: s.consensus.machine.results.floor),
    "Requests that wait here for a change of a key or below a prefix.",
    gauge("adsum_kv_waiters", lambda s: len(s.consensus.keys.waiters)),
    "How often one of them was woken.",
    counter("adsum_kv_wakes_total", lambda s: s.consensus.keys.counters.wakes),
    "Writes run on the copy here, by what was asked and what came of it; each server runs all of them.",
    counter("adsum_kv_writes_total{verb,outcome}", _writes),
    "Operations of transactions that were refused here, for all of these would have read too much.",
    counter("adsum_kv_transaction_reads_refused_total", lambda s: s.consensus.machine.reads_refused),
    "Reads that came to this server, by mode.",
    counter(
        "adsum_kv_reads_total{mode}",
        lambda s: {mode.name.lower(): s.consensus.keys.counters.reads[mode] for mode in ReadMode},
    ),
    "Reads and writes refused here, by cause; unknown: it may have been done.",
    counter(
        "adsum_kv_refused_total{cause}",
        lambda s: {cause.name.lower(): s.consensus.keys.counters.refused[cause] for cause in KeyCause},
    ),
    "Writes that met a bug of the agent before they changed anything.",
    counter("adsum_kv_internal_errors_total", lambda s: s.consensus.machine.internal_errors),
)
