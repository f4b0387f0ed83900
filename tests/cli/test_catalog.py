from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

NODE = {
    "ID": "beadd33e-80fe-2030-4507-9da12bc47084",
    "Node": "n1",
    "Address": "127.0.0.1",
    "Datacenter": "dc1",
    "TaggedAddresses": {"wan": "127.0.0.1", "lan": "127.0.0.1"},
}


@pytest.fixture
def catalog(agent: FakeAgent) -> FakeAgent:
    agent.answers |= {
        "GET /v1/catalog/datacenters": ["dc1", "dc2"],
        "GET /v1/catalog/nodes": [{**NODE, "Meta": {"consul-network-segment": ""}}],
        "GET /v1/catalog/service/web": [{**NODE, "NodeMeta": None}, {**NODE, "NodeMeta": None}],
        "GET /v1/catalog/services": {"web": ["b", "a"], "consul": []},
        "GET /v1/catalog/node/n1": {
            "Services": {"1": {"Service": "web", "Tags": ["a"]}, "2": {"Service": "web", "Tags": None}}
        },
        "GET /v1/catalog/node/n9": None,
    }
    return agent


def test_datacenters_are_bare_lines(adsum: Adsum, catalog: FakeAgent) -> None:
    assert adsum("catalog", "datacenters").out == "dc1\ndc2\n"
    assert json.loads(adsum("catalog", "datacenters", "-o=json").out) == [
        {"Datacenter": "dc1"},
        {"Datacenter": "dc2"},
    ]


def test_nodes_as_consul_lists_them(adsum: Adsum, catalog: FakeAgent) -> None:
    assert adsum("catalog", "nodes").out == (
        "Node  ID        Address    DC\nn1    beadd33e  127.0.0.1  dc1\n"
    )
    assert adsum("catalog", "nodes", "-detailed").out.splitlines()[1] == (
        "n1    beadd33e-80fe-2030-4507-9da12bc47084  127.0.0.1  dc1  lan=127.0.0.1, wan=127.0.0.1"
        "  consul-network-segment="
    )


def test_nodes_of_a_service_are_named_once(adsum: Adsum, catalog: FakeAgent) -> None:
    rows = json.loads(adsum("catalog", "nodes", "-service=web", "-o=json").out)
    assert [(row["Node"], row["Meta"]) for row in rows] == [("n1", {})]


def test_what_nodes_are_wanted_is_passed_on(adsum: Adsum, catalog: FakeAgent) -> None:
    adsum("catalog", "nodes", "-near=_agent", "-filter=Node == n1", "-node-meta=rack=r1", "-datacenter=dc1")
    assert catalog.asked[0].query == {
        "dc": "dc1",
        "node-meta": "rack:r1",
        "near": "_agent",
        "filter": "Node == n1",
    }
    assert adsum("catalog", "nodes", "-node-meta=rack").status == 2


def test_no_node_is_told_in_consul_s_words(adsum: Adsum, catalog: FakeAgent) -> None:
    catalog.answers["GET /v1/catalog/nodes"] = []
    sentence = "No nodes match the given query - try expanding your search.\n"
    assert adsum("catalog", "nodes") == (0, "", sentence)


def test_services_are_bare_lines_and_tags_stand_where_consul_puts_them(
    adsum: Adsum, catalog: FakeAgent
) -> None:
    assert adsum("catalog", "services").out == "consul\nweb\n"
    assert adsum("catalog", "services", "-tags").out == "consul\nweb         a,b\n"


def test_services_of_one_node(adsum: Adsum, catalog: FakeAgent) -> None:
    assert adsum("catalog", "services", "-node=n1", "-tags").out == "web      a\n"
    status, _, err = adsum("catalog", "services", "-node=n9")
    assert status == 3
    assert "there is no node n9" in err


HELD = {
    "Generation": 1_800_000_000_000,
    "Version": 7,
    "CompleteUpTo": 7,
    "Complete": True,
    "Items": 4,
    "Bytes": 321,
    "Digest": "00ff00ff00ff00ff",
    "ConfirmedMs": 480,
}
BEHIND = {**HELD, "Version": 6, "CompleteUpTo": 4, "Complete": False, "ConfirmedMs": 61_000}
WHO = {"ID": NODE["ID"], "Node": "n1", "Status": "alive"}


def test_owners_tell_what_is_held_of_them_and_since_when_it_is_certain(
    adsum: Adsum, agent: FakeAgent
) -> None:
    never = {**BEHIND, "ConfirmedMs": None, "Source": "others"}
    agent.answers["GET /v1/catalog/owners"] = [
        {**WHO, **HELD, "Source": "own"},
        {**WHO, "Node": "n2", **never},
        {**WHO, "Node": "n3", **never, "Source": "saved copy", "SavedMs": 180_000},
    ]
    assert adsum("catalog", "owners").out.splitlines() == [
        "Node  Status  Items  Bytes  Version  Complete  Confirmed   Source",
        "n1    alive   4      321    7        yes       480 ms ago  own",
        "n2    alive   4      321    6        up to 4   never       others",
        "n3    alive   4      321    6        up to 4   never       saved copy of 3 min ago",
    ]


def test_two_catalogs_that_are_equal_are_exit_status_0(adsum: Adsum, agent: FakeAgent) -> None:
    found = {"Node": "n1", "Other": "n2", "Equal": 3, "Differences": []}
    agent.answers["GET /v1/catalog/diff/n2"] = found
    assert adsum("catalog", "diff", "n2") == (0, "", "n1 and n2: all 3 owners are equal\n")
    assert json.loads(adsum("catalog", "diff", "n2", "-o=json").out) == found


def test_where_two_catalogs_differ_is_told_with_ages_and_exit_status_2(
    adsum: Adsum, agent: FakeAgent
) -> None:
    difference = {**WHO, "What": "behind here", "Here": BEHIND, "There": HELD}
    only = {**WHO, "Node": "", "What": "only there", "Here": None, "There": HELD}
    agent.answers["GET /v1/catalog/diff/n2"] = {
        "Node": "n1",
        "Other": "n2",
        "Equal": 3,
        "Differences": [difference, only],
    }
    status, out, err = adsum("catalog", "diff", "n2")
    assert (status, err) == (2, "n1 and n2: 2 differ, 3 owners are equal\n")
    first, second = out.splitlines()[1:]
    assert [cell for cell in re.split(" {2,}", first) if cell] == [
        *("n1", "alive", "behind here", "4 items at version 6 (complete up to 4)", "61 s ago"),
        *("4 items at version 7", "480 ms ago"),
    ]
    assert "nothing" in second
    assert second.startswith("beadd33e-80fe")
