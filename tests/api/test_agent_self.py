"""/v1/agent/self and version: what clients look for, and nothing that is not so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adsum.version import ADSUM_VERSION
from tests.api.agents import CONFIG, NODE_ID, Asker, FakeAgent, decoded, refused


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def about(asker: Asker) -> dict[str, dict[str, object]]:
    shown = await asker.json("/v1/agent/self")
    assert isinstance(shown, dict)
    return shown


async def test_self_is_a_map_of_maps_as_the_go_client_decodes_it(asker: Asker) -> None:
    shown = await about(asker)
    assert list(shown) == ["Config", "DebugConfig", "Coord", "Member", "Stats", "Meta"]
    assert all(value is None or isinstance(value, dict) for value in shown.values())
    for section in shown["Stats"].values():
        assert isinstance(section, dict)
        assert all(isinstance(value, str) for value in section.values())


async def test_self_tells_clients_where_they_are(asker: Asker) -> None:
    config = (await about(asker))["Config"]
    assert config["Datacenter"] == "dc1"
    assert config["NodeName"] == "n1"
    assert config["NodeID"] == NODE_ID
    assert config["Server"] is True
    assert config["Version"] == "1.8.7"
    assert config["AdsumVersion"] == ADSUM_VERSION
    assert config["SessionTTLMin"] == 10_000_000_000


async def test_leader_of_self_and_of_status_are_the_same(asker: Asker) -> None:
    stats = (await about(asker))["Stats"]["consul"]
    assert isinstance(stats, dict)
    assert stats["leader"] == "true"
    assert stats["leader_addr"] == await asker.json("/v1/status/leader") == "127.0.0.1:8300"
    assert await asker.json("/v1/status/peers") == ["127.0.0.1:8300"]


async def test_ipv6_addresses_are_bracketed_before_a_port() -> None:
    agent = FakeAgent()
    node = replace(agent.core.local.settings.node, address="2001:db8::1")
    asker = Asker(FakeAgent(node=node))
    assert await asker.json("/v1/status/leader") == "[2001:db8::1]:8300"


async def test_server_that_waits_for_others_leads_nobody() -> None:
    asker = Asker(FakeAgent(replace(CONFIG, bootstrap=False, bootstrap_expect=3)))
    assert await asker.json("/v1/status/leader") == ""
    tags = (await about(asker))["Member"]["Tags"]
    assert isinstance(tags, dict)
    assert tags["expect"] == "3"


async def test_a_server_that_nobody_leads_says_why() -> None:
    waiting = Asker(FakeAgent(replace(CONFIG, bootstrap=False, bootstrap_expect=3)))
    waiting.agent.consensus.waits_for = "this server belongs to no cluster yet: 1 of 3 servers are alive"
    assert await consul_stats(waiting) == {
        "acl": "disabled",
        "bootstrap": "false",
        "known_datacenters": "1",
        "leader": "false",
        "leader_addr": "",
        "no_leader": "this server belongs to no cluster yet: 1 of 3 servers are alive",
        "server": "true",
    }
    assert await waiting.json("/v1/status/peers") == []


async def test_a_server_that_belongs_to_no_cluster_has_no_figures_of_consensus(asker: Asker) -> None:
    assert (await consul_stats(asker))["leader"] == "true"
    asker.agent.see_leader(None)
    assert (await consul_stats(asker))["leader"] == "false"
    without = {"num_peers": "0", "protocol_version": "3", "state": "Follower"}
    assert (await about(asker))["Stats"]["raft"] == without


async def test_a_client_says_that_none_of_its_servers_leads() -> None:
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    assert "no_leader" not in await consul_stats(client)
    client.agent.meet("s1", is_server=True)
    client.agent.meet("s2", "127.0.0.3", is_server=True)
    assert (await consul_stats(client))["no_leader"] == "there are 2 servers, and none is known to lead"
    client.agent.meet("s3", "127.0.0.4", is_server=True, leads_in_term=1)
    stats = await consul_stats(client)
    assert (stats["leader_name"], "no_leader" in stats) == ("s3", False)


async def consul_stats(asker: Asker) -> dict[str, object]:
    stats = (await about(asker))["Stats"]["consul"]
    assert isinstance(stats, dict)
    return stats


async def test_counts_are_of_this_agent_s_own(asker: Asker) -> None:
    asker.agent.put_service("web1", "web")
    body = {"Name": "tcp", "TCP": "127.0.0.1:1", "Interval": "10s"}
    await asker.put("/v1/agent/check/register", body)
    stats = (await about(asker))["Stats"]["agent"]
    assert stats == {
        "check_monitors": "1",
        "check_ttls": "1",
        "checks": "2",
        "services": "1",
    }


async def test_configuration_is_shown_without_its_secrets() -> None:
    key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MDE="
    given = {"node_name": "n1", "encrypt": key, "acl.tokens.default": "secret"}
    shown = await about(Asker(FakeAgent(replace(CONFIG, given=given, encrypt=key))))
    assert shown["DebugConfig"]["encrypt"] == "hidden"
    assert key not in str(shown)
    assert "'secret'" not in str(shown)
    stats = shown["Stats"]["serf_lan"]
    assert isinstance(stats, dict)
    assert stats["encrypted"] == "true"


async def test_the_roll_is_counted_as_serf_counts_it(asker: Asker) -> None:
    web, other = asker.agent.meet("web"), asker.agent.meet("other", "127.0.0.3")
    asker.agent.fail(web, other)
    await asker.put("/v1/event/fire/deploy")
    stats = (await about(asker))["Stats"]["serf_lan"]
    assert isinstance(stats, dict)
    wanted = ("members", "failed", "left", "health_score", "event_time", "encrypted")
    assert {name: stats[name] for name in wanted} == {
        "members": "3",
        "failed": "1",
        "left": "0",
        "health_score": "0",
        "event_time": "2",
        "encrypted": "false",
    }


async def test_a_client_counts_the_servers_that_it_knows() -> None:
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    client.agent.meet("s1", is_server=True, leads_in_term=1)
    client.agent.meet("c1", "127.0.0.3")
    stats = (await about(client))["Stats"]["consul"]
    assert stats == {"acl": "disabled", "known_servers": "1", "leader_name": "s1", "server": "false"}


async def test_self_tells_where_the_agent_is_on_the_map(asker: Asker) -> None:
    asker.agent.meet("web")
    asker.agent.place("web", 0.1)
    coord = (await about(asker))["Coord"]
    assert coord == {"Vec": [0.0] * 8, "Error": 0.1, "Adjustment": 0.0, "Height": 1e-05}


async def test_version_names_both_levels(asker: Asker) -> None:
    shown = decoded(await asker.ask("/v1/agent/version"))
    assert isinstance(shown, dict)
    assert (shown["HumanVersion"], shown["AdsumVersion"]) == ("1.8.7", ADSUM_VERSION)


async def test_status_refuses_other_datacenters(asker: Asker) -> None:
    for path in ("leader", "peers"):
        refusal = refused(await asker.ask(f"/v1/status/{path}?dc=zz"))
        assert refusal == (500, "No path to datacenter")
        assert (await asker.ask(f"/v1/status/{path}/")).status == 404


async def test_what_is_wrong_with_its_disk_or_its_clock_is_in_the_stats_while_it_is(asker: Asker) -> None:
    well: Any = (await about(asker))["Stats"]
    assert "unsaved_files" not in well["agent"]
    assert "clock" not in well["serf_lan"]
    asker.agent.unsaved_files = 3
    now = asker.agent.now()
    asker.agent.cluster.membership.clocks.hear(now, "another", now.wall_ms + 3 * 86_400_000)
    found: Any = (await about(asker))["Stats"]
    assert found["agent"]["unsaved_files"] == "3"
    assert found["serf_lan"]["clock"].startswith("This host's clock is 3 days behind that of the only other")
