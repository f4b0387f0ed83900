"""Named tuples of `adsum.named` beside the standard library's, which is the oracle: both behave alike."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Mapping
from typing import Any

import pytest

import adsum.named


def declared(named_tuple: Any) -> type[Any]:
    class Place(named_tuple):  # type: ignore[misc]
        """Where something is."""

        x: int
        y: int = 0
        tags: Mapping[str, str] | None = None

        def __str__(self) -> str:
            return f"at {self.x}"

        @property
        def norm(self) -> int:
            return abs(self.x) + abs(self.y)

        @classmethod
        def nowhere(cls) -> Any:
            return cls(0)

    return Place


Place, Standard = declared(adsum.named.NamedTuple), declared(typing.NamedTuple)


class Known(adsum.named.NamedTuple):
    """Pickle finds it by its name."""

    name: str
    values: tuple[int, ...] = ()


@pytest.mark.parametrize("of", [Place, Standard], ids=["ours", "standard"])
def test_a_named_tuple_is_a_tuple_with_names_defaults_and_methods(of: type[Any]) -> None:
    place = of(3, -4)
    assert place == (3, -4, None)
    assert repr(place) == "Place(x=3, y=-4, tags=None)"
    assert (str(place), place.norm, of.nowhere().x) == ("at 3", 7, 0)
    assert place._replace(y=0, tags={"a": "b"}) == (3, 0, {"a": "b"})
    assert of._fields == ("x", "y", "tags")
    assert of._field_defaults == {"y": 0, "tags": None}
    assert (of.__doc__, of.__name__, of.__module__) == ("Where something is.", "Place", __name__)
    assert isinstance(place, tuple)
    assert list(of.__annotations__) == ["x", "y", "tags"]


def test_one_without_a_text_is_described_as_the_standard_one_is() -> None:
    def without_text(named_tuple: Any) -> type[Any]:
        class Point(named_tuple):  # type: ignore[misc]
            x: int

        return Point

    ours, standard = without_text(adsum.named.NamedTuple), without_text(typing.NamedTuple)
    assert ours.__doc__ == standard.__doc__
    assert ours.__dict__.keys() - {"__orig_bases__"} == standard.__dict__.keys() - {"__orig_bases__"}


@pytest.mark.parametrize("given", [(), (1, 2, {}, 4)], ids=["too few", "too many"])
def test_what_does_not_fit_is_refused_in_the_same_words(given: tuple[object, ...]) -> None:
    sentences = []
    for of in (Place, Standard):
        with pytest.raises(TypeError) as refused:
            of(*given)
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1]


def test_it_can_be_matched_copied_and_pickled() -> None:
    known = Known("a", (1, 2))
    match known:
        case Known(name, values):
            assert (name, values) == ("a", (1, 2))
    assert copy.deepcopy(known) == known
    unpickled = pickle.loads(pickle.dumps(known))
    assert type(unpickled) is Known
    assert unpickled == known


def test_its_annotations_stay_texts_that_can_be_worked_out() -> None:
    assert Known.__annotations__ == {"name": "str", "values": "tuple[int, ...]"}
    assert typing.get_type_hints(Known) == {"name": str, "values": tuple[int, ...]}
    assert str(inspect.signature(Known)) == "(name, values=())"
