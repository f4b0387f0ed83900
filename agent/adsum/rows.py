"""Positional CBOR, declared once: one table gives the bytes of a value and the value of bytes.

A row is an array: a number that says of which kind it is where several kinds share a place, then the fields
in their order. Decoding is strict: each field has exactly the type that its table says (a boolean is no
number) and its bounds; anything else is `BadEncoding`. Fields that a later version appends are ignored.

So a format grows at the end: a field with a default is left out as long as nothing but defaults would
follow, costs no byte then, and must not be there, for one value has one encoding.

A table is worked out when its module is loaded. For each row there is one comparison of all types, and a
call for each field that has more to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import cbor2

from adsum.cbor import BadEncoding
from adsum.frozen import getter
from adsum.named import NamedTuple

Made = TypeVar("Made")
REQUIRED = object()


class RowField(NamedTuple):
    name: str
    type_: type  # of what CBOR gives for it
    check: Callable[[Any], Any] | None = None  # what it means, or `BadEncoding`
    pack: Callable[[Any], Any] | None = None  # the other way, where CBOR has no such type
    default: object = REQUIRED
    range: tuple[int, int] | None = None  # of a counter: what it may be at least, and must be below


class RowCodec(Generic[Made]):
    def __init__(
        self,
        make: Callable[..., Made],
        *fields: RowField,
        kind: int | None = None,
        by_name: bool = False,
    ) -> None:
        """`make` gets the values in their order, or each by its name."""
        self.kind = kind
        self._make = make
        self._names = tuple(field.name for field in fields) if by_name else ()
        self._head = [] if kind is None else [kind]
        self._types = [field.type_ for field in fields]
        self._defaults = [field.default for field in fields if field.default is not REQUIRED]
        self._least = len(fields) - len(self._defaults)
        assert all(field.default is not REQUIRED for field in fields[self._least :]), "they come last"
        self._begin, self._end = len(self._head), len(self._head) + len(fields)
        self._checks = [(place, field.check) for place, field in enumerate(fields) if field.check]
        self._counters = [(place, *field.range) for place, field in enumerate(fields) if field.range]
        self._packs = [(place, field.pack) for place, field in enumerate(fields, self._begin) if field.pack]
        self._values_of = getter([field.name for field in fields])

    # To bytes.

    def encode(self, value: Made) -> bytes:
        return cbor2.dumps(self.row(self._values_of(value)))

    def bytes_of(self, *values: object) -> bytes:
        """Of values in their order; those that have a default may be missing."""
        return cbor2.dumps(self.row(values))

    def row_of(self, value: Made) -> list[object]:
        return self.row(self._values_of(value))

    def row(self, values: tuple[object, ...]) -> list[object]:
        row: list[Any] = [*self._head, *values]
        for place, pack in self._packs:
            row[place] = pack(row[place])
        spare = len(row) - self._begin - self._least  # how many of those that have a default are there
        while spare > 0 and row[-1] == self._defaults[spare - 1]:
            del row[-1]
            spare -= 1
        return row

    # And back.

    def decode(self, row: list[object], *also: object) -> Made:
        """What `make` makes of it, and of what it is given before."""
        if self.kind is not None and (not row or type(row[0]) is not int or row[0] != self.kind):
            raise BadEncoding("a row of another kind")
        return self.decode_kind(row, *also)

    def decode_kind(self, row: list[object], *also: object) -> Made:
        """Of one that is known to be of this kind."""
        values: list[Any] = row[self._begin : self._end]
        if self._defaults:
            given = len(values) - self._least
            if given > 0 and len(row) <= self._end and values[-1] == self._defaults[given - 1]:
                raise BadEncoding("a default that is said all the same")
            values += self._defaults[max(0, given) :]
        if [*map(type, values)] != self._types:
            raise BadEncoding("fields of other types than belong here")
        for place, least, below in self._counters:
            if not least <= values[place] < below:
                raise BadEncoding("a counter out of range")
        for place, check in self._checks:
            values[place] = check(values[place])
        if self._names:
            return self._make(*also, **dict(zip(self._names, values, strict=True)))
        return self._make(*also, *values)


class RowKinds(Generic[Made]):
    """Rows that share a place, told apart by the number before them."""

    def __init__(self, *tables: RowCodec[Any]) -> None:
        self._tables = {table.kind: table for table in tables}
        self._newest = max(table.kind or 0 for table in tables)

    def decode(self, row: list[object], *also: object) -> Made | None:
        """None is a kind that only a later version knows."""
        kind = row[0] if row else None
        if type(kind) is not int or (kind not in self._tables and kind <= self._newest):
            raise BadEncoding("a row of no kind")
        table = self._tables.get(kind)
        made: Made | None = table.decode_kind(row, *also) if table is not None else None
        return made


def values(*fields: Any) -> tuple[Any, ...]:
    """What is made of a row that needs no class."""
    return fields


# What fields may be.


def text(name: str, at_most: int | None = None, *, at_least: int = 0, default: object = REQUIRED) -> RowField:
    """Bounds are of its bytes; without the upper one it has none."""
    if at_most is None:
        return RowField(name, str, default=default)

    def check(value: str) -> str:
        length = len(value)
        if length < at_least or (4 * length > at_most and len(value.encode()) > at_most):
            raise BadEncoding("a text that is too long, or empty")
        return value

    return RowField(name, str, check, default=default)


def counter(name: str, below: int, *, at_least: int = 0, default: object = REQUIRED) -> RowField:
    return RowField(name, int, range=(at_least, below), default=default)


def number(name: str) -> RowField:
    return RowField(name, int)


def flag(name: str) -> RowField:
    return RowField(name, bool)


def octets(name: str, at_most: int | None = None, *, at_least: int = 0) -> RowField:
    if at_most is None:
        return RowField(name, bytes)

    def check(value: bytes) -> bytes:
        if not at_least <= len(value) <= at_most:
            raise BadEncoding("bytes of a wrong length")
        return value

    return RowField(name, bytes, check)


def exactly(name: str, length: int) -> RowField:
    return octets(name, length, at_least=length)


def choice(name: str, values: Mapping[int, object]) -> RowField:
    """One of these, by its number."""
    numbers = {value: each for each, value in values.items()}

    def check(value: int) -> object:
        if value not in values:
            raise BadEncoding("a number that means nothing")
        return values[value]

    return RowField(name, int, check, numbers.__getitem__)


def listed(name: str, of: RowField, at_most: int | None = None, *, at_least: int = 0) -> RowField:
    """A tuple of values that are all like this field."""
    types, each, pack_each = [of.type_], _check(of), of.pack

    def check(values: list[Any]) -> tuple[Any, ...]:
        count = len(values)
        if count < at_least or (at_most is not None and count > at_most):
            raise BadEncoding("a list of a wrong length")
        if list(map(type, values)) != types * count:
            raise BadEncoding("a list with something else in it")
        return tuple(map(each, values) if each is not None else values)

    pack = None if pack_each is None else lambda values: list(map(pack_each, values))
    return RowField(name, list, check, pack)  # without one a tuple of values is an array as it is


def mapped(name: str, of: RowField | None = None) -> RowField:
    """Values by text; texts, unless a field says what else."""
    of = of or text("")
    types, each = [of.type_], _check(of)

    def check(values: dict[Any, Any]) -> dict[str, Any]:
        count = len(values)
        if list(map(type, values)) != [str] * count or list(map(type, values.values())) != types * count:
            raise BadEncoding("a map with something else in it")
        return {key: each(value) for key, value in values.items()} if each is not None else values

    def pack(values: Mapping[str, object]) -> dict[str, object]:
        return values if type(values) is dict else dict(values)

    return RowField(name, dict, check, pack)


def inside(name: str, table: RowCodec[Any]) -> RowField:
    """A row in the row."""
    return RowField(name, list, table.decode, table.row_of)


def _check(field: RowField) -> Callable[[Any], Any] | None:
    if field.range is None:
        return field.check
    least, below = field.range

    def check(value: int) -> int:
        if not least <= value < below:
            raise BadEncoding("a counter out of range")
        return value

    return check
