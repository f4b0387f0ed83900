"""Writes deploy/grafana/: boards as tables of what is asked, instead of a thousand lines of JSON.

    .venv/bin/python -m tools.boards

tests/deploy/test_grafana.py says when the files are behind. Places on the grid follow from the order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.consensus_board import CONSENSUS
from tools.panels import Panel, Query, Row, panel, quantiles, stat
from tools.sessions_board import SESSIONS

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "grafana"
SCHEMA_VERSION = 39  # Grafana 10.4; later ones migrate it by themselves
COLUMNS = 24
SELECTED = 'job="$job", instance=~"$instance"'
MOVED = "adsum_member_transitions_total"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

CHURN = (
    Row(
        "Now",
        (
            stat(
                "Present",
                "Alive or suspected, as the agent sees it that sees most.",
                'max(sum by (instance) (adsum_members{state=~"alive|suspect", @}))',
            ),
            stat("Failed", "Called failed and not back.", 'max(adsum_members{state="failed", @})', 1),
            stat("Left", "Left on purpose, and still remembered.", 'max(adsum_members{state="left", @})'),
            stat(
                "Views",
                "Different rosters among the agents. More than one is usual for seconds after a change.",
                'count(count_values("digest", adsum_members_view_digest{@}))',
                2,
            ),
            stat(
                "Isolated agents",
                "Agents that reach less than half of those they try.",
                "sum(adsum_isolated{@})",
                1,
            ),
            stat(
                "Worst local health",
                "0 is well, 7 the worst: how much an agent doubts itself.",
                "max(adsum_local_health_score{@})",
                4,
            ),
        ),
    ),
    Row(
        "Who came, who went, who flapped (by name: adsum timeline)",
        (
            panel(
                "Members by state",
                "As the agent sees it that sees most of each.",
                "short",
                ("{{state}}", "max by (state) (adsum_members{@})"),
            ),
            panel(
                "Present, as each agent sees it",
                "One line while all agree; a fan of lines is a split view.",
                "short",
                ("{{instance}}", 'sum by (instance) (adsum_members{state=~"alive|suspect", @})'),
            ),
            panel(
                "Agents that answer",
                "Whether Prometheus reaches them, which is another way than gossip's.",
                "short",
                ("{{instance}}", "max by (instance) (up{@})"),
                kind="state-timeline",
            ),
            panel(
                "Came",
                "Met for the first time, back after a verdict, or started anew.",
                "short",
                (
                    "{{from}} → alive, {{cause}}",
                    f'max by (from, cause) (increase({MOVED}{{to="alive", from!~"alive|suspect", @}}[~]))',
                ),
            ),
            panel(
                "Went",
                "Silent: no way led to it. Refused: its host said that nobody listens. Left, or forced to.",
                "short",
                (
                    "{{to}}, {{cause}}",
                    f'max by (to, cause) (increase({MOVED}{{to=~"failed|left", @}}[~]))',
                ),
            ),
            panel(
                "Flapped, started anew",
                "Flaps: back within a minute of a verdict. Starts are those of the agents that are scraped.",
                "short",
                ("flaps", "max(increase(adsum_member_flaps_total{@}[~]))"),
                ("starts", "sum(changes(process_start_time_seconds{@}[~]))"),
                ("conflicts of names", "max(increase(adsum_member_conflicts_total{@}[~]))"),
            ),
        ),
    ),
    Row(
        "Who was wrongly suspected",
        (
            panel(
                "Suspicions",
                "Raised: own probes that failed. Refuted: the suspect answered. Failed: the verdict.",
                "cpm",
                ("raised", "60 * sum(rate(adsum_suspicions_raised_total{@}[~]))"),
                ("confirmed", "60 * max(rate(adsum_suspicions_confirmed_total{@}[~]))"),
                ("refuted", "60 * max(rate(adsum_suspicions_refuted_total{@}[~]))"),
                (
                    "failed",
                    f'60 * max(sum by (instance) (rate({MOVED}{{from="suspect", to="failed", @}}[~])))',
                ),
            ),
            panel(
                "Accused, and alive",
                "Who had to say that it lives. The same agent again and again is short of time itself.",
                "short",
                ("{{instance}}", "increase(adsum_false_suspicions_total{@}[~])"),
            ),
            panel(
                "Accusers",
                "Who raised suspicions. One that stands out, with nobody failing, is the one in trouble.",
                "short",
                ("{{instance}}", "increase(adsum_suspicions_raised_total{@}[~])"),
            ),
            panel(
                "Kept back",
                "Accusations not made: a newer heartbeat counter arrived, or the accuser doubts itself.",
                "cpm",
                ("vetoed", "60 * sum(rate(adsum_suspicions_vetoed_total{@}[~]))"),
                ("withheld", "60 * sum(rate(adsum_suspicions_withheld_total{@}[~]))"),
                ("witnessed", "60 * sum(rate(adsum_suspicions_witnessed_total{@}[~]))"),
            ),
            panel(
                "From suspicion to verdict",
                "How long the accused had to answer.",
                "s",
                *quantiles("adsum_suspicion_verdict_seconds", "1h", 0.5, 0.9),
            ),
            panel(
                "Phi at the verdict",
                "How surprising the silence was: 3 is one in a thousand. Verdicts below 1 were weak.",
                "short",
                *quantiles("adsum_verdict_phi", "1h", 0.1, 0.5),
            ),
            panel(
                "Phi of the probed",
                "As the turn of each comes, by what was usual of late: 1 is one in ten. A rise is a warning.",
                "short",
                *quantiles("adsum_probed_phi", "~", 0.5, 0.9, 0.99),
            ),
        ),
    ),
    Row(
        "How fast news travels",
        (
            panel(
                "Age of news when first heard",
                "Hundredths of a second are usual, and less than half a second for the last of a thousand.",
                "s",
                *quantiles("adsum_gossip_news_age_seconds", "~", 0.5, 0.9, 0.99),
            ),
            panel(
                "Ages",
                "The same, as a heat map.",
                "s",
                (
                    "{{le}}",
                    "sum by (le) (increase(adsum_gossip_news_age_seconds_bucket{@}[~]))",
                ),
                kind="heatmap",
            ),
            panel(
                "What brought the news",
                "Syncs bring what joins and leaves; much more than that means that datagrams are lost.",
                "cps",
                ("{{way}}", "sum by (way) (rate(adsum_gossip_news_total{@}[~]))"),
            ),
            panel(
                "Pushed at once",
                "Put off: more changes than pushes may carry. Asked: what no push brought, one in a hundred.",
                "cps",
                ("datagrams", "sum(rate(adsum_gossip_pushes_total{@}[~]))"),
                ("put off", "sum(rate(adsum_gossip_pushes_put_off_total{@}[~]))"),
                ("{{side}}", "sum by (side) (rate(adsum_gossip_news_requests_total{@}[~]))"),
            ),
            panel(
                "Comparisons of rosters",
                "For repair: begun early, because digests differed.",
                "cpm",
                (
                    "begun",
                    '60 * sum(rate(adsum_gossip_syncs_total{side="opened", @}[~]))',
                ),
                ("nothing to tell", "60 * sum(rate(adsum_gossip_syncs_equal_total{@}[~]))"),
                ("for repair", "60 * sum(rate(adsum_gossip_syncs_for_repair_total{@}[~]))"),
                (
                    "failed: {{cause}}",
                    "60 * sum by (cause) (rate(adsum_gossip_syncs_failed_total{@}[~]))",
                ),
            ),
            panel(
                "News that waits",
                "The longest queue of each kind.",
                "short",
                ("{{queue}}", "max by (queue) (adsum_gossip_queue_entries{@})"),
            ),
            panel(
                "News dropped",
                "Full queues: something changes faster than gossip carries it.",
                "cps",
                ("{{queue}}", "sum by (queue) (rate(adsum_gossip_queue_dropped_total{@}[~]))"),
            ),
        ),
    ),
    Row(
        "How healthy the accusers are",
        (
            panel(
                "Local health",
                "0 is well. From 4 on an agent finds failures late, and its word counts for less.",
                "short",
                ("{{instance}}", "adsum_local_health_score{@}"),
                bad_from=4,
            ),
            panel(
                "Longest pass of the event loop",
                "While it lasts the agent answers nobody. The budget is 20 ms.",
                "s",
                ("{{instance}}", "adsum_event_loop_lag_max_seconds{@}"),
            ),
            panel(
                "Round trips of probes",
                "All agents together.",
                "s",
                *quantiles("adsum_probe_rtt_seconds", "~", 0.5, 0.99),
            ),
            panel(
                "Probes that failed",
                "The share of each agent's. One line high: that agent. All lines high: what they probe.",
                "percentunit",
                (
                    "{{instance}}",
                    "rate(adsum_probes_failed_total{@}[~]) / rate(adsum_probes_total{@}[~])",
                ),
            ),
            panel(
                "Stood still, muted, went by detours",
                "Stood still: the whole process did not run. Muted: refuted too often. Detours: UDP is lost.",
                "short",
                ("{{instance}} stood still", "increase(adsum_pauses_total{@}[~])"),
                ("{{instance}} muted", "increase(adsum_mutes_total{@}[~])"),
                ("{{instance}} detours", "increase(adsum_paths_asymmetric_total{@}[~])"),
            ),
            panel(
                "Isolated, or answering from memory",
                "1: reaches less than half of the others. 2: answers for members that went silent. 3: both.",
                "short",
                ("{{instance}}", "adsum_isolated{@} + 2 * adsum_last_known_held{@}"),
                kind="state-timeline",
            ),
        ),
    ),
    Row(
        "What it costs, what is lost",
        (
            panel(
                "Datagrams sent",
                "By type, all agents together.",
                "pps",
                (
                    "{{type}}",
                    'sum by (type) (rate(adsum_gossip_packets_total{direction="out", @}[~]))',
                ),
            ),
            panel(
                "Bytes sent by each agent",
                "Does not grow with the cluster.",
                "Bps",
                ("{{instance}}", "rate(adsum_gossip_sent_bytes_total{@}[~])"),
            ),
            panel(
                "Calls and streams",
                "Streams opened between agents, and those that could not be.",
                "cps",
                (
                    "streams {{direction}}",
                    "sum by (direction) (rate(adsum_streams_total{@}[~]))",
                ),
                (
                    "failed: {{cause}}",
                    "sum by (cause) (rate(adsum_stream_dials_failed_total{@}[~]))",
                ),
            ),
            panel(
                "Dropped on arrival",
                "By reason. Keys: unknown_key, forged, plain_refused. Load: buffer_full.",
                "pps",
                (
                    "{{reason}}",
                    "sum by (reason) (rate(adsum_gossip_receive_dropped_total{@}[~]))",
                ),
            ),
            panel(
                "Not sent",
                "By reason.",
                "pps",
                (
                    "{{reason}}",
                    "sum by (reason) (rate(adsum_gossip_send_dropped_total{@}[~]))",
                ),
            ),
            panel(
                "Undeliverable",
                "Datagrams that came back. Port: nobody listens there, so a crash is known at once.",
                "pps",
                (
                    "{{error}}",
                    "sum by (error) (rate(adsum_gossip_undeliverable_total{@}[~]))",
                ),
            ),
        ),
    ),
)

WENT = f'max by (to, cause) (increase({MOVED}{{to=~"failed|left", @}}[$__interval])) > 0'

LED = "max(increase(adsum_raft_leader_changes_total{@}[$__interval])) > 0"


def main() -> int:
    for name, text in written().items():
        (FOLDER / name).write_text(text)
        print(f"wrote deploy/grafana/{name}")
    return 0


def written() -> dict[str, str]:
    churn = board(
        "adsum-membership-churn",
        "Adsum: membership churn",
        "Who came, went, flapped, was wrongly suspected; how fast news travels; who is well.",
        annotation("Went", "red", WENT, title="{{to}}", text="{{cause}}"),
        CHURN,
    )
    consensus = board(
        "adsum-consensus",
        "Adsum: consensus and keys",
        "Who leads and who keeps up; where a write spends its time; what is asked; log and snapshots.",
        annotation("Another leader", "orange", LED, title="Another leader", text=""),
        CONSENSUS,
    )
    sessions = board(
        "adsum-sessions",
        "Adsum: sessions and locks",
        "How many sessions live and what ends them; whether renewals come through; who is refused a lock.",
        annotation("Another leader", "orange", LED, title="Another leader", text=""),
        SESSIONS,
    )
    return {
        "membership-churn.json": as_json(churn),
        "consensus-and-keys.json": as_json(consensus),
        "sessions-and-locks.json": as_json(sessions),
    }


def as_json(made: dict[str, object]) -> str:
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def board(
    uid: str, title: str, about: str, marks: dict[str, object], rows: tuple[Row, ...]
) -> dict[str, object]:
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["adsum"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "annotations": {"list": [marks]},
        "templating": {"list": [datasource(), job(), instance()]},
        "panels": list(placed(rows)),
    }


def placed(rows: tuple[Row, ...]) -> Iterator[dict[str, object]]:
    number = y = 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
        }
        y, x, height = y + 1, 0, 0
        for each in row.panels:
            number += 1
            if x + each.width > COLUMNS:
                y, x = y + height, 0
            height = each.height
            place = {"x": x, "y": y, "w": each.width, "h": each.height}
            yield {"id": number, "gridPos": place, **drawn(each)}
            x += each.width
        y += height


def drawn(each: Panel) -> dict[str, object]:
    return {
        "type": each.kind,
        "title": each.title,
        "description": each.about,
        "datasource": SOURCE,
        "targets": [target(place, query, each.kind) for place, query in enumerate(each.queries)],
        "fieldConfig": {"defaults": defaults(each), "overrides": []},
        "options": OPTIONS[each.kind],
    }


OPTIONS: dict[str, dict[str, object]] = {
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "background", "graphMode": "none"},
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "state-timeline": {"mergeValues": True, "showValue": "never", "rowHeight": 0.8},
    "heatmap": {"calculate": False, "yAxis": {"unit": "s"}, "cellGap": 1},
}


def defaults(each: Panel) -> dict[str, object]:
    steps: list[dict[str, object]] = [{"color": "green", "value": None}]
    if each.bad_from is not None:
        steps.append({"color": "red", "value": each.bad_from})
    shown: dict[str, object] = {
        "unit": each.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    if each.kind == "state-timeline":
        shown["color"] = {"mode": "continuous-GrYlRd"}
    return shown


def target(place: int, query: Query, kind: str) -> dict[str, object]:
    return {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "expr": selected(query.expr),
        "legendFormat": query.legend,
        "format": "heatmap" if kind == "heatmap" else "time_series",
        "instant": kind == "stat",
        "range": kind != "stat",
    }


def selected(expr: str) -> str:
    return expr.replace("@", SELECTED).replace("[~]", "[$__rate_interval]")


def annotation(name: str, colour: str, expr: str, *, title: str, text: str) -> dict[str, object]:
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": selected(expr),
        "titleFormat": title,
        "textFormat": text,
    }


def datasource() -> dict[str, object]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def job() -> dict[str, object]:
    return variable("job", "Cluster (job)", "label_values(adsum_build_info, job)")


def instance() -> dict[str, object]:
    asked = variable("instance", "Agent", 'label_values(adsum_build_info{job="$job"}, instance)')
    return {**asked, "multi": True, "includeAll": True, "allValue": ".+"}


def variable(name: str, label: str, query: str) -> dict[str, object]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
    }


if __name__ == "__main__":
    sys.exit(main())
