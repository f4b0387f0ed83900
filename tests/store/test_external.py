"""Nodes without an agent, as the store keeps them."""

from __future__ import annotations

from adsum.external import ExternalItem, ExternalKind
from adsum.store.external import NO_NODE, ExternalTable, Touched

NODE, SERVICE, CHECK = ExternalKind.NODE, ExternalKind.SERVICE, ExternalKind.CHECK


def node(name: str, node_id: str = "", row: bytes = b"n") -> ExternalItem:
    return ExternalItem(NODE, name, "", row, node_id=node_id)


def service(name: str, id_: str, row: bytes = b"s") -> ExternalItem:
    return ExternalItem(SERVICE, name, id_, row)


def check(name: str, id_: str, service_id: str = "", status: str = "passing") -> ExternalItem:
    return ExternalItem(CHECK, name, id_, b"c", service_id=service_id, status=status)


def table_of(*items: ExternalItem) -> ExternalTable:
    table = ExternalTable()
    for item in items:
        assert table.why_not((item,)) == ""
        table.put(item, revision=7, wall_ms=1_000)
    return table


def test_a_service_stands_on_a_node_that_is_there_or_comes_with_it() -> None:
    table = ExternalTable()
    assert table.why_not((service("ext", "web"),)) == NO_NODE
    assert table.why_not((service("ext", "web"), node("EXT"))) == ""


def test_a_check_of_a_service_that_is_not_there_is_refused_in_consuls_words() -> None:
    table = table_of(node("ext"))
    refusal = table.why_not((check("ext", "up", "web"),))
    assert refusal == 'failed inserting check: Missing service registration on node "ext"'


def test_what_is_registered_again_as_it_is_changes_nothing() -> None:
    table = table_of(node("ext"), service("ext", "web"))
    assert not table.put(service("Ext", "web"), revision=9, wall_ms=2_000)
    assert not table.put(node("ext"), revision=9, wall_ms=2_000)
    assert (table.version, table.revision, table.generation) == (2, 7, 1_000)


def test_a_check_that_says_something_else_moves_only_what_it_says() -> None:
    table = table_of(node("ext"), check("ext", "up"))
    table.take_touched()
    row = table.rows["ext", CHECK, "up"]
    assert (row.number, row.state_number) == (2, 3)
    table.put(check("ext", "up", status="critical"), revision=8, wall_ms=2_000)
    assert table.take_touched() == {3: Touched(4, ("ext", CHECK, "up"))}


def test_a_service_goes_with_its_checks_and_their_numbers_are_given_out_again() -> None:
    table = table_of(node("ext"), service("ext", "web"), check("ext", "up", "web"), check("ext", "disk"))
    table.take_touched()
    assert table.remove("EXT", "web", "", revision=8)
    assert [item.id for item in table.of_node("ext")] == ["", "disk"]
    assert table.take_touched() == {2: Touched(7, None), 3: Touched(8, None), 4: Touched(9, None)}
    table.put(service("ext", "db"), revision=9, wall_ms=3_000)
    assert table.rows["ext", SERVICE, "db"].number == 2
    assert not table.remove("ext", "web", "", revision=10)


def test_a_node_that_is_renamed_leaves_behind_what_was_on_it() -> None:
    table = table_of(node("old", "id-1"), service("old", "web"))
    table.put(node("new", "id-1"), revision=8, wall_ms=2_000)
    assert table.of_node("old") == []
    assert [item.node for item in table.of_node("new")] == ["new"]


def test_the_name_of_a_node_that_is_well_is_not_taken_over() -> None:
    """As in Consul: by the check of an agent, which a node without one may have all the same."""
    refusal = (
        'failed inserting node: Error while renaming Node ID: "{}": '
        "Node name two is reserved by node id-2 with name two"
    )
    table = table_of(node("one", "id-1"), node("two", "id-2"))
    renamed, newcomer = node("two", "id-1"), node("two", "id-3")
    assert [table.why_not((each,)) for each in (renamed, newcomer)] == ["", ""]
    table.put(check("two", "serfHealth"), 8, 0)
    assert table.why_not((renamed,)) == refusal.format("id-1")
    assert table.why_not((newcomer,)) == refusal.format("id-3")
    assert table.why_not((node("two", "id-2"), node("two"))) == ""
    table.put(check("two", "serfHealth", status="critical"), 9, 0)
    assert [table.why_not((each,)) for each in (renamed, newcomer)] == ["", ""]


def test_an_id_that_was_taken_from_a_name_says_nothing_of_it_any_more() -> None:
    table = table_of(node("ext", "id-1"), service("ext", "web"))
    table.put(node("ext", "id-2"), 8, 0)
    table.put(node("other", "id-1"), 9, 0)
    assert [item.id for item in table.of_node("ext")] == ["", "web"]


def test_a_node_that_is_renamed_was_created_when_it_was() -> None:
    table = table_of(node("old", "id-1"))
    table.put(node("new", "id-1"), 8, 0)
    found = table.get("new", NODE)
    assert found is not None
    assert (found.create, found.modify) == (7, 8)


def test_what_is_read_back_is_the_same() -> None:
    table = table_of(node("ext", "id-1"), service("ext", "web"), check("ext", "up", "web"))
    other = ExternalTable()
    other.load(list(table.rows.values()))
    other.load_counted(table.counted())
    assert (other.rows, other.bytes_total) == (table.rows, table.bytes_total)
    assert other.standing() == table.standing()
    assert other.of_node("ext") == table.of_node("ext")
    assert other.take_touched() is None
