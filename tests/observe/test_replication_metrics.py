"""Replication as a scraper sees it, read from shipped cores."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.config.config import Telemetry
from adsum.observe.exposition import Exposition
from adsum.observe.replication_metrics import DROPS
from tests.api.agents import FakeAgent
from tests.api.linked import Three, formed, has, until
from tests.observe.support import sources


def shown(agent: FakeAgent) -> dict[str, float]:
    text = Exposition(sources(agent), Telemetry()).prometheus().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    three.b.put_service("web1", "web")
    await until(lambda: all(has(each, "b", "web1") for each in three.all))
    await trio.sleep(5)
    return three


def test_every_reason_and_state_is_there_from_the_first_time() -> None:
    read = shown(FakeAgent())
    assert read['adsum_catalog_stale{reason="saved copy"}'] == 0
    assert read['adsum_replication_owners{state="unheard"}'] == 0
    assert read['adsum_replication_unpublished_total{limit="item size"}'] == 0
    dropped = {name for name in read if name.startswith("adsum_replication_dropped_total{")}
    assert len(dropped) == len(DROPS) > 5


async def test_what_is_held_and_how_it_came(three: Three, autojump_clock: trio.testing.MockClock) -> None:
    read = shown(three.a)
    assert read['adsum_replication_owners{state="complete"}'] == 3
    assert read["adsum_replication_items"] == 3 + 3  # nodes; the service, its check and what that says
    assert read["adsum_replication_bytes"] > 100
    assert read['adsum_replication_news_total{what="new"}'] >= 1
    assert read['adsum_replication_exchanges_total{what="begun"}'] >= 1
    assert read['adsum_replication_exchange_bytes_total{what="questions"}'] > 1_000
    assert shown(three.b)['adsum_replication_pushes_total{what="sent"}'] >= 1


async def test_who_is_cut_off_is_stale_and_tells_since_when(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    assert shown(three.c)['adsum_catalog_stale{reason="isolated"}'] == 0
    three.network.cut_off.add(three.c.address)
    await until(lambda: three.c.cluster.staleness(three.c.now()) == "isolated", within_s=60)
    await trio.sleep(4)
    read = shown(three.c)
    assert read['adsum_catalog_stale{reason="isolated"}'] == 1
    assert read["adsum_catalog_behind_seconds"] == pytest.approx(4, abs=1.1)


async def test_a_pause_is_a_reason_to_be_stale(three: Three, autojump_clock: trio.testing.MockClock) -> None:
    three.network.stopped.add(three.c.address)
    await trio.sleep(60)
    read = shown(three.c)
    assert read['adsum_catalog_stale{reason="paused"}'] == 1
    assert read["adsum_catalog_behind_seconds"] == pytest.approx(60.5, abs=0.6)


async def test_forwarded_changes_and_outputs_are_counted(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    await three.on_a.ask("/v1/health/service/web?output=full")
    await three.on_a.ask("/v1/health/service/web?consistent")
    await three.on_a.put("/v1/catalog/deregister", {"Node": "b", "ServiceID": "web1"})
    three.kill("b")
    await three.on_a.put("/v1/catalog/deregister", {"Node": "b", "ServiceID": "web1"})
    read = shown(three.a)
    assert read['adsum_catalog_forwards_total{outcome="done"}'] == 1
    assert read['adsum_catalog_forwards_total{outcome="failed"}'] == 1
    assert read['adsum_check_outputs_total{what="asked"}'] == 1
    assert read['adsum_replication_confirmations_total{outcome="proved"}'] == 1
