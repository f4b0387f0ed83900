"""Rules and alerts: promtool is the oracle for the language, our own exposition for what is asked."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.exposed import Labels, faults, series
from tests.deploy.promql import Matcher, Rule, Selector, Unreadable, read, rules
from tests.house.rooms import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
RULES = rules(FOLDER / "adsum-rules.yml")
ALERTS = [each for each in RULES if each.is_alert]


def recorded() -> dict[str, list[Labels]]:
    """What our own rules add. Of a recorded series we know the name and the labels it is kept by."""
    names: dict[str, list[Labels]] = {}
    for rule in RULES:
        if not rule.is_alert:
            names[rule.name] = [dict.fromkeys(read(rule.expr).grouped_by - {"le", "digest"}, "")]
    return names


def promtool(debian_tool: Callable[[str], str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [debian_tool("promtool"), *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)


def test_rules_are_rules(debian_tool: Callable[[str], str]) -> None:
    done = promtool(debian_tool, "check", "rules", "adsum-rules.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout, "our reader and promtool see the same"


def test_alerts_fire_in_their_stories_and_in_no_others(debian_tool: Callable[[str], str]) -> None:
    done = promtool(debian_tool, "test", "rules", "adsum-rules.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_story() -> None:
    stories = (FOLDER / "adsum-rules.test.yml").read_text()
    told = set(re.findall(r'alertname="(\w+)"', stories))
    assert told == {alert.name for alert in ALERTS}


def test_the_example_configuration_is_one(debian_tool: Callable[[str], str]) -> None:
    done = promtool(debian_tool, "check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_asks_for_series_that_there_are(rule: Rule) -> None:
    assert faults(read(rule.expr), {**series(), **recorded()}) == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_says_what_is_wrong_what_to_do_and_where_more_is_written(alert: Rule) -> None:
    assert alert.fields["severity"] in ("critical", "warning")
    assert alert.fields["summary"].endswith(".")
    assert len(alert.fields["action"]) > 40
    page, _, anchor = alert.fields["runbook"].partition("#")
    headings = re.findall(r"^### (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {heading.lower() for heading in headings}
    assert alert.name in headings


def test_the_page_of_alerts_has_no_others() -> None:
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/alerts.md").read_text(), re.MULTILINE)
    assert headings == [alert.name for alert in ALERTS], "in the order of the rules"


# The reader itself.


def test_selectors_and_labels_are_read() -> None:
    expr = 'sum by (job, le) (rate(a_total{x="1", y!~"b|c"}[5m])) / on (job) max(b) > 0.5 unless c:d:e == 1'
    expression = read(expr)
    assert expression.selectors == (
        Selector("a_total", (Matcher("x", "=", "1"), Matcher("y", "!~", "b|c"))),
        Selector("b", ()),
        Selector("c:d:e", ()),
    )
    assert expression.grouped_by == {"job", "le"}
    with pytest.raises(Unreadable):
        read("a ? b")


@pytest.mark.parametrize(
    ("expr", "fault"),
    [
        ("adsum_memberz", "there is no adsum_memberz"),
        ('adsum_members{state="dead"}', 'nothing fits adsum_members{state="dead"}'),
        ('adsum_members{status="alive"}', 'nothing fits adsum_members{status="alive"}'),
        ("sum by (state, peer) (adsum_members)", "no series has the label peer"),
    ],
)
def test_what_is_asked_in_vain_is_a_fault(expr: str, fault: str) -> None:
    assert faults(read(expr), series()) == [fault]


def test_folded_expressions_are_read_whole(tmp_path: Path) -> None:
    text = """groups:
  - name: g
    rules:
      - alert: One
        expr: >-
          up
          == 0
        for: 1m
        annotations:
          action: >-
            Look: it is down.
            Start it.
      - record: two
        expr: up
"""
    (tmp_path / "rules.yml").write_text(text)
    one, two = rules(tmp_path / "rules.yml")
    assert (one.expr, one.fields["for"]) == ("up == 0", "1m")
    assert one.fields["action"].strip() == "Look: it is down. Start it."
    assert (two.name, two.expr, two.is_alert) == ("two", "up", False)
