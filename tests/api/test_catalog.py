"""/v1/catalog, reading, field for field as Consul 1.8.7 was recorded."""

from __future__ import annotations

import pytest

from adsum.catalog.definitions import ServiceAddress, Weights
from tests.api.agents import NODE_ID, Asker, decoded, header, index_of, refused
from tests.api.test_health import BARE_ENTRY, NODE_ENTRY, WEB_ENTRY, without_indexes

WEB_NODE_ENTRY = (
    '{"ID":"' + NODE_ID + '","Node":"n1","Address":"127.0.0.1","Datacenter":"dc1",'
    '"TaggedAddresses":{"lan":"127.0.0.1"},"NodeMeta":{"rack":"r1"},"ServiceKind":"","ServiceID":"web1",'
    '"ServiceName":"web","ServiceTags":["a","b"],"ServiceAddress":"10.0.0.1",'
    '"ServiceTaggedAddresses":{"lan":{"Address":"10.0.0.1","Port":8}},'
    '"ServiceWeights":{"Passing":5,"Warning":2},"ServiceMeta":{"k":"v"},"ServicePort":80,'
    '"ServiceEnableTagOverride":false,"ServiceProxy":{"MeshGateway":{},"Expose":{}},"ServiceConnect":{},'
    '"CreateIndex":0,"ModifyIndex":0}'
)
BARE_NODE_END = (
    '"ServiceTags":[],"ServiceAddress":"","ServiceWeights":{"Passing":1,"Warning":1},"ServiceMeta":{},'
    '"ServicePort":0,"ServiceEnableTagOverride":false,"ServiceProxy":{"MeshGateway":{},"Expose":{}},'
    '"ServiceConnect":{},"CreateIndex":0,"ModifyIndex":0}]'
)


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
    asker.agent.put_service("db1", "db")
    return asker


async def shown(asker: Asker, target: str) -> str:
    return without_indexes((await asker.ask(f"/v1/catalog/{target}")).body.plain)


async def test_nodes_services_and_instances_are_consul_s_field_for_field(asker: Asker) -> None:
    assert await shown(asker, "nodes") == f"[{NODE_ENTRY}]"
    assert await shown(asker, "services") == '{"db":[],"web":["a","b"]}'
    assert await shown(asker, "service/web") == f"[{WEB_NODE_ENTRY}]"
    assert (await shown(asker, "service/db")).endswith(BARE_NODE_END)


async def test_node_shows_its_services_by_id_or_as_a_list(asker: Asker) -> None:
    by_id = f'{{"Node":{NODE_ENTRY},"Services":{{"db1":{BARE_ENTRY},"web1":{WEB_ENTRY}}}}}'
    assert await shown(asker, "node/n1") == by_id
    listed = f'{{"Node":{NODE_ENTRY},"Services":[{BARE_ENTRY},{WEB_ENTRY}]}}'
    assert await shown(asker, "node-services/N1") == listed


@pytest.mark.parametrize(
    ("target", "nothing"),
    [
        ("node/zz", None),
        ("node-services/zz", {"Node": None, "Services": None}),
        ("service/zz", []),
        ("connect/zz", []),
        ("gateway-services/zz", []),
        ("services?node-meta=rack:r2", {}),
        ("nodes?node-meta=rack:r2", []),
        ("nodes?filter=Node==zz", []),
        ("service/web?tag=zz", []),
        ("service/web?filter=ServicePort==81", []),
    ],
)
async def test_nothing_is_told_as_consul_tells_it(asker: Asker, target: str, nothing: object) -> None:
    response = await asker.ask(f"/v1/catalog/{target}")
    assert decoded(response) == nothing
    assert index_of(response) > 0


async def test_filter_chooses_among_the_services_and_keeps_the_node(asker: Asker) -> None:
    assert await shown(asker, "node/n1?filter=Service==zz") == f'{{"Node":{NODE_ENTRY},"Services":{{}}}}'
    assert await shown(asker, "node-services/n1?filter=Port==80") == (
        f'{{"Node":{NODE_ENTRY},"Services":[{WEB_ENTRY}]}}'
    )
    refusal = refused(await asker.ask("/v1/catalog/node/zz?filter=Nope==1"))
    assert refusal[0] == 400


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("service/", "Missing service name"),
        ("connect/", "Missing service name"),
        ("node/", "Missing node name"),
        ("node-services/", "Missing node name"),
    ],
)
async def test_missing_names_are_named(asker: Asker, target: str, sentence: str) -> None:
    assert refused(await asker.ask(f"/v1/catalog/{target}")) == (400, sentence)


async def test_list_of_services_moves_only_with_names_and_tags(asker: Asker) -> None:
    before = index_of(await asker.ask("/v1/catalog/services"))
    asker.agent.put_service("db2", "db", port=5)
    asker.agent.put_service("db2", "db", port=6)
    assert index_of(await asker.ask("/v1/catalog/services")) == before
    asker.agent.put_service("db2", "db", tags=("new",))
    assert index_of(await asker.ask("/v1/catalog/services")) > before
    assert await asker.json("/v1/catalog/services") == {"db": ["new"], "web": ["a", "b"]}


async def test_filtered_list_of_services_sees_every_change_of_an_instance(asker: Asker) -> None:
    target = "/v1/catalog/services?filter=ServicePort==5"
    assert await asker.json(target) == {}
    before = index_of(await asker.ask(target))
    asker.agent.put_service("db1", "db", port=5)
    assert await asker.json(target) == {"db": []}
    assert index_of(await asker.ask(target)) > before


async def test_instances_move_with_their_service_and_not_with_its_checks(asker: Asker) -> None:
    before = index_of(await asker.ask("/v1/catalog/service/web"))
    asker.agent.put_service("db1", "db", port=7)
    assert index_of(await asker.ask("/v1/catalog/service/web")) == before


async def test_datacenters_are_a_list_without_an_index(asker: Asker) -> None:
    response = await asker.ask("/v1/catalog/datacenters?index=zz&dc=zz")
    assert decoded(response) == ["dc1"]
    assert header(response, "X-Consul-Index") is None
    assert header(await asker.ask("/v1/catalog/datacenters?cached"), "X-Cache") == "HIT"
