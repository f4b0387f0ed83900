"""What an agent shows to Prometheus from the first scrape on: names, with the labels and values of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from adsum.config.config import Telemetry
from adsum.observe.exposition import Exposition
from tests.api.agents import FakeAgent
from tests.deploy.promql import Expression, Selector
from tests.observe.forwarding import forwarding_client
from tests.observe.servers import LeadingServer
from tests.observe.support import sources

OF_PROMETHEUS = ("job", "instance")  # put on by whoever scrapes
Labels = Mapping[str, str]


def series() -> dict[str, list[Labels]]:
    """Of a server that leads, and of a client agent, which sends requests on."""
    server = LeadingServer()
    server.hear()
    shown: dict[str, list[Labels]] = {}
    for told in (
        replace(sources(FakeAgent()), server=server.source),
        replace(sources(FakeAgent()), forwarding=forwarding_client()),
    ):
        for family in text_string_to_metric_families(Exposition(told, Telemetry()).prometheus().decode()):
            for sample in family.samples:
                shown.setdefault(sample.name, []).append(sample.labels)
    return shown | {"up": [{}]}


def faults(expression: Expression, shown: Mapping[str, list[Labels]]) -> list[str]:
    """Why it would never find anything; or nothing."""
    known = {
        label for each in expression.selectors for labels in shown.get(each.name, []) for label in labels
    }
    unknown = expression.grouped_by - known - {*OF_PROMETHEUS, "digest"}
    found = [f"no series has the label {label}" for label in sorted(unknown)]
    return found + [fault for each in expression.selectors for fault in _faults(each, shown)]


def _faults(selector: Selector, shown: Mapping[str, list[Labels]]) -> list[str]:
    if selector.name not in shown:
        return [f"there is no {selector.name}"]
    matchers = [each for each in selector.matchers if each.label not in OF_PROMETHEUS]
    for labels in shown[selector.name]:
        if all(each.label in labels and each.fits(labels[each.label]) for each in matchers):
            return []
    return [f"nothing fits {selector}"]
