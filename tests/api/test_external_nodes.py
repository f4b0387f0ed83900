"""Nodes without an agent: what /v1/catalog/register takes is in the store as the catalog has it."""

from __future__ import annotations

import pytest
import trio.testing

from adsum.catalog import records
from adsum.catalog.model import Check, Service
from adsum.catalog.records import NodeRecord
from adsum.external import ExternalItem
from tests.api.agents import Asker, decoded, refused

REGISTER, DEREGISTER = "/v1/catalog/register", "/v1/catalog/deregister"
NODE_ID = "adf4238a-882b-9ddc-4a9d-5b6758e4159e"


@pytest.fixture
def asker(autojump_clock: trio.testing.MockClock) -> Asker:
    """Nobody publishes here, so each change is waited for until its second is over."""
    return Asker()


def kept(asker: Asker, node: str) -> list[ExternalItem]:
    return asker.agent.consensus.machine.external.of_node(node)


async def register(asker: Asker, **fields: object) -> None:
    response = await asker.put(REGISTER, {"Node": "ext", "Address": "10.0.0.1", **fields})
    assert decoded(response) is True


async def test_a_node_is_kept_as_the_catalog_has_it(asker: Asker) -> None:
    await register(asker, ID=NODE_ID, NodeMeta={"k": "v"}, TaggedAddresses={"wan": "1.2.3.4"})
    [item] = kept(asker, "EXT")
    assert (item.node, item.node_id) == ("ext", NODE_ID)
    assert records.decode(item.row) == NodeRecord(
        datacenter="dc1",
        tagged_addresses={"wan": "1.2.3.4"},
        meta={"k": "v"},
        name="ext",
        address="10.0.0.1",
        node_id=NODE_ID,
    )


async def test_a_service_and_its_check_are_kept_with_it(asker: Asker) -> None:
    service = {"Service": "web", "Port": 80, "Tags": ["a"], "TaggedAddresses": {"lan": {"Address": "x"}}}
    definition = {"HTTP": "http://x", "Interval": "10s", "Timeout": 5_000_000_000, "TLSSkipVerify": False}
    check = {"Name": "alive", "ServiceID": "web", "Status": "passing", "Definition": definition}
    await register(asker, Service=service, Check=check)
    _node, kept_service, kept_check = kept(asker, "ext")
    assert records.decode(kept_service.row) == Service(
        service_id="web", name="web", port=80, tags=("a",), tagged_addresses={"lan": ("x", 0)}, node="ext"
    )
    row = records.decode(kept_check.row)
    assert isinstance(row, Check)
    assert (row.check_id, row.service_name, row.service_tags, row.kind) == ("alive", "web", ("a",), "http")
    assert row.definition == '{"HTTP":"http://x","Interval":"10s","Timeout":"5s"}'
    assert (kept_check.service_id, kept_check.status) == ("web", "passing")


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({}, 500, "Must provide node"),
        ({"Node": "e"}, 500, "Must provide address if SkipNodeUpdate is not set"),
        ({"Node": "e", "Address": "x", "ID": "y"}, 500, "Bad node ID: uuid string is wrong length"),
        ({"Node": "e", "Address": "x", "Service": {"ID": "s"}}, 500, "Must provide service name with ID"),
        (
            {"Node": "e", "Address": "x", "Service": {"Service": "s", "Address": "0.0.0.0"}},
            500,
            "Invalid service address",
        ),
        (
            {"Node": "e", "Address": "x", "Check": {"Name": "c", "ServiceID": "nope"}},
            500,
            'failed inserting check: Missing service registration on node "e"',
        ),
        (
            {"Node": "e", "Address": "x", "Check": {"Name": "c", "Node": "z"}},
            500,
            'check node "z" does not match node "e"',
        ),
        (
            {"Node": "e", "Address": "x", "Check": {"Name": "c", "Status": "bogus"}},
            400,
            "Bad check status 'bogus': it is passing, warning or critical",
        ),
    ],
)
async def test_what_makes_no_sense_is_refused_in_consul_s_words(
    asker: Asker, body: object, status: int, sentence: str
) -> None:
    assert refused(await asker.put(REGISTER, body)) == (status, sentence)
    assert kept(asker, "e") == []


async def test_an_agent_s_id_is_not_another_node_s(asker: Asker) -> None:
    other = asker.agent.meet("b").profile.node_id
    body = {"Node": "ext", "Address": "x", "ID": "-".join(_parts(other.hex()))}
    status, sentence = refused(await asker.put(REGISTER, body))
    assert status == 500
    assert sentence.startswith("failed inserting node: Error while renaming Node ID: ")
    assert "is reserved by node" in sentence


async def test_a_check_a_service_or_all_of_a_node_is_deregistered(asker: Asker) -> None:
    await register(asker, Service={"Service": "web"}, Checks=[{"Name": "a"}, {"Name": "b"}])
    for body, left in (({"CheckID": "a"}, 3), ({"ServiceID": "web"}, 2), ({"ServiceID": "web"}, 2), ({}, 0)):
        response = await asker.put(DEREGISTER, {"Node": "ext", **body})
        assert decoded(response) is True
        assert len(kept(asker, "ext")) == left


def _parts(text: str) -> list[str]:
    return [text[:8], text[8:12], text[12:16], text[16:20], text[20:]]


async def test_what_other_agents_could_not_take_is_refused_and_an_output_is_cut(asker: Asker) -> None:
    """One such item would hold up all that the servers publish."""
    large = {"k": "x" * 70_000}
    response = await asker.put(REGISTER, {"Node": "ext", "Address": "10.0.0.1", "NodeMeta": large})
    status, sentence = refused(response)
    assert status == 500
    assert sentence.startswith('node "ext" is too large: it would take 70')
    service = {"Service": "web", "Proxy": {"Config": large}}
    response = await asker.put(REGISTER, {"Node": "ext", "Address": "10.0.0.1", "Service": service})
    assert response.status == 500
    assert kept(asker, "ext") == []
    await register(asker, Check={"Name": "up", "Status": "critical", "Output": "é" * 70_000})
    assert kept(asker, "ext")[1].output == "é" * 32_640
