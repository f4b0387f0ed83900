from __future__ import annotations

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.config.config import Telemetry
from adsum.observe.exposition import Exposition
from tests.observe.readings import NOW, samples, sources, view_of_two_services


def test_the_catalog_is_counted_by_worst_status_and_again_only_when_it_moved() -> None:
    view = view_of_two_services()
    exposition = Exposition(sources(view), Telemetry())
    shown = samples(exposition)
    assert shown["adsum_catalog_instances", ("passing",)].value == 1
    assert shown["adsum_catalog_instances", ("critical",)].value == 1
    assert shown["adsum_catalog_services", ()].value == 2
    view.put_check(NOW, "n1", Check(check_id="n", name="n", status=CheckStatus.WARNING))
    shown = samples(exposition)
    assert shown["adsum_catalog_instances", ("warning",)].value == 1
    assert shown["adsum_catalog_instances", ("critical",)].value == 1
    assert shown["adsum_catalog_checks", ("warning",)].value == 1
