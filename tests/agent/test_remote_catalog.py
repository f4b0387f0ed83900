"""What is shown of an owner, by literal items: always what it says now, under whatever numbers."""

from __future__ import annotations

from dataclasses import replace

import cbor2
from hypothesis import given
from hypothesis import strategies as st

from adsum.address import Address
from adsum.agent.presence import Presence
from adsum.agent.remote_catalog import RemoteCatalogView
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState
from adsum.catalog.view import View
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.now import SECOND, Now
from adsum.owners import STORE

NOW = Now(1_000 * SECOND, 1_800_000_000_000)
OWNER = Profile((2).to_bytes(16), "db-7", Address("10.0.0.7", 8301))
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)

Values = dict[int, bytes]


def service(name: str) -> bytes:
    return records.encode_service(Service(service_id=name, name=name))


def check(name: str) -> bytes:
    return records.encode_check(_check(name, CheckStatus.CRITICAL))


def state(number: int, status: CheckStatus) -> bytes:
    return records.encode_state(number, _check("any", status))


def _check(name: str, status: CheckStatus) -> Check:
    return Check(check_id=f"service:{name}", name=name, status=status, service_id=name, service_name=name)


class Stage:
    """One owner, as another agent shows it."""

    def __init__(self) -> None:
        self.view = View(NOW, tag=1)
        presence = Presence(self.view, "00000000-0000-0000-0000-000000000001", "dc1")
        presence.changed(NOW, MemberChanged(OWNER, None, ALIVE, Evidence(ChangeCause.JOINED)))
        self.mirror = RemoteCatalogView(self.view, presence)
        self._state: OwnerState | None = None

    def hear(self, values: Values, *, generation: int = 1) -> None:
        """The items that the owner has now; equal ones are the same as before."""
        before = self._state.items if self._state and self._state.generation == generation else {}
        items = {}
        for number, value in values.items():
            old = before.get(number)
            items[number] = old if old is not None and old.value == value else Item(number, 1, value)
        after = OwnerState(OWNER.short, generation, items=items)
        self.mirror.changed(NOW, OWNER.short, self._state, after)
        self._state = after

    def shown(self) -> dict[str, list[CheckStatus]]:
        host = self.view.node(OWNER.name)
        assert host is not None
        instances = {key: host.instances.get(key) for key in ("web", "api", "db")}
        return {
            key: [row.value.status for row in instance.checks]
            for key, instance in instances.items()
            if instance is not None
        }


def test_a_life_that_numbers_its_services_anew_shows_all_of_them() -> None:
    stage = Stage()
    stage.hear({1: service("web"), 2: service("api"), 3: service("db")})
    stage.hear({1: service("api"), 2: service("db"), 3: service("web")}, generation=2)
    assert set(stage.shown()) == {"web", "api", "db"}
    stage.hear({1: service("db")}, generation=3)
    assert set(stage.shown()) == {"db"}


def test_a_life_that_numbers_its_checks_anew_keeps_the_state_of_each() -> None:
    stage = Stage()
    stage.hear(
        {
            1: service("web"),
            2: check("web"),
            3: state(2, CheckStatus.PASSING),
            4: service("api"),
            5: check("api"),
            6: state(5, CheckStatus.CRITICAL),
        }
    )
    stage.hear(
        {
            1: service("api"),
            2: check("api"),
            3: state(2, CheckStatus.CRITICAL),
            4: service("web"),
            5: check("web"),
            6: state(5, CheckStatus.PASSING),
        },
        generation=2,
    )
    assert stage.shown() == {"web": [CheckStatus.PASSING], "api": [CheckStatus.CRITICAL]}


def test_while_two_items_carry_one_service_the_end_of_either_leaves_it() -> None:
    stage = Stage()
    stage.hear({1: service("web"), 2: service("web")})  # the removal of the first was missed
    stage.hear({1: service("db"), 2: service("web")})
    assert set(stage.shown()) == {"web", "db"}


def test_a_check_is_shown_with_its_service_also_when_that_was_away_for_a_moment() -> None:
    stage = Stage()
    checked = {2: check("web"), 3: state(2, CheckStatus.WARNING)}
    stage.hear({1: service("web"), **checked})
    stage.hear(checked)
    stage.hear({1: service("web"), **checked})
    assert stage.shown() == {"web": [CheckStatus.WARNING]}


def test_a_check_without_its_state_is_not_shown() -> None:
    stage = Stage()
    stage.hear({1: service("web"), 2: check("web"), 3: state(2, CheckStatus.PASSING)})
    stage.hear({1: service("web"), 2: check("web")})
    assert stage.shown() == {"web": []}


def test_what_stays_moves_no_index() -> None:
    stage = Stage()
    stage.hear({1: service("web"), 2: check("web"), 3: state(2, CheckStatus.PASSING)})
    index = stage.view.index
    stage.hear({4: state(7, CheckStatus.PASSING), 5: service("web"), 7: check("web")}, generation=2)
    assert stage.view.index == index


def test_an_agent_says_nothing_of_another_node_than_its_own() -> None:
    stage = Stage()
    foreign = records.encode_service(Service(service_id="db", name="db", node="printer-1"))
    foreign_check = records.encode_check(replace(_check("web", CheckStatus.CRITICAL), node="printer-1"))
    foreign_node = cbor2.dumps([0, "dc9", {}, {}, "printer-1"])
    stage.hear(
        {0: foreign_node, 1: service("web"), 2: foreign, 3: foreign_check, 4: state(3, CheckStatus.PASSING)}
    )
    assert stage.shown() == {"web": []}
    assert stage.mirror.bad_items == 3
    host = stage.view.node(OWNER.name)
    assert host is not None
    assert host.node.value.datacenter == "dc1"


def test_what_the_store_publishes_is_shown_on_nodes_of_its_own() -> None:
    stage = Stage()
    node = Node(node_id="", name="printer-1", address="10.1.0.1", datacenter="dc1")
    items = {1: Item(1, 1, records.encode_external_node(node))}
    stage.mirror.changed(NOW, STORE, None, OwnerState(STORE, 1, items=items))
    assert [host.name for host in stage.view.nodes()] == ["db-7", "printer-1"]


LIFE = st.tuples(
    st.permutations(range(1, 10)),
    st.lists(st.sampled_from(("web", "api", "db")), unique=True),
    st.sampled_from((CheckStatus.PASSING, CheckStatus.CRITICAL)),
    st.booleans(),
)


@given(st.lists(LIFE, min_size=1, max_size=6))
def test_after_any_lives_all_that_the_last_one_has_is_shown(
    lives: list[tuple[list[int], list[str], CheckStatus, bool]],
) -> None:
    stage, generation = Stage(), 1
    names: list[str] = []
    status = CheckStatus.PASSING
    for numbers, names, status, is_new_life in lives:
        generation += is_new_life
        values: Values = {}
        for place, name in enumerate(names):
            own, checked, stated = numbers[3 * place : 3 * place + 3]
            values |= {own: service(name), checked: check(name), stated: state(checked, status)}
        stage.hear(values, generation=generation)
    assert stage.shown() == {name: [status] for name in ("web", "api", "db") if name in names}
