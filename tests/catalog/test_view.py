from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from adsum.catalog.aliases import verdict
from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.indexes import Family
from adsum.catalog.model import SERF_HEALTH, Check, Node, Service
from adsum.catalog.view import CatalogHost, Instance, Row, SortedTable, View
from adsum.now import Now
from adsum.topics import Topic

NOW = Now(0, 1_000_000)
NODE = Node(node_id="id-1", name="N1", address="127.0.0.1", datacenter="dc1")
WEB = Service(service_id="web1", name="web", tags=("a",), port=80)
WEB_CHECK = Check(check_id="c1", name="web check", status=CheckStatus.PASSING, service_id="web1")


def view_of_one() -> View:
    view = View(NOW, tag=7)
    view.put_node(NOW, "id-1", NODE)
    view.set_presence(NOW, "n1", is_present=True)
    view.changes()
    return view


def moved(view: View) -> set[tuple[str, str]]:
    return {(topic.family, topic.name) for topic in view.changes()}


def test_an_index_is_milliseconds_and_tag_and_rises_even_when_the_clock_does_not() -> None:
    view = View(NOW, tag=7)
    assert view.index == 1_000_000 << 8 | 7
    view.put_node(NOW, "id-1", NODE)
    assert view.index == 1_000_001 << 8 | 7
    view.put_node(Now(1, 5_000_000), "id-1", replace(NODE, address="127.0.0.2"))
    assert view.index == 5_000_000 << 8 | 7
    view.put_node(Now(2, 10), "id-1", NODE)
    assert view.index == 5_000_001 << 8 | 7


def test_putting_what_is_there_already_moves_nothing() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_check(NOW, "n1", WEB_CHECK)
    view.changes()
    before = view.index
    view.put_node(NOW, "id-1", NODE)
    view.put_service(NOW, "n1", replace(WEB))
    view.put_check(NOW, "n1", replace(WEB_CHECK))
    assert (view.index, view.changes()) == (before, ())


def test_a_check_of_a_service_moves_its_health_and_its_state_and_nothing_else() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_check(NOW, "n1", WEB_CHECK)
    view.changes()
    view.put_check(NOW, "n1", replace(WEB_CHECK, status=CheckStatus.CRITICAL))
    assert moved(view) == {
        ("health", "web"),
        ("node_checks", "n1"),
        ("state", "any"),
        ("state", "passing"),
        ("state", "critical"),
    }


def test_a_check_of_the_node_moves_the_health_of_every_service_on_it() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_service(NOW, "n1", replace(WEB, service_id="db", name="db"))
    view.changes()
    view.set_presence(NOW, "n1", is_present=False)
    assert {("health", "web"), ("health", "db")} <= moved(view)
    assert [each.status for each in view.instances("web")] == [CheckStatus.CRITICAL]


def test_the_list_of_services_moves_only_with_names_and_tags() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    assert ("services", "") in moved(view)
    view.put_service(NOW, "n1", replace(WEB, port=81))
    assert ("services", "") not in moved(view)
    view.put_service(NOW, "n1", replace(WEB, port=81, tags=("b",)))
    assert ("services", "") in moved(view)


def test_names_compare_without_case_and_keep_their_spelling() -> None:
    view = view_of_one()
    view.put_service(NOW, "N1", replace(WEB, name="Web"))
    assert [each.service.value.name for each in view.instances("wEB")] == ["Web"]
    host = view.node("n1")
    assert host is not None
    assert host.name == "N1"


def test_instances_are_ordered_by_node_then_service_id() -> None:
    view = view_of_one()
    view.put_node(NOW, "id-0", replace(NODE, node_id="id-0", name="a0"))
    for node, service_id in (("n1", "w2"), ("a0", "w3"), ("n1", "w1")):
        view.put_service(NOW, node, replace(WEB, service_id=service_id))
    found = [(each.host.name, each.service.value.service_id) for each in view.instances("web")]
    assert found == [("a0", "w3"), ("N1", "w1"), ("N1", "w2")]


def test_the_last_instance_leaves_a_higher_index_and_no_trace_of_its_name() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    topic = Topic(Family.HEALTH, "web")
    before = view.indexes.of(topic)
    view.changes()
    view.remove_service(NOW, "n1", "web1")
    assert topic in view.changes()
    assert view.indexes.of(topic) == view.index > before
    assert view.service_names() == []


def test_the_disappearance_of_one_service_does_not_move_another_that_is_there() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_service(NOW, "n1", replace(WEB, service_id="db", name="db"))
    before = view.indexes.of(Topic(Family.SERVICE, "db"))
    view.remove_service(NOW, "n1", "web1")
    assert view.indexes.of(Topic(Family.SERVICE, "db")) == before


def test_a_renamed_service_wakes_both_names() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.changes()
    view.put_service(NOW, "n1", replace(WEB, name="shop"))
    assert {("service", "web"), ("service", "shop"), ("services", "")} <= moved(view)
    assert view.instances("web") == ()


def test_checks_of_the_node_come_before_those_of_the_service() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_check(NOW, "n1", replace(WEB_CHECK, check_id="0-before-serf"))
    (instance,) = view.instances("web")
    assert [row.value.check_id for row in instance.all_checks()] == [SERF_HEALTH, "0-before-serf"]


def test_a_check_that_comes_before_its_service_is_adopted() -> None:
    view = view_of_one()
    view.put_check(NOW, "n1", replace(WEB_CHECK, status=CheckStatus.WARNING))
    view.put_service(NOW, "n1", WEB)
    (instance,) = view.instances("web")
    assert instance.status is CheckStatus.WARNING


def test_a_check_whose_service_never_comes_leaves_nothing_behind() -> None:
    view = view_of_one()
    view.put_check(NOW, "n1", WEB_CHECK)
    view.remove_check(NOW, "n1", "c1")
    view.put_service(NOW, "n1", WEB)
    assert list(instance_of(view).checks) == []
    host = view.node("n1")
    assert host is not None
    assert host.early_checks == {}


def test_neither_a_new_service_nor_an_alias_looks_at_every_check_of_the_node() -> None:
    """Forty thousand registrations took minutes, and each flip beside two thousand aliases a second."""
    view = view_of_one()
    host = view.node("n1")
    assert host is not None
    host.checks = NotWalked()
    view.put_service(NOW, "n1", WEB)
    view.put_check(NOW, "n1", replace(WEB_CHECK, status=CheckStatus.WARNING, output="slow"))
    alias = CheckDefinition(check_id="alias", alias_service="web1")
    assert verdict(view, "n1", alias) == (CheckStatus.WARNING, 'Aliased check "web check" failing: slow')


class NotWalked(SortedTable[str, Row[Check]]):
    def __iter__(self) -> Iterator[Row[Check]]:
        raise AssertionError("all checks of the node were looked at")


def instance_of(view: View) -> Instance:
    (instance,) = view.instances("web")
    return instance


def test_a_check_that_moves_to_another_service_leaves_the_first() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_service(NOW, "n1", replace(WEB, service_id="web2"))
    view.put_check(NOW, "n1", replace(WEB_CHECK, status=CheckStatus.CRITICAL))
    view.put_check(NOW, "n1", replace(WEB_CHECK, status=CheckStatus.CRITICAL, service_id="web2"))
    assert [each.status for each in view.instances("web")] == [CheckStatus.PASSING, CheckStatus.CRITICAL]


def test_an_address_finds_nodes_first_then_services_and_forgets_them() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", replace(WEB, address="127.0.0.1"))
    found = list(view.at_address("127.0.0.1"))
    assert [isinstance(each, CatalogHost) for each in found] == [True, False]
    view.put_node(NOW, "id-1", replace(NODE, address="127.0.0.9"))
    view.remove_service(NOW, "n1", "web1")
    assert list(view.at_address("127.0.0.1")) == []


def test_a_removed_node_takes_everything_on_it() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    view.put_check(NOW, "n1", WEB_CHECK)
    view.remove_node(NOW, "n1")
    assert (view.node("n1"), view.instances("web"), list(view.checks())) == (None, (), [])
    assert view.indexes.of(Topic(Family.NODE, "n1")) == view.index


def test_a_row_keeps_its_creation_and_never_changes_in_place() -> None:
    view = view_of_one()
    view.put_service(NOW, "n1", WEB)
    (instance,) = view.instances("web")
    row = instance.service
    view.put_service(NOW, "n1", replace(WEB, port=81))
    assert row.value.port == 80
    assert instance.service.create_index == row.create_index
    assert instance.service.modify_index > row.modify_index
