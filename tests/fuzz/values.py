"""Hostile values, one source for all doors; and `mutated`, which puts them into good inputs.

Every door first makes an input of the right shape, so that it opens, and then lets a few of its places be
replaced. So checks of form are passed by most, and what lies behind them meets one odd thing at a time. All
of it comes from one `Random`: a seed gives the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from tests.fuzz.trees import Cbor, Damaged, Known, Saved, parts_of, with_parts

T = TypeVar("T")

POWERS = (0, 8, 15, 16, 31, 32, 53, 63, 64, 65, 128)
DEPTHS = (2, 4, 31, 32, 33, 64, 200)
LENGTHS = (
    *(1, 7, 8, 9, 15, 16, 17, 44, 63, 64, 65, 127, 128, 129, 255, 256, 257),
    *(512, 513, 1_024, 1_025, 4_097),
)
PIECES = (
    *("", "a", "web", "lo", "0", "1", "-1", ".", "..", "/", "%", ":", "node", "consul", "service:", "_maint"),
    *("\0", " ", "\n", "\r\n", "\t", "\x1b[2J", "\u202e", "\u200b", "é", "e\u0301", "ｎ", "ß", "İ", "\ufffd"),
    *("\U0001f600", "'", '"', "\\", "{}", "${x}", "99999999999999999999", "4294967296", "x" * 63, "x" * 64),
)
LITERALS_4 = (
    *("0.0.0.0", "255.255.255.255", "127.0.0.1", "127.255.255.254", "224.0.0.1", "239.255.255.250"),
    *("192.0.2.1", "198.51.100.7", "10.0.0.256", "127.1", "0x7f.0.0.1", "1.2.3.4.5", "١٢٧.0.0.1"),
    "127.0.0.01",
)
LITERALS_6 = (
    *("::", "::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:0:0", "2001:db8::1", "fe80::"),
    *("64:ff9b::1", "0:0:0:0:0:0:0:1", "[::1]", ":::", "1:2:3:4:5:6:7:8:9"),
)
SCOPE_PIECES = ("lo", "\0", "a", " ", "0", "-1", "99999999999999999999", "%", "/", "é", "x" * 16)
NAMES = ("localhost", "example.invalid", "a", "-", "xn--", "consul", "unix", "None")
SMALL_PLACES = 12  # of a list that is made long by repeating it
SWITCHED_SHARE = 0.2  # of replacements that are of another type


class Values:
    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one_of(self, *makers: Callable[[], T]) -> T:
        return self.random.choice(makers)()

    def integer(self) -> int:
        power = 1 << self.random.choice(POWERS)
        return self.random.choice((power, power - 1, power + 1, -power, 0, 1, self.random.randrange(65_536)))

    def text(self) -> str:
        if self.chance(0.15):
            return self.host()
        if self.chance(0.1):
            return self.random.choice(PIECES[1:]) * self.random.choice((*LENGTHS, 10_000))
        return "".join(self.random.choices(PIECES, k=self.random.randint(1, 5)))

    def host(self) -> str:
        literal = self.random.choice(LITERALS_6 if self.chance(0.7) else LITERALS_4)
        match self.random.randrange(6):
            case 0:
                return self.random.choice(NAMES)
            case 1:
                return literal
            case 2:
                return "x" * self.random.choice((0, 63, 64, 65))
        return f"{literal}%{''.join(self.random.choices(SCOPE_PIECES, k=self.random.randint(0, 3)))}"

    def port(self) -> int:
        return self.random.choice((0, 1, 65_535, 65_536, -1, self.integer()))

    def octets(self) -> bytes:
        length = self.random.choice((0, *LENGTHS))
        return self.random.choice((bytes(length), b"\xff" * length, self.random.randbytes(length)))

    def deep(self) -> object:
        value: object = self.integer()
        for _ in range(self.random.choice(DEPTHS)):
            value = [value] if self.chance(0.5) else {"a": value}
        return value

    def long(self) -> object:
        return [self.random.choice((0, "", b"", [], None))] * self.random.choice((256, 256, 1_000, 4_097))

    def anything(self) -> object:
        makers: tuple[Callable[[], object], ...] = (
            *(self.integer, self.text, self.octets, self.host, self.deep, self.long),
            *(lambda: None, lambda: True, lambda: False, list, dict),
            *(lambda: self.random.choice((0.0, -0.0, 1e308, 1.5, float("inf"), float("nan"))),),
        )
        return self.one_of(*makers)

    # In the place of what was there.

    def instead_of(self, value: object) -> object:
        if self.chance(SWITCHED_SHARE):
            return self.anything()
        match value:
            case bool():
                return not value
            case int():
                return self.integer() if self.chance(0.8) else value + self.random.choice((-1, 1, 2, 1_000))
            case Known(name, _plus):
                return Known(name, self.random.choice((-1, 0, 1, 10_000, 86_400_001, 1 << 40, -(1 << 40))))
            case str():
                return self.text()
            case bytes():
                return self.octets()
            case list():
                return self._other_list(value)
            case dict():
                return {**value, self.text(): self.anything()}
            case Cbor() | Saved():
                return Damaged(value, self.changes())
        return self.anything()

    def _other_list(self, value: list[object]) -> list[object]:
        match self.random.randrange(5):
            case 0:
                return []
            case 1:
                return value + value
            case 2:
                return value[:-1]
            case 3:
                return [*value, self.anything()]
        return (value or [0]) * (5 if places(value) > SMALL_PLACES else self.random.choice((256, 300)))

    def seldom_damaged(self, value: object) -> object:
        return Damaged(value, self.changes()) if self.chance(0.05) else value

    def changes(self) -> tuple[tuple[int, int], ...]:
        random = self.random
        return tuple((random.randrange(1 << 16), random.randrange(256)) for _ in range(random.randint(1, 4)))

    def mutated(self, tree: object, *, times_max: int = 3) -> object:
        """With a few places replaced; one in four is left as it is, so that what follows has ground."""
        for _ in range(self.random.randint(0, times_max)):
            tree = self._mutated_once(tree, self.random.randrange(places(tree)))
        return tree

    def _mutated_once(self, tree: object, place: int) -> object:
        """Places are counted from the whole tree, 0, through its parts in their order."""
        if place == 0:
            return self.instead_of(tree) if self.chance(0.9) or not parts_of(tree) else tree
        place -= 1
        parts = parts_of(tree)
        for number, part in enumerate(parts):
            if place < places(part):
                changed = self._mutated_once(part, place)
                return with_parts(tree, [*parts[:number], changed, *parts[number + 1 :]])
            place -= places(part)
        raise AssertionError("a place is in one of the parts")


def places(tree: object) -> int:
    return 1 + sum(map(places, parts_of(tree)))
