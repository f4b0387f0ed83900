"""Classes of `adsum.mutable` beside the standard library's, which is the oracle: both must behave alike."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

import adsum.mutable
from adsum.frozen import BEFORE_COMPILING


def declared(dataclass: Any) -> tuple[type[Any], type[Any], type[Any]]:
    @dataclass(slots=True)
    class Counters:
        dropped: int = 0
        by_kind: dict[str, int] = field(default_factory=dict)
        last: str = field(default="", repr=False, compare=False)

    @dataclass(slots=True, kw_only=True)
    class Found:
        """What a search found."""

        name: str
        ages: list[int] = field(default_factory=list)

    @dataclass(slots=True, eq=False)
    class Run:
        number: int

    return Counters, Found, Run


STANDARD = declared(dataclasses.dataclass)
Classes = tuple[type[Any], type[Any], type[Any]]


@adsum.mutable.dataclass(slots=True)
class Known:
    """Pickle finds it by its name."""

    name: str
    count: int = 0


def counted(classes: Classes) -> Any:
    counters = classes[0](2, last="x")
    counters.dropped += 1
    counters.by_kind["a"] = 1
    return counters


def found(classes: Classes) -> Any:
    return classes[1](name="a")


def is_hashed_by_identity(classes: Classes) -> bool:
    run = classes[2](1)
    return {run: "found"}.get(run) == "found" and classes[2](1) not in {run: "found"}


ASKED: dict[str, Callable[[Classes], object]] = {
    "repr": lambda of: repr(counted(of)),
    "equal": lambda of: counted(of) == counted(of),
    "unequal": lambda of: counted(of) == of[0](),
    "not compared": lambda of: of[0](last="x") == of[0](last="y"),
    "not compared at all": lambda of: of[2](1) == of[2](1),
    "another class": lambda of: of[0]() == (0, {}),
    "no hash": lambda of: of[0].__hash__,
    "hash by identity": is_hashed_by_identity,
    "asdict": lambda of: dataclasses.asdict(counted(of)),
    "replace": lambda of: repr(dataclasses.replace(counted(of), dropped=7)),
    "fields": lambda of: [each.name for each in dataclasses.fields(of[0])],
    "slots": lambda of: (of[0].__slots__, hasattr(of[0](), "__dict__")),
    "pattern": lambda of: (of[0].__match_args__, of[1].__match_args__),
    "signature, once it is compiled": lambda of: (
        [found(of) for _ in range(BEFORE_COMPILING + 1)],
        str(inspect.signature(of[1])),
    )[1],
    "copy": lambda of: repr(copy.copy(counted(of))),
    "deep copy": lambda of: copy.deepcopy(counted(of)).by_kind,
    "default made anew": lambda of: found(of).ages is found(of).ages,
    "doc": lambda of: of[1].__doc__,
}

REFUSED: dict[str, Callable[[Classes], object]] = {
    "a field it has not": lambda of: setattr(of[0](), "drooped", 2),
    "missing": lambda of: of[2](),
    "unknown": lambda of: of[2](1, z=2),
    "by position": lambda of: of[1]("a"),
    "hash": lambda of: hash(of[0]()),
}


def made_before(instances: int) -> Classes:
    """Classes of which so many instances were made: `__init__` is compiled for the ninth."""
    ours = declared(adsum.mutable.dataclass)
    for _ in range(instances):
        counted(ours), found(ours), ours[2](1)
    return ours


@pytest.mark.parametrize("instances", [0, 1, BEFORE_COMPILING, BEFORE_COMPILING + 1])
@pytest.mark.parametrize("asked", ASKED)
def test_says_what_the_standard_library_says(asked: str, instances: int) -> None:
    assert ASKED[asked](made_before(instances)) == ASKED[asked](STANDARD)


@pytest.mark.parametrize("instances", [0, 1, BEFORE_COMPILING, BEFORE_COMPILING + 1])
@pytest.mark.parametrize("refused", REFUSED)
def test_refuses_what_the_standard_library_refuses(refused: str, instances: int) -> None:
    ours_made = made_before(instances)
    with pytest.raises((TypeError, AttributeError)) as standard:
        REFUSED[refused](STANDARD)
    with pytest.raises(standard.type) as ours:
        REFUSED[refused](ours_made)
    assert str(ours.value) == str(standard.value)


def test_what_changed_travels_through_pickle() -> None:
    known = Known("a")
    known.count = 3
    assert pickle.loads(pickle.dumps(known)) == Known("a", 3)


def test_methods_of_the_class_itself_are_kept() -> None:
    @adsum.mutable.dataclass(slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

        def __eq__(self, other: object) -> bool:
            return other == self.name

    assert (repr(Named("a")), Named("a") == "a") == ("a", True)
