"""What a scraper reads of an agent with two services."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.view import View
from adsum.now import Now
from adsum.observe.exposition import Exposition
from adsum.observe.series import Sources
from adsum.observe.tally import CatalogTally
from tests.api.agents import FakeAgent
from tests.observe import support

NOW = Now(0, 1_000)


def view_of_two_services() -> View:
    view = View(NOW, tag=1)
    view.put_node(NOW, "o", Node(node_id="i", name="n1", address="10.0.0.1", datacenter="dc1"))
    view.put_service(NOW, "n1", Service(service_id="web1", name="web"))
    view.put_service(NOW, "n1", Service(service_id="db1", name="db"))
    view.put_check(NOW, "n1", Check(check_id="c", name="c", status=CheckStatus.CRITICAL, service_id="db1"))
    return view


def sources(view: View | None = None) -> Sources:
    return replace(support.sources(FakeAgent()), catalog=CatalogTally(view or view_of_two_services()))


def samples(exposition: Exposition) -> dict[tuple[str, tuple[str, ...]], Sample]:
    families = list(text_string_to_metric_families(exposition.prometheus().decode()))
    return {
        (sample.name, tuple(sorted(sample.labels.values()))): sample
        for family in families
        for sample in family.samples
    }
