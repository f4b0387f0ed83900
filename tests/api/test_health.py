"""/v1/health, field for field as Consul 1.8.7 was recorded; indexes are ours."""

from __future__ import annotations

import msgspec
import pytest

from adsum.agent.commands import RegisterCheck, SetNodeMaintenance
from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceAddress, Weights
from adsum.config.config import Config
from adsum.now import SECOND
from tests.api.agents import NODE_ID, Asker, FakeAgent, decoded, index_of, refused

NODE_ENTRY = (
    '{"ID":"' + NODE_ID + '","Node":"n1","Address":"127.0.0.1","Datacenter":"dc1",'
    '"TaggedAddresses":{"lan":"127.0.0.1"},"Meta":{"rack":"r1"},"CreateIndex":0,"ModifyIndex":0}'
)
SERF_ENTRY = (
    '{"Node":"n1","CheckID":"serfHealth","Name":"Serf Health Status","Status":"passing","Notes":"",'
    '"Output":"Agent alive and reachable","ServiceID":"","ServiceName":"","ServiceTags":[],"Type":"",'
    '"Definition":{},"CreateIndex":0,"ModifyIndex":0}'
)
WEB_CHECK_ENTRY = (
    '{"Node":"n1","CheckID":"service:web1","Name":"alive","Status":"passing","Notes":"","Output":"",'
    '"ServiceID":"web1","ServiceName":"web","ServiceTags":["a","b"],"Type":"ttl","Definition":{},'
    '"CreateIndex":0,"ModifyIndex":0}'
)
WEB_ENTRY = (
    '{"ID":"web1","Service":"web","Tags":["a","b"],"Address":"10.0.0.1",'
    '"TaggedAddresses":{"lan":{"Address":"10.0.0.1","Port":8}},"Meta":{"k":"v"},"Port":80,'
    '"Weights":{"Passing":5,"Warning":2},"EnableTagOverride":false,'
    '"Proxy":{"MeshGateway":{},"Expose":{}},"Connect":{},"CreateIndex":0,"ModifyIndex":0}'
)
BARE_ENTRY = (
    '{"ID":"db1","Service":"db","Tags":[],"Address":"","Meta":null,"Port":0,'
    '"Weights":{"Passing":1,"Warning":1},"EnableTagOverride":false,'
    '"Proxy":{"MeshGateway":{},"Expose":{}},"Connect":{},"CreateIndex":0,"ModifyIndex":0}'
)


def without_indexes(plain: bytes) -> str:
    """Fields stay in the order in which they were sent."""

    def zeroed(value: object) -> object:
        if isinstance(value, list):
            return [zeroed(each) for each in value]
        if isinstance(value, dict):
            return {
                key: 0 if key in ("CreateIndex", "ModifyIndex") else zeroed(inner)
                for key, inner in value.items()
            }
        return value

    return msgspec.json.encode(zeroed(msgspec.json.decode(plain))).decode()


@pytest.fixture
def asker() -> Asker:
    asker = Asker()
    asker.agent.put_service(
        "web1",
        "web",
        tags=("a", "b"),
        address="10.0.0.1",
        port=80,
        meta={"k": "v"},
        weights=Weights(5, 2),
        tagged_addresses={"lan": ServiceAddress("10.0.0.1", 8)},
    )
    asker.agent.put_service("db1", "db", status="critical")
    return asker


async def shown(asker: Asker, target: str) -> str:
    response = await asker.ask(target)
    assert response.status == 200, response.body.plain
    return without_indexes(response.body.plain)


async def ids(asker: Asker, target: str) -> list[str]:
    entries = await asker.json(target)
    assert isinstance(entries, list)
    return [entry["Service"]["ID"] if "Service" in entry else entry["CheckID"] for entry in entries]


async def test_service_entry_is_consul_s_field_for_field(asker: Asker) -> None:
    expected = f'[{{"Node":{NODE_ENTRY},"Service":{WEB_ENTRY},"Checks":[{SERF_ENTRY},{WEB_CHECK_ENTRY}]}}]'
    assert await shown(asker, "/v1/health/service/web") == expected


async def test_bare_service_has_null_meta_and_no_tagged_addresses(asker: Asker) -> None:
    assert f'"Service":{BARE_ENTRY}' in await shown(asker, "/v1/health/service/db")


async def test_indexes_are_whole_numbers_of_this_agent(asker: Asker) -> None:
    (entry,) = msgspec.json.decode((await asker.ask("/v1/health/service/web")).body.plain)
    assert isinstance(entry["Service"]["ModifyIndex"], int)
    assert 0 < entry["Service"]["CreateIndex"] <= entry["Service"]["ModifyIndex"] < 2**53


async def test_names_compare_without_case(asker: Asker) -> None:
    assert await ids(asker, "/v1/health/service/WEB") == ["web1"]
    assert await ids(asker, "/v1/health/checks/Web") == ["service:web1"]
    assert "service:db1" in await ids(asker, "/v1/health/node/N1")


async def test_instances_are_ordered_by_id(asker: Asker) -> None:
    for service_id in ("web3", "web0", "web2"):
        asker.agent.put_service(service_id, "web")
    assert await ids(asker, "/v1/health/service/web") == ["web0", "web1", "web2", "web3"]


async def test_passing_asks_for_every_check_the_node_s_too(asker: Asker) -> None:
    asker.agent.put_service("web2", "web", status="warning")
    assert await ids(asker, "/v1/health/service/web?passing") == ["web1"]
    assert await ids(asker, "/v1/health/service/web?passing=1") == ["web1"]
    assert await ids(asker, "/v1/health/service/web?passing=false") == ["web1", "web2"]
    check = CheckDefinition(check_id="mem", name="mem", ttl_ns=SECOND, status=CheckStatus.WARNING)
    asker.agent.obey(RegisterCheck(check))
    assert await ids(asker, "/v1/health/service/web?passing") == []


async def test_maintenance_of_the_node_takes_everything_out(asker: Asker) -> None:
    asker.agent.obey(SetNodeMaintenance(is_enabled=True, reason="new disk"))
    assert await ids(asker, "/v1/health/service/web?passing") == []
    assert '"Notes":"new disk"' in await shown(asker, "/v1/health/service/web")


async def test_tags_must_all_match_and_without_case(asker: Asker) -> None:
    asker.agent.put_service("web2", "web", tags=("a",))
    assert await ids(asker, "/v1/health/service/web?tag=A") == ["web1", "web2"]
    assert await ids(asker, "/v1/health/service/web?tag=a&tag=B") == ["web1"]
    assert await ids(asker, "/v1/health/service/web?tag=zz") == []
    assert await ids(asker, "/v1/health/service/web?tag=") == []


async def test_node_meta_chooses_by_node(asker: Asker) -> None:
    for name in ("service/web", "checks/web", "state/any"):
        assert await ids(asker, f"/v1/health/{name}?node-meta=rack:r1")
        assert not await ids(asker, f"/v1/health/{name}?node-meta=rack:r2")
        assert not await ids(asker, f"/v1/health/{name}?node-meta=rack")


async def test_filters_choose_entries_and_checks(asker: Asker) -> None:
    assert await ids(asker, "/v1/health/service/web?filter=Service.Port==80") == ["web1"]
    assert await ids(asker, "/v1/health/service/web?filter=Service.Port==81") == []
    assert await ids(asker, "/v1/health/service/web?filter=Checks.Status!=passing") == []
    for name in ("node/n1", "state/any"):
        assert await ids(asker, f"/v1/health/{name}?filter=Status==critical") == ["service:db1"]
    assert await ids(asker, "/v1/health/checks/web?filter=Status==critical") == []


async def test_checks_of_a_node_and_in_any_state_are_ordered_by_id(asker: Asker) -> None:
    for target in ("/v1/health/node/n1", "/v1/health/state/any"):
        assert await ids(asker, target) == ["serfHealth", "service:db1", "service:web1"]
    assert WEB_CHECK_ENTRY in await shown(asker, "/v1/health/state/any")


async def test_state_chooses_by_status(asker: Asker) -> None:
    assert await ids(asker, "/v1/health/state/critical") == ["service:db1"]
    assert await ids(asker, "/v1/health/state/passing") == ["serfHealth", "service:web1"]
    asker.agent.report("service:db1", CheckStatus.WARNING)
    assert await ids(asker, "/v1/health/state/critical") == []
    assert await ids(asker, "/v1/health/state/warning") == ["service:db1"]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/health/service/zz",
        "/v1/health/connect/zz",
        "/v1/health/ingress/zz",
        "/v1/health/checks/zz",
        "/v1/health/node/zz",
        "/v1/health/state/bogus",
        "/v1/health/state/PASSING",
    ],
)
async def test_what_is_not_there_is_an_empty_list_with_an_index(asker: Asker, target: str) -> None:
    response = await asker.ask(target)
    assert decoded(response) == []
    assert index_of(response) > 0


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("service/", "Missing service name"),
        ("connect/", "Missing service name"),
        ("checks/", "Missing service name"),
        ("node/", "Missing node name"),
        ("state/", "Missing check state"),
        ("service/web?passing=zz", "Invalid value for ?passing"),
        (
            "service/web?ns=x",
            'Bad request: Invalid query parameter: "ns" - Namespaces are a Consul Enterprise feature',
        ),
    ],
)
async def test_what_is_missing_or_wrong_is_named(asker: Asker, target: str, sentence: str) -> None:
    assert refused(await asker.ask(f"/v1/health/{target}")) == (400, sentence)


async def test_proxies_stand_for_their_destination(asker: Asker) -> None:
    asker.agent.put_service("px", kind="connect-proxy", proxy={"DestinationServiceName": "web"})
    asker.agent.put_service("native", connect={"Native": True})
    assert await ids(asker, "/v1/health/connect/web") == ["px"]
    assert await ids(asker, "/v1/health/connect/native") == ["native"]
    assert '"Proxy":{"DestinationServiceName":"web","MeshGateway":{},"Expose":{}}' in await shown(
        asker, "/v1/health/connect/web"
    )


async def test_proxy_s_own_change_moves_the_index_of_its_destination(asker: Asker) -> None:
    asker.agent.put_service("px", kind="connect-proxy", proxy={"DestinationServiceName": "web"})
    before = index_of(await asker.ask("/v1/health/connect/web"))
    asker.agent.put_service("db2", "db")
    assert index_of(await asker.ask("/v1/health/connect/web")) == before
    asker.agent.put_service("px", kind="connect-proxy", port=9, proxy={"DestinationServiceName": "web"})
    assert index_of(await asker.ask("/v1/health/connect/web")) > before


async def test_development_mode_and_pretty_indent_by_four_and_end_the_line(asker: Asker) -> None:
    response = await asker.ask("/v1/health/state/warning?pretty")
    assert response.body.plain == b"[]\n"
    response = await asker.ask("/v1/health/service/web?pretty=false")
    assert response.body.plain.startswith(b'[\n    {\n        "Node": {\n')
    developing = Asker(FakeAgent(Config(is_dev=True)))
    assert (await developing.ask("/v1/health/state/warning")).body.plain == b"[]\n"


async def test_ids_with_slashes_and_escapes_are_names(asker: Asker) -> None:
    asker.agent.put_service("a/b c", "x/y z")
    assert await ids(asker, "/v1/health/service/x%2Fy%20z") == ["a/b c"]
    assert await ids(asker, "/v1/health/service/x/y%20z") == ["a/b c"]
