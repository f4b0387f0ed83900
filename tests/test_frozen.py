"""Classes of `adsum.frozen` beside the standard library's, which is the oracle: both must behave alike."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, field
from typing import Any

import pytest

import adsum.frozen
from adsum.frozen import BEFORE_COMPILING


def declared(dataclass: Any) -> tuple[type[Any], type[Any], type[Any]]:
    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 0

        @property
        def norm(self) -> int:
            return abs(self.x) + abs(self.y)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Place:
        """Where something is."""

        at: Point
        secret: str = field(default="", repr=False)
        seen: int = field(default=0, compare=False)
        tags: Mapping[str, str] = field(default_factory=dict)

        def __str__(self) -> str:
            return f"at {self.at.x}"

    return Empty, Point, Place


OURS, STANDARD = declared(adsum.frozen.dataclass), declared(dataclasses.dataclass)
Classes = tuple[type[Any], type[Any], type[Any]]


@adsum.frozen.dataclass(frozen=True, slots=True)
class Known:
    """Pickle finds it by its name."""

    name: str
    values: tuple[int, ...] = ()


def place(classes: Classes, x: int = 1, **others: Any) -> Any:
    _, point, kind = classes
    return kind(at=point(x), **others)


ASKED: dict[str, Callable[[Classes], object]] = {
    "repr": lambda of: repr(place(of, secret="s", tags={"a": "b"})),
    "str": lambda of: str(place(of)),
    "empty": lambda of: (repr(of[0]()), of[0]() == of[0](), hash(of[0]())),
    "equal": lambda of: place(of) == place(of),
    "unequal": lambda of: place(of) == place(of, 2),
    "not compared": lambda of: place(of, seen=1) == place(of, seen=2),
    "another class": lambda of: of[1](1, 2) == (1, 2),
    "hash": lambda of: hash(of[1](1, 2)),
    "property": lambda of: of[1](1, -2).norm,
    "replace": lambda of: repr(dataclasses.replace(place(of), seen=7)),
    "our replace": lambda of: repr(adsum.frozen.replace(place(of), seen=7, tags={"a": "b"})),
    "asdict": lambda of: dataclasses.asdict(place(of)),
    "fields": lambda of: [each.name for each in dataclasses.fields(of[2])],
    "pattern": lambda of: (of[1].__match_args__, of[2].__match_args__),
    "slots": lambda of: (of[1].__slots__, of[2].__slots__, hasattr(of[1](1), "__dict__")),
    "signature, once it is compiled": lambda of: (
        [place(of) for _ in range(BEFORE_COMPILING + 1)],
        str(inspect.signature(of[2])),
    )[1],
    "copy": lambda of: repr(copy.copy(place(of))),
    "deep copy": lambda of: copy.deepcopy(place(of, tags={"a": "b"})).tags,
    "default made anew": lambda of: place(of).tags is place(of).tags,
    "doc": lambda of: of[2].__doc__,
    "by name": lambda of: repr(of[1](y=1, x=2)),
}

REFUSED: dict[str, Callable[[Classes], object]] = {
    "set": lambda of: setattr(of[1](1), "x", 2),
    "delete": lambda of: delattr(of[1](1), "x"),
    "missing": lambda of: of[1](),
    "unknown": lambda of: of[1](1, z=2),
    "too many": lambda of: of[1](1, 2, 3),
    "twice": lambda of: of[1](1, x=2),
    "by position": lambda of: of[2](of[1](1)),
    "hash of a dict": lambda of: hash(place(of)),
    "replace what is no field": lambda of: adsum.frozen.replace(place(of), z=2),
}


def made_before(instances: int) -> Classes:
    """Classes of which so many instances were made: `__init__` is compiled for the ninth."""
    ours = declared(adsum.frozen.dataclass)
    for _ in range(instances):
        ours[0](), place(ours)
    return ours


@pytest.mark.parametrize("instances", [0, 1, BEFORE_COMPILING, BEFORE_COMPILING + 1])
@pytest.mark.parametrize("asked", ASKED)
def test_says_what_the_standard_library_says(asked: str, instances: int) -> None:
    assert ASKED[asked](made_before(instances)) == ASKED[asked](STANDARD)


@pytest.mark.parametrize("instances", [0, 1, BEFORE_COMPILING, BEFORE_COMPILING + 1])
@pytest.mark.parametrize("refused", REFUSED)
def test_refuses_what_the_standard_library_refuses(refused: str, instances: int) -> None:
    ours_made = made_before(instances)
    with pytest.raises((TypeError, FrozenInstanceError)) as standard:
        REFUSED[refused](STANDARD)
    with pytest.raises(standard.type) as ours:
        REFUSED[refused](ours_made)
    assert str(ours.value) == str(standard.value)


def test_values_travel_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(Known("a", (1, 2)))) == Known("a", (1, 2))


def test_a_value_of_another_class_is_another_value() -> None:
    assert OURS[1](1, 2) != STANDARD[1](1, 2)
