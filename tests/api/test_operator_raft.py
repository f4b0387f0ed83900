from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from adsum.leading import ConsensusFigures, PeerFigures
from adsum.process.keys_without_room import KeysWithoutRoom
from tests.api.agents import CONFIG, NODE_ID, Asker, FakeAgent, header, refused

PATH = "/v1/operator/raft/configuration"
GONE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def asker() -> Asker:
    return Asker()


def figures(*others: PeerFigures, leader: str = NODE_ID) -> ConsensusFigures:
    return ConsensusFigures(
        role="leader" if leader == NODE_ID else "follower",
        term=4,
        leader=leader,
        leader_since_ms=1_800_000_000_000 if leader else 0,
        behind_ms=0 if leader == NODE_ID else 120,
        last_log_index=31,
        last_log_term=4,
        commit_index=30,
        applied_index=29,
        snapshot_index=10,
        snapshot_term=2,
        peers=(PeerFigures(NODE_ID, is_voter=True, last_index=31), *others),
    )


def meet(asker: Asker, name: str) -> str:
    return str(UUID(bytes=asker.agent.meet(name, "127.0.0.2", is_server=True).profile.node_id))


async def test_the_configuration_is_shown_as_consul_shows_it(asker: Asker) -> None:
    n2 = meet(asker, "n2")
    asker.agent.consensus.figures = figures(PeerFigures(n2, False, 17), PeerFigures(GONE, True, None))
    server = {"Leader": False, "ProtocolVersion": "3"}
    assert await asker.json(PATH) == {
        "Servers": [
            {
                **server,
                "ID": NODE_ID,
                "Node": "n1",
                "Address": "127.0.0.1:8300",
                "Leader": True,
                "Voter": True,
                "LastIndex": 31,
            },
            {
                **server,
                "ID": n2,
                "Node": "n2",
                "Address": "127.0.0.2:8300",
                "Voter": False,
                "LastIndex": 17,
            },
            {**server, "ID": GONE, "Node": "(unknown)", "Address": "", "Voter": True},
        ],
        "Index": 0,
    }


async def test_without_a_leader_it_is_shown_to_those_who_take_stale_answers(asker: Asker) -> None:
    asker.agent.consensus.figures = figures(leader="")
    asker.agent.consensus.waits_for = "an election is on"
    asker.agent.see_leader(None)
    response = await asker.ask(PATH)
    assert refused(response) == (500, "No cluster leader")
    assert header(response, "X-Adsum-Reason") == "an election is on"
    assert (await asker.ask(f"{PATH}?stale")).status == 200


async def test_a_server_that_belongs_to_no_cluster_has_none_to_show(asker: Asker) -> None:
    assert refused(await asker.ask(f"{PATH}?stale")) == (500, "No cluster leader")


async def test_a_client_shows_what_a_server_tells_it(asker: Asker) -> None:
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    s1 = meet(client, "s1")
    asker.agent.consensus.figures = figures(PeerFigures(s1, True, 17), leader=s1)
    client.agent.keys = asker.agent.keys
    shown = await client.json(PATH)
    assert isinstance(shown, dict)
    assert [
        (each["Node"], each["Leader"], each["Voter"], each["LastIndex"]) for each in shown["Servers"]
    ] == [
        ("n1", False, True, 31),
        ("s1", True, True, 17),
    ]


async def test_a_client_that_reaches_no_server_says_so() -> None:
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    client.agent.keys = KeysWithoutRoom("this agent knows of no server")
    assert refused(await client.ask(PATH)) == (500, "this agent knows of no server")


async def test_a_server_tells_its_figures_under_consul_s_names(asker: Asker) -> None:
    n2 = meet(asker, "n2")
    asker.agent.consensus.figures = figures(PeerFigures(n2, True, 17))
    assert await raft_stats(asker) == {
        "applied_index": "29",
        "commit_index": "30",
        "fsm_pending": "1",
        "last_contact": "0",
        "last_log_index": "31",
        "last_log_term": "4",
        "last_snapshot_index": "10",
        "last_snapshot_term": "2",
        "latest_configuration": f"[{{Suffrage:Voter ID:{NODE_ID} Address:127.0.0.1:8300}} "
        f"{{Suffrage:Voter ID:{n2} Address:127.0.0.2:8300}}]",
        "leader": "n1",
        "leader_since": "2027-01-15T08:00:00.000Z",
        "num_peers": "1",
        "protocol_version": "3",
        "state": "Leader",
        "term": "4",
        "voters": "n1,n2",
    }


async def test_a_follower_tells_how_long_ago_it_heard_the_leader(asker: Asker) -> None:
    n2 = meet(asker, "n2")
    peer = PeerFigures(n2, True, None)
    asker.agent.consensus.figures = figures(peer, leader=n2)
    stats = await raft_stats(asker)
    assert [stats[name] for name in ("state", "leader", "last_contact")] == ["Follower", "n2", "120ms"]
    asker.agent.consensus.figures = figures(peer, leader="")._replace(role="pre-candidate")
    stats = await raft_stats(asker)
    assert [stats[name] for name in ("state", "leader", "last_contact")] == ["Candidate", "", "never"]
    assert "leader_since" not in stats


async def raft_stats(asker: Asker) -> dict[str, str]:
    about = await asker.json("/v1/agent/self")
    assert isinstance(about, dict)
    stats = about["Stats"]["raft"]
    assert isinstance(stats, dict)
    return stats


async def test_servers_are_told_apart_by_who_leads_and_who_votes(asker: Asker) -> None:
    meet(asker, "n2")
    assert await roles(asker) == [("n1", "leader"), ("n2", "non-voter")]
    gone = asker.agent.meet("n3", "127.0.0.3", is_server=True)
    asker.agent.see_leader(gone.profile.node_id)
    asker.agent.fail(gone, asker.agent.meet("c1", "127.0.0.4"))
    assert await roles(asker) == [("n1", "non-voter"), ("n2", "non-voter"), ("n3", "leader")]
    asker.agent.see_leader(None)
    assert await roles(asker) == [("n1", "server"), ("n2", "server")]
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    client.agent.meet("s1", is_server=True)
    client.agent.meet("s2", "127.0.0.3", is_server=True, leads_in_term=1)
    assert await roles(client) == [("s1", "server"), ("s2", "leader")]


async def roles(asker: Asker) -> list[tuple[str, str]]:
    answer = await asker.json("/v1/membership?observer")
    assert isinstance(answer, dict)
    return [(server["Name"], server["Role"]) for server in answer["Servers"]]
