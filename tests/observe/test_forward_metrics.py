"""What a client agent shows of the requests that it sends on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from adsum.address import Address
from adsum.agent.asking import ForwardRead
from adsum.config.config import Telemetry
from adsum.kv import KeyRead, ReadShape
from adsum.now import Now
from adsum.observe.exposition import Exposition
from adsum.observe.forward_metrics import FORWARDING
from adsum.peers.client_keys import ClientKeys
from tests.api.agents import FakeAgent
from tests.observe.forwarding import forwarding_client
from tests.observe.servers import LeadingServer
from tests.observe.support import sources

SERVER = UUID(int=1).bytes


def exposition(forwarding: ClientKeys | None) -> Exposition:
    return Exposition(replace(sources(FakeAgent()), forwarding=forwarding), Telemetry())


def shown(forwarding: ClientKeys | None) -> dict[str, float]:
    text = exposition(forwarding).prometheus().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_a_client_shows_all_of_it_from_the_first_scrape_and_a_server_none() -> None:
    names = {name.partition("{")[0] for name in shown(forwarding_client())}
    assert {series.name for series in FORWARDING} <= names
    server = replace(sources(FakeAgent()), server=LeadingServer().source)
    assert b"adsum_forward" not in Exposition(server, Telemetry()).prometheus()


def test_who_can_be_asked_and_what_waits() -> None:
    keys = forwarding_client(saved={SERVER: Address("10.0.0.1", 8300)})
    for prefix in (b"a", b"a", b"b"):
        keys.core.command(Now(0, 0), watch(prefix))
    read = shown(keys)
    assert read["adsum_forward_servers"] == 1
    assert read["adsum_forward_leader_known"] == 0
    assert read["adsum_forward_requests_open"] == 3
    assert read["adsum_forward_questions_open"] == 2
    assert read['adsum_forward_requests_total{what="asked"}'] == 2
    assert read['adsum_forward_requests_total{what="joined"}'] == 1
    assert read['adsum_forward_requests_total{what="out_of_time"}'] == 0


def watch(prefix: bytes) -> ForwardRead:
    return ForwardRead(KeyRead(ReadShape.TREE, prefix, since=5), object())


def test_another_node_at_a_servers_address_is_counted() -> None:
    keys = forwarding_client()
    keys.line_counters.wrong_node = 4
    assert shown(keys)["adsum_forward_wrong_nodes_total"] == 4


def test_promtool_finds_no_fault_with_a_clients_series(debian_tool: Callable[[str], str]) -> None:
    text = exposition(forwarding_client()).prometheus()
    command = [debian_tool("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    complaints = [line for line in done.stderr.decode().splitlines() if line.startswith("adsum_")]
    assert complaints == []
    assert b"error while linting" not in done.stderr
