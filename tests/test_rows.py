from __future__ import annotations

import cbor2
import pytest

from adsum import frozen
from adsum.cbor import BadEncoding
from adsum.rows import (
    RowCodec,
    RowField,
    RowKinds,
    choice,
    counter,
    exactly,
    flag,
    inside,
    listed,
    mapped,
    number,
    text,
)


@frozen.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int


@frozen.dataclass(frozen=True, slots=True)
class Ship:
    name: str
    crew: int
    flags: tuple[str, ...]
    at: Point
    is_afloat: bool
    note: str = ""
    seal: bytes = b""


POINT = RowCodec(Point, number("x"), number("y"))
SHIP = RowCodec(
    Ship,
    text("name", 8, at_least=1),
    counter("crew", 100, at_least=1),
    listed("flags", text("", 4), 2),
    inside("at", POINT),
    flag("is_afloat"),
    text("note", default=""),
    RowField("seal", bytes, default=b""),
    kind=3,
    by_name=True,
)
ARGO = Ship("Argo", 50, ("red",), Point(1, -2), is_afloat=True)
ROW: list[object] = [3, "Argo", 50, ["red"], [1, -2], True]


def test_a_value_becomes_a_row_in_the_order_of_its_table_and_comes_back() -> None:
    assert cbor2.loads(SHIP.encode(ARGO)) == ROW
    assert SHIP.decode(list(ROW)) == ARGO


def test_fields_with_a_default_cost_nothing_until_something_is_said() -> None:
    sealed = Ship("Argo", 50, (), Point(0, 0), is_afloat=False, seal=b"wax!")
    row = cbor2.loads(SHIP.encode(sealed))
    assert row == [3, "Argo", 50, [], [0, 0], False, "", b"wax!"]
    assert SHIP.decode(row) == sealed
    noted = Ship("Argo", 50, (), Point(0, 0), is_afloat=False, note="leaks")
    row = cbor2.loads(SHIP.encode(noted))
    assert row == [3, "Argo", 50, [], [0, 0], False, "leaks"]
    assert SHIP.decode(row) == noted


@pytest.mark.parametrize("said", [[""], ["", b""], ["leaks", b""]])
def test_one_value_has_one_row(said: list[object]) -> None:
    with pytest.raises(BadEncoding):
        SHIP.decode([*ROW, *said])


def test_a_default_is_said_where_a_later_version_has_more_to_say() -> None:
    assert SHIP.decode([*ROW, "", b"", "later"]) == ARGO


NOT_IN_THIS_PLACE: dict[int, list[object]] = {
    0: [2, "3", True, 3.0, None],
    1: ["", "Argonauts", "äöüßÄ", b"Argo"],
    2: [0, 100, True, 5.0],
    3: [[1], ["red", "blue", "green"], ["purple"], "red", {}],
    4: [[1], [1, True], {}, None],
    5: [1],
}


@pytest.mark.parametrize(
    ("place", "value"), [(place, value) for place, values in NOT_IN_THIS_PLACE.items() for value in values]
)
def test_what_its_table_does_not_say_is_refused(place: int, value: object) -> None:
    with pytest.raises(BadEncoding):
        SHIP.decode([*ROW[:place], value, *ROW[place + 1 :]])


@pytest.mark.parametrize("length", range(6))
def test_a_row_that_ends_early_is_refused(length: int) -> None:
    with pytest.raises(BadEncoding):
        SHIP.decode(ROW[:length])


def test_a_choice_travels_as_its_number() -> None:
    table = RowCodec(tuple[str], choice("colour", {1: "red", 5: "blue"}))
    assert table.bytes_of("blue") == cbor2.dumps([5])
    assert RowCodec(str, choice("colour", {1: "red", 5: "blue"})).decode([5]) == "blue"
    with pytest.raises(BadEncoding):
        table.decode([2])


def test_a_map_has_texts_for_keys_and_one_kind_of_values() -> None:
    def pair(values: list[object]) -> tuple[object, ...]:
        return tuple(values)

    plain: RowCodec[object] = RowCodec(dict, mapped("meta"))
    pairs: RowCodec[object] = RowCodec(dict, mapped("meta", RowField("", list, pair)))
    assert plain.decode([{"a": "b"}]) == {"a": "b"}
    assert pairs.decode([{"a": ["b", 1]}]) == {"a": ("b", 1)}
    for wrong in ({1: "b"}, {"a": 1}, {b"a": "b"}, ["a"]):
        with pytest.raises(BadEncoding):
            plain.decode([wrong])


def test_bytes_are_of_their_length() -> None:
    table = RowCodec(bytes, exactly("short", 8))
    assert table.decode([b"12345678"]) == b"12345678"
    for wrong in (b"1234567", b"123456789", "12345678"):
        with pytest.raises(BadEncoding):
            table.decode([wrong])


def test_numbers_in_a_list_have_their_bounds_too() -> None:
    table = RowCodec(tuple, listed("numbers", counter("", 10), 3, at_least=1))
    assert table.decode([[1, 9]]) == (1, 9)
    for wrong in ([], [10], [-1], [1, 2, 3, 4], [True]):
        with pytest.raises(BadEncoding):
            table.decode([wrong])


def test_kinds_are_told_apart_and_those_of_later_versions_passed_over() -> None:
    kinds: RowKinds[Point | Ship] = RowKinds(RowCodec(Point, number("x"), number("y"), kind=1), SHIP)
    assert kinds.decode([1, 4, 5]) == Point(4, 5)
    assert kinds.decode(list(ROW)) == ARGO
    assert kinds.decode([4, "whatever"]) is None
    nonsense: list[list[object]] = [[], [0, 4, 5], [2], [True, 4, 5], [-1], ["Argo"], [1.0, 4, 5]]
    for wrong in nonsense:
        with pytest.raises(BadEncoding):
            kinds.decode(wrong)


def test_what_a_row_is_made_of_may_be_given_beside_it() -> None:
    table = RowCodec(lambda encoded, x: (encoded, x), number("x"))
    assert table.decode([4], b"\x81\x04") == (b"\x81\x04", 4)
