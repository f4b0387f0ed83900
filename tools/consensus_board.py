"""The board of consensus and keys: who leads, who keeps up, where a write spends its time, what is asked."""

from __future__ import annotations

from tools.panels import Row, panel, quantiles, stat

CONSENSUS = (
    Row(
        "Now",
        (
            stat(
                "A leader is known",
                "1 while any server knows who leads. At 0 nobody can write keys.",
                "max(adsum_raft_leader_known{@})",
            ),
            stat(
                "Servers that may fail",
                "Before nobody can write. 0 with three servers or more is an alert.",
                "max(adsum_raft_failure_tolerance{@})",
            ),
            stat("Voters", "As the servers have them.", 'max(adsum_raft_members{kind="voter", @})'),
            stat(
                "Changes of leader",
                "In the last hour.",
                "max(increase(adsum_raft_leader_changes_total{@}[1h]))",
                3,
            ),
            stat("Keys", "On the server that has most.", "max(adsum_kv_keys{@})", 8_000_000),
            stat(
                "Logs without room",
                "Servers whose disk has no room for the log.",
                "sum(adsum_raft_log_full{@})",
                1,
            ),
        ),
    ),
    Row(
        "Who leads, who follows",
        (
            panel(
                "Leader",
                "As each sees itself. Two at once for longer than a moment: the older one is cut off.",
                "short",
                ("{{instance}}", "adsum_raft_leader{@}"),
                kind="state-timeline",
            ),
            panel(
                "Term",
                "Rises with each election. Without a change of leader: somebody is elected in vain.",
                "short",
                ("{{instance}}", "adsum_raft_term{@}"),
            ),
            panel(
                "Elections, and leadership given up",
                "Begun here; and given up because a quorum was silent, or the own disk.",
                "short",
                ("{{instance}} elections", "increase(adsum_raft_elections_total{@}[~])"),
                ("{{instance}} gave up: {{cause}}", "increase(adsum_raft_step_downs_total{@}[~])"),
                ("{{instance}} stood still", "increase(adsum_raft_pauses_total{@}[~])"),
            ),
            panel(
                "Entries that followers lack",
                "As the leader knows it. A line that does not come down: that server's disk, or its network.",
                "short",
                ("{{node}}", "max by (node) (adsum_raft_follower_lag_entries{@})"),
            ),
            panel(
                "Silence of followers",
                "How long ago the leader heard each. Heartbeats come several times a second.",
                "s",
                ("{{node}}", "max by (node) (adsum_raft_follower_silent_seconds{@})"),
            ),
            panel(
                "Committed and not applied",
                "By server. Minutes of it: that server installs a snapshot, or does not get to applying.",
                "short",
                ("{{instance}}", "adsum_raft_commit_index{@} - adsum_raft_applied_index{@}"),
            ),
        ),
    ),
    Row(
        "Where a write spends its time (on the leader)",
        (
            panel(
                "Writes",
                "From when the leader takes one until it is answered.",
                "s",
                *quantiles("adsum_raft_write_seconds", "~", 0.5, 0.9, 0.99),
            ),
            panel(
                "By stage, on average",
                "Queue: behind the disk's last write. Sync: the leader's disk. Replicate: the quorum.",
                "s",
                (
                    "{{stage}}",
                    (
                        "sum by (stage) (rate(adsum_raft_write_stage_seconds_sum{@}[~]))"
                        " / sum by (stage) (rate(adsum_raft_write_stage_seconds_count{@}[~]))"
                    ),
                ),
            ),
            panel(
                "By stage, p99",
                "The same, of the slowest in a hundred.",
                "s",
                (
                    "{{stage}}",
                    (
                        "histogram_quantile(0.99, sum by (stage, le)"
                        " (rate(adsum_raft_write_stage_seconds_bucket{@}[~])))"
                    ),
                ),
            ),
            panel(
                "Entries written at once",
                "What gathers while the disk is busy is one write.",
                "short",
                *quantiles("adsum_raft_group_entries", "~", 0.5, 0.99),
            ),
            panel(
                "Writes of the log, p99",
                "With their sync, by server. Above 100 ms for long is an alert.",
                "s",
                (
                    "{{instance}}",
                    (
                        "histogram_quantile(0.99, sum by (instance, le)"
                        " (rate(adsum_raft_log_sync_seconds_bucket{@}[~])))"
                    ),
                ),
                bad_from=0.1,
            ),
            panel(
                "Waiting",
                "Writes for their entry, reads for a quorum, requests for any answer.",
                "short",
                ("{{instance}} writes", "adsum_raft_proposals_waiting{@}"),
                ("{{instance}} reads", "adsum_raft_reads_waiting{@}"),
                ("{{instance}} held", "adsum_raft_requests_held{@}"),
            ),
        ),
    ),
    Row(
        "Keys",
        (
            panel(
                "Writes by verb and outcome",
                "As one server runs them; every server runs all of them.",
                "wps",
                (
                    "{{verb}}: {{outcome}}",
                    (
                        "max by (verb, outcome) (rate(adsum_kv_writes_total{@}[~])) > 0"
                        ' or max by (verb, outcome) (rate(adsum_kv_writes_total{outcome="done", @}[~]))'
                    ),
                ),
            ),
            panel(
                "Reads by mode",
                "All servers together.",
                "rps",
                ("{{mode}}", "sum by (mode) (rate(adsum_kv_reads_total{@}[~]))"),
            ),
            panel(
                "Refused, by cause",
                "Unknown: a write of which nobody knows whether it was done.",
                "cps",
                ("{{cause}}", "sum by (cause) (rate(adsum_kv_refused_total{@}[~]))"),
            ),
            panel(
                "What requests went through",
                "Sent on; tried again; doubtful: nobody knows what came of a try; not answered in time.",
                "cps",
                ("{{what}}", "sum by (what) (rate(adsum_raft_requests_total{@}[~]))"),
            ),
            panel(
                "Watches",
                "Requests that wait for a change, and how often they are woken.",
                "short",
                ("waiting", "sum(adsum_kv_waiters{@})"),
                ("woken a second", "sum(rate(adsum_kv_wakes_total{@}[~]))"),
            ),
            panel(
                "What the store takes in memory",
                "Keys and values, remembered changes, remembered answers. On the server that has most.",
                "bytes",
                ("keys", "max(adsum_kv_bytes{@})"),
                ("history", "max(adsum_kv_history_bytes{@})"),
                ("answers", "max(adsum_kv_result_bytes{@})"),
            ),
        ),
    ),
    Row(
        "Keys through client agents",
        (
            panel(
                "Requests on client agents",
                "Without an answer yet, and questions to servers: equal reads that wait share one.",
                "short",
                ("requests", "sum(adsum_forward_requests_open{@})"),
                ("questions", "sum(adsum_forward_questions_open{@})"),
            ),
            panel(
                "What they went through",
                "Doubtful: nobody knows what came of a try. A leader that is lost shows as asked again.",
                "cps",
                ("{{what}}", "sum by (what) (rate(adsum_forward_requests_total{@}[~]))"),
            ),
            panel(
                "Connections of client agents",
                "By server. Turned away: the server has no more open files for them.",
                "short",
                ("{{instance}}", "adsum_agent_lines_open{@}"),
                ("{{instance}} turned away", "increase(adsum_agent_lines_turned_away_total{@}[~])"),
            ),
            panel(
                "What client agents ask servers",
                "All servers together.",
                "rps",
                ("{{what}}", "sum by (what) (rate(adsum_agent_questions_total{@}[~]))"),
                (
                    "not answered: {{reason}}",
                    "sum by (reason) (rate(adsum_agent_questions_refused_total{@}[~])) > 0",
                ),
            ),
        ),
    ),
    Row(
        "Log and snapshots",
        (
            panel(
                "The log",
                "In memory: falls with each snapshot. On the disk: whole segments.",
                "bytes",
                ("{{instance}} {{where}}", "adsum_raft_log_bytes{@}"),
            ),
            panel(
                "Snapshots",
                "Made, installed from the leader, failed, damaged.",
                "short",
                ("{{instance}} {{what}}", "increase(adsum_raft_snapshots_total{@}[~])"),
            ),
            panel(
                "How long snapshots take",
                "To be written, and to be read where one was installed.",
                "s",
                (
                    "{{what}}",
                    (
                        "sum by (what) (rate(adsum_raft_snapshot_seconds_sum{@}[1h]))"
                        " / sum by (what) (rate(adsum_raft_snapshot_seconds_count{@}[1h]))"
                    ),
                ),
            ),
            panel(
                "Size of the newest snapshot",
                "By server.",
                "bytes",
                ("{{instance}}", "adsum_raft_snapshot_bytes{@}"),
            ),
            panel(
                "Messages between servers",
                "Dropped: no connection, or no room on it.",
                "cps",
                ("{{instance}} {{what}}", "rate(adsum_raft_messages_total{@}[~])"),
            ),
            panel(
                "Messages not used",
                "By reason. Stale and defended are usual around elections.",
                "cps",
                ("{{reason}}", "sum by (reason) (rate(adsum_raft_messages_unused_total{@}[~]))"),
            ),
        ),
    ),
)
