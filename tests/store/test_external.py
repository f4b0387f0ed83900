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


def test_a_name_that_another_id_has_is_refused_to_who_is_renamed() -> None:
    table = table_of(node("one", "id-1"), node("two", "id-2"))
    assert table.why_not((node("two", "id-1"),)) == (
        'failed inserting node: Error while renaming Node ID: "id-1": '
        "Node name two is reserved by node id-2 with name two"
    )


def test_what_is_read_back_is_the_same() -> None:
    table = table_of(node("ext", "id-1"), service("ext", "web"), check("ext", "up", "web"))
    other = ExternalTable()
    other.load(list(table.rows.values()))
    assert (other.rows, other.bytes_total) == (table.rows, table.bytes_total)
    assert other.of_node("ext") == table.of_node("ext")
    assert other.take_touched() is None
