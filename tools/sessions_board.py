"""The board of sessions and locks: how many live, what ends them, how renewals go, who is refused."""

from __future__ import annotations

from tools.panels import Row, panel, stat

UNMEANT = 'cause!="destroyed"'

SESSIONS = (
    Row(
        "Now",
        (
            stat("Sessions", "In the store, on the server that has most.", "max(adsum_sessions{@})"),
            stat("With a TTL", "Whose time the leader counts.", "max(adsum_sessions_with_ttl{@})"),
            stat(
                "Ended without being asked",
                "In the last hour, for whatever cause.",
                f"max(sum by (instance) (increase(adsum_sessions_ended_total{{{UNMEANT}, @}}[1h])))",
            ),
            stat(
                "Renewals refused",
                "In the last hour, for want of a leader or of room.",
                'sum(increase(adsum_session_renewals_total{what=~"refused|refused_full", @}[1h]))',
            ),
            stat(
                "Overtaken holders",
                "In the last hour: writes under a token that somebody else's is above. Each was refused.",
                'max(sum by (instance) (increase(adsum_kv_writes_total{outcome="fenced", @}[1h])))',
                1,
            ),
            stat(
                "Ends not logged",
                "Since start: there were too many at once to name each.",
                "sum(adsum_session_lines_dropped_total{@})",
                1,
            ),
        ),
    ),
    Row(
        "Sessions",
        (
            panel(
                "Sessions",
                "By server. All show the same but for a moment.",
                "short",
                ("{{instance}}", "adsum_sessions{@}"),
            ),
            panel(
                "Ended, by cause",
                "Many at once share a cause: a rack, a switch, a client that is rolled out.",
                "short",
                ("{{cause}}", "max by (cause) (increase(adsum_sessions_ended_total{@}[~]))"),
            ),
            panel(
                "Created, as one server applies them",
                "Clients that create many end many: they forget to keep one.",
                "wps",
                (
                    "{{outcome}}",
                    'max by (outcome) (rate(adsum_kv_writes_total{verb="session_create", @}[~])) > 0',
                ),
            ),
            panel(
                "Renewals",
                "By the leader. Not found: the session had ended before its client renewed it.",
                "rps",
                ("{{what}}", "sum by (what) (rate(adsum_session_renewals_total{@}[~]))"),
            ),
            panel(
                "Renewals without an answer",
                "They wait for a quorum, for the outcome of an end, or for the log.",
                "short",
                ("{{instance}}", "adsum_session_renewals_waiting{@}"),
            ),
            panel(
                "What they take in memory",
                "By server.",
                "bytes",
                ("{{instance}}", "adsum_sessions_bytes{@}"),
            ),
        ),
    ),
    Row(
        "What the leader does about them",
        (
            panel(
                "Entries of the log",
                "Expiries and invalidations end sessions, many in one; notes keep what is left of long ones.",
                "wps",
                ("{{what}}", "sum by (what) (rate(adsum_session_entries_total{@}[~]))"),
            ),
            panel(
                "Other servers asked about a node",
                "Unlike: they did not see it as failed, or said nothing.",
                "cps",
                ("{{what}}", "sum by (what) (rate(adsum_session_verdicts_total{@}[~]))"),
            ),
            panel(
                "Time that is not trusted",
                "1: the leader stood still, or has just begun, and ends no session by its TTL until a quorum "
                "has said that it leads.",
                "short",
                ("{{instance}}", "adsum_sessions_time_untrusted{@}"),
                kind="state-timeline",
            ),
            panel(
                "Leaders",
                "A change may let sessions live for longer, and never for less.",
                "short",
                ("{{instance}}", "adsum_raft_leader{@}"),
                kind="state-timeline",
            ),
        ),
    ),
    Row(
        "Locks",
        (
            panel(
                "Asked for, by outcome",
                "Held: somebody has it, or its lock-delay runs. Much of it: clients poll.",
                "wps",
                ("{{outcome}}", 'max by (outcome) (rate(adsum_kv_writes_total{verb="acquire", @}[~])) > 0'),
            ),
            panel(
                "Given back, by outcome",
                "As one server applies them.",
                "wps",
                ("{{outcome}}", 'max by (outcome) (rate(adsum_kv_writes_total{verb="release", @}[~])) > 0'),
            ),
            panel(
                "Writes that were fenced off",
                "By verb: the writer had lost its lock, and did not know it.",
                "wps",
                ("{{verb}}", 'max by (verb) (rate(adsum_kv_writes_total{outcome="fenced", @}[~]))'),
            ),
            panel(
                "Waiting for a key",
                "Blocking queries of those who wait for a lock are among them.",
                "short",
                ("{{instance}}", "adsum_kv_waiters{@}"),
            ),
            panel(
                "Transactions, by outcome",
                "Conflict: one of its operations could not be done, so none was.",
                "wps",
                (
                    "{{outcome}}",
                    'max by (outcome) (rate(adsum_kv_writes_total{verb="transaction", @}[~])) > 0',
                ),
            ),
            panel(
                "Requests of clients, by what became of them",
                "On client agents. Doubtful: nobody knows what came of a try.",
                "cps",
                ("{{what}}", "sum by (what) (rate(adsum_forward_requests_total{@}[~]))"),
            ),
        ),
    ),
)
