"""/v1/agent/members, and who leads them by what they say about themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.address import Address
from adsum.agent.presence import uuid_text
from adsum.gossip import claims
from adsum.gossip.order import Departure
from adsum.version import ADSUM_VERSION
from tests.api.agents import CONFIG, NODE_ID, Asker, FakeAgent, header, refused

CLIENT = replace(CONFIG, is_server=False, bootstrap=False)


@pytest.fixture
def asker() -> Asker:
    return Asker()


@pytest.fixture
def client() -> Asker:
    return Asker(FakeAgent(CLIENT))


async def members(asker: Asker, query: str = "") -> list[dict[str, object]]:
    shown = await asker.json(f"/v1/agent/members{query}")
    assert isinstance(shown, list)
    return shown


async def test_member_has_consul_s_fields_and_tags(asker: Asker) -> None:
    (member,) = await members(asker)
    tags = member.pop("Tags")
    assert member == {
        "Name": "n1",
        "Addr": "127.0.0.1",
        "Port": 8301,
        "Status": 1,
        "ProtocolMin": 1,
        "ProtocolMax": 5,
        "ProtocolCur": 2,
        "DelegateMin": 2,
        "DelegateMax": 5,
        "DelegateCur": 4,
    }
    assert tags == {
        "acls": "0",
        "adsum": ADSUM_VERSION,
        "bootstrap": "1",
        "build": "1.8.7:",
        "dc": "dc1",
        "id": NODE_ID,
        "port": "8300",
        "raft_vsn": "3",
        "role": "consul",
        "segment": "",
        "vsn": "2",
        "vsn_max": "3",
        "vsn_min": "2",
        "wan_join_port": "8302",
    }
    about = await asker.json("/v1/agent/self")
    assert isinstance(about, dict)
    assert about["Member"] == {**member, "Tags": tags}


async def test_wide_area_pool_has_servers_by_full_name(asker: Asker) -> None:
    (member,) = await members(asker, "?wan=1")
    assert (member["Name"], member["Port"]) == ("n1.dc1", 8302)
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    assert await members(client, "?wan=1") == []
    (alone,) = await members(client, "?segment=_all")
    assert isinstance(alone["Tags"], dict)
    assert alone["Tags"]["role"] == "node"
    assert "port" not in alone["Tags"]


async def test_segments_are_not_supported(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/agent/members?segment=zz")) == (
        500,
        "Network segments are not supported in this version of Consul",
    )


async def test_everybody_is_listed_by_name_with_what_they_say_of_themselves(asker: Asker) -> None:
    claim = asker.agent.meet("web", "10.0.0.7")
    asker.agent.meet("a-server", "10.0.0.8", is_server=True, expect=3)
    server, own, web = await members(asker)
    assert (own["Name"], web["Name"], web["Addr"], web["Port"]) == ("n1", "web", "10.0.0.7", 8301)
    assert web["Tags"] == {
        "acls": "0",
        "build": "1.8.7:",
        "dc": "dc1",
        "id": uuid_text(claim.profile.node_id),
        "role": "node",
        "segment": "",
        "vsn": "2",
        "vsn_max": "3",
        "vsn_min": "2",
    }
    tags = server["Tags"]
    assert isinstance(tags, dict)
    assert (tags["role"], tags["port"], tags["expect"], tags["raft_vsn"]) == ("consul", "8300", "3", "3")
    assert tags["wan_join_port"] == "8302"
    assert "bootstrap" not in tags


async def test_suspects_are_alive_and_others_have_consul_s_numbers(asker: Asker) -> None:
    names = ("suspect", "failed", "left", "accuser")
    met = {name: asker.agent.meet(name, f"10.0.0.{number}") for number, name in enumerate(names)}
    accuser = met["accuser"]
    asker.agent.judge(accuser, claims.suspect(met["suspect"].subject, 1, 0, (accuser.subject,)).encoded)
    asker.agent.fail(met["failed"], accuser)
    left = claims.left(met["left"].subject, 1, 0, Departure.LEFT, met["left"].subject)
    asker.agent.judge(accuser, left.encoded)
    found = {member["Name"]: member["Status"] for member in await members(asker)}
    assert found == {"accuser": 1, "failed": 4, "left": 3, "n1": 1, "suspect": 1}


async def test_a_member_without_a_sensible_description_is_listed_all_the_same(asker: Asker) -> None:
    profile = claims.Profile(b"0123456789abcdef", "odd", Address("10.0.0.9", 8301), b"\xff")
    asker.agent.hear(claims.alive(profile, 1, 0).encoded)
    odd = (await members(asker))[1]
    tags = odd["Tags"]
    assert isinstance(tags, dict)
    assert (odd["Name"], tags["role"], tags["build"]) == ("odd", "node", ":")


async def test_servers_of_this_datacenter_are_the_pool_across_them(asker: Asker) -> None:
    asker.agent.meet("s2", "10.0.0.8", is_server=True)
    asker.agent.meet("c1", "10.0.0.9")
    assert [member["Name"] for member in await members(asker, "?wan=1")] == ["n1.dc1", "s2.dc1"]


# Who leads.


async def leader(asker: Asker) -> tuple[object, object, str | None]:
    nodes = await asker.ask("/v1/catalog/nodes")
    known = header(nodes, "X-Consul-Knownleader")
    return await asker.json("/v1/status/leader"), await asker.json("/v1/status/peers"), known


NOBODY: tuple[object, object, str | None] = ("", [], "false")


async def test_a_client_believes_whichever_server_says_that_it_leads(client: Asker) -> None:
    assert await leader(client) == NOBODY
    other = client.agent.meet("s1", "10.0.0.7", is_server=True)
    assert await leader(client) == ("", ["10.0.0.7:8300"], "false")
    server = client.agent.meet("s2", "10.0.0.8", is_server=True, leads_in_term=3)
    assert await leader(client) == ("10.0.0.8:8300", ["10.0.0.7:8300", "10.0.0.8:8300"], "true")
    client.agent.fail(server, other)
    assert await leader(client) == ("", ["10.0.0.7:8300"], "false")


async def test_a_server_believes_consensus(asker: Asker) -> None:
    assert await leader(asker) == ("127.0.0.1:8300", ["127.0.0.1:8300"], "true")
    asker.agent.meet("s2", "10.0.0.8", is_server=True, leads_in_term=9)
    assert await leader(asker) == ("127.0.0.1:8300", ["127.0.0.1:8300"], "true")
    asker.agent.see_leader(None)
    assert (await leader(asker))[::2] == ("", "false")


async def test_answers_made_before_tell_who_leads_now_and_keep_their_index(client: Asker) -> None:
    """`/v1/catalog/service/x` shows nothing of nodes that come and go."""
    before = await client.ask("/v1/catalog/service/x")
    client.agent.meet("s1", "10.0.0.8", is_server=True, leads_in_term=1)
    after = await client.ask("/v1/catalog/service/x")
    known = [header(each, "X-Consul-Knownleader") for each in (before, after)]
    assert known == ["false", "true"]
    assert header(before, "X-Consul-Index") == header(after, "X-Consul-Index")
