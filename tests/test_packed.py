"""What is read from MessagePack, by type."""

from __future__ import annotations

import pytest
from msgspec import Struct, ValidationError
from msgspec.msgpack import encode

from adsum.packed import decoder


class Place(Struct, frozen=True, array_like=True, tag=1):
    x: int
    y: int = 0


class Nowhere(Struct, frozen=True, array_like=True, tag=2):
    pass


class Unfinished(Struct):
    where: NotYetKnown  # type: ignore[name-defined]  # noqa: F821


def test_one_type_or_several_are_read_and_nothing_else() -> None:
    assert decoder(Place)(encode(Place(3, 4))) == Place(3, 4)
    read = decoder(Place | Nowhere)
    assert [read(encode(each)) for each in (Place(3), Nowhere(), Place(5))] == [Place(3), Nowhere(), Place(5)]
    with pytest.raises(ValidationError):
        decoder(Place)(encode(Nowhere()))


def test_nobody_works_out_what_a_type_looks_like_before_the_first_of_it_comes() -> None:
    read = decoder(Unfinished)
    with pytest.raises(NameError):
        read(b"\x80")
