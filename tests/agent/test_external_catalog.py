"""Nodes without an agent in the view, from what the store publishes."""

from __future__ import annotations

import pytest

from adsum.address import Address
from adsum.agent.external_catalog import ExternalCatalogView
from adsum.agent.presence import Presence
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState
from adsum.catalog.view import NO_AGENT, View
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.now import SECOND, Now
from adsum.owners import STORE

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
AGENT = Profile((2).to_bytes(16), "printer-1", Address("10.0.0.7", 8301))
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
LEFT = Standing(1, Departure.LEFT, 0, Rank.ALIVE)


def node(name: str, address: str = "10.1.0.1") -> bytes:
    return records.encode_external_node(Node(node_id="", name=name, address=address, datacenter="dc1"))


def service(name: str, id_: str) -> bytes:
    return records.encode_service(Service(service_id=id_, name=id_, node=name))


def check(name: str, id_: str, service_id: str = "") -> bytes:
    described = Check(
        check_id=id_, name=id_, status=CheckStatus.CRITICAL, service_id=service_id, node=name, definition="{}"
    )
    return records.encode_check(described)


def said(number: int, status: CheckStatus) -> bytes:
    return records.encode_external_state(number, status, "as it is")


class Stage:
    def __init__(self) -> None:
        self.view = View(NOW, tag=1)
        self.presence = Presence(self.view, "00000000-0000-0000-0000-000000000001", "dc1")
        self.external = ExternalCatalogView(self.view)
        self._state: OwnerState | None = None

    def publish(self, values: dict[int, bytes]) -> None:
        before = self._state.items if self._state is not None else {}
        items = {}
        for number, value in values.items():
            old = before.get(number)
            items[number] = old if old is not None and old.value == value else Item(number, 1, value)
        after = OwnerState(STORE, 1, items=items)
        self.external.changed(NOW, self._state, after)
        self._state = after

    def statuses(self, name: str) -> dict[str, CheckStatus] | None:
        host = self.view.node(name)
        return None if host is None else {row.value.check_id: row.value.status for row in host.checks}

    def services(self, name: str) -> list[str]:
        host = self.view.node(name)
        assert host is not None
        return [instance.service.value.service_id for instance in host.instances]


def test_a_node_comes_with_its_services_and_checks_in_any_order() -> None:
    stage = Stage()
    checked = {4: said(3, CheckStatus.PASSING), 3: check("Printer-1", "up", "lpd")}
    stage.publish({**checked, 2: service("printer-1", "lpd")})
    assert stage.statuses("printer-1") is None  # its own record is not known yet
    stage.publish({**checked, 2: service("printer-1", "lpd"), 1: node("Printer-1")})
    assert stage.statuses("printer-1") == {"up": CheckStatus.PASSING}
    assert stage.services("printer-1") == ["lpd"]
    host = stage.view.node("printer-1")
    assert host is not None
    assert (host.owner, host.name) == (NO_AGENT, "Printer-1")


def test_nodes_of_one_owner_keep_apart_what_is_on_them() -> None:
    stage = Stage()
    both = {1: node("a"), 2: node("b"), 3: service("a", "web"), 4: service("b", "web")}
    stage.publish(both)
    stage.publish({number: value for number, value in both.items() if number != 3})
    assert (stage.services("a"), stage.services("b")) == ([], ["web"])


def test_a_service_that_goes_leaves_checks_of_its_namesakes_where_they_are() -> None:
    stage = Stage()
    both = {1: node("a"), 2: node("b"), 3: service("a", "web"), 4: service("b", "web")}
    both |= {5: check("b", "up", "web"), 6: said(5, CheckStatus.CRITICAL)}
    stage.publish(both)
    stage.publish({number: value for number, value in both.items() if number != 3})
    assert (stage.statuses("a"), stage.statuses("b")) == ({}, {"up": CheckStatus.CRITICAL})


def test_a_flip_of_a_check_is_shown_and_moves_nothing_else() -> None:
    stage = Stage()
    standing = {1: node("a"), 2: check("a", "up"), 4: node("b")}
    stage.publish({**standing, 3: said(2, CheckStatus.PASSING)})
    stage.view.changes()
    stage.publish({**standing, 3: said(2, CheckStatus.CRITICAL)})
    assert stage.statuses("a") == {"up": CheckStatus.CRITICAL}
    assert {topic.name for topic in stage.view.changes()} <= {"a", "any", "passing", "critical"}


@pytest.mark.parametrize("name", ["a", "Straße"])
def test_a_node_that_is_deregistered_goes_with_everything(name: str) -> None:
    stage = Stage()
    stage.publish({1: node(name), 2: service(name, "web")})
    stage.publish({})
    assert stage.view.node(name) is None


def test_an_agent_has_the_better_right_to_a_name_and_gives_it_back() -> None:
    stage = Stage()
    stage.publish({1: node("printer-1"), 2: service("printer-1", "lpd")})
    stage.presence.changed(NOW, MemberChanged(AGENT, None, ALIVE, Evidence(ChangeCause.JOINED)))
    assert stage.services("printer-1") == []
    stage.publish({1: node("printer-1", "10.1.0.2"), 2: service("printer-1", "lpd")})
    assert stage.services("printer-1") == []
    stage.presence.changed(NOW, MemberChanged(AGENT, ALIVE, LEFT, Evidence(ChangeCause.LEFT)))
    for name in stage.presence.take_freed():
        stage.external.name_is_free(NOW, name)
    assert stage.services("printer-1") == ["lpd"]


def test_what_names_no_node_or_is_no_record_is_counted_and_passed_over() -> None:
    stage = Stage()
    stage.publish({1: service("", "web"), 2: b"nonsense", 3: check("a", "serfHealth"), 4: node("a")})
    assert (stage.external.bad_items, stage.statuses("a")) == (3, {})
