"""Inputs as data: what was sent can be kept in a file, a line each, and sent again to other agents.

An input is a tree of plain values. A few kinds of node stand for bytes that are made when it is sent, so that
a cluster with other ports, at another time, gets the same input and not a stale one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cbor2

from adsum.catalog.saved import sealed


@dataclass(frozen=True, slots=True)
class Input:
    door: str
    agent: int  # of the cluster, by its place
    content: object


@dataclass(frozen=True, slots=True)
class Cbor:
    """The bytes of a value."""

    value: object


@dataclass(frozen=True, slots=True)
class Saved:
    """The bytes of a value with the checksum that saved files have."""

    value: object


@dataclass(frozen=True, slots=True)
class Known:
    """A number that is only known when it is sent: the time, a port, what was asked."""

    name: str
    plus: int = 0


@dataclass(frozen=True, slots=True)
class Damaged:
    """The bytes of another node with some of them replaced: (place, byte), the place modulo the length."""

    value: object
    changes: tuple[tuple[int, int], ...]


def built(tree: object, known: Mapping[str, int]) -> Any:
    match tree:
        case Cbor(value):
            return cbor2.dumps(built(value, known))
        case Saved(value):
            return sealed(built(value, known))
        case Known(name, plus):
            return known[name] + plus
        case Damaged(value, changes):
            return _damaged(built(value, known), changes)
        case list() | tuple():
            return [built(each, known) for each in tree]
        case dict():
            return {key: built(value, known) for key, value in tree.items()}
    return tree


def _damaged(whole: bytes, changes: tuple[tuple[int, int], ...]) -> bytes:
    data = bytearray(whole)
    for place, byte in changes:
        if data:
            data[place % len(data)] = byte
    return bytes(data)


def parts_of(tree: object) -> list[object]:
    match tree:
        case list() | tuple():
            return list(tree)
        case dict():
            return list(tree.values())
        case Cbor(value) | Saved(value):
            return [value]
    return []


def with_parts(tree: object, parts: list[object]) -> object:
    match tree:
        case dict():
            return dict(zip(tree, parts, strict=True))
        case Cbor():
            return Cbor(*parts)
        case Saved():
            return Saved(*parts)
    return parts


def without_one(tree: object) -> Iterator[object]:
    """The tree with one of its greater parts left out, each once; those that hold most come first."""
    parts = parts_of(tree)
    if isinstance(tree, list):
        for number, part in enumerate(parts):
            if parts_of(part):
                yield [*parts[:number], *parts[number + 1 :]]
    for number, part in enumerate(parts):
        for smaller in without_one(part):
            yield with_parts(tree, [*parts[:number], smaller, *parts[number + 1 :]])


def line_of(each: Input) -> str:
    return json.dumps([each.door, each.agent, _as_json(each.content)])


def read_line(line: str) -> Input:
    door, agent, content = json.loads(line)
    return Input(door, agent, _from_json(content))


def _as_json(tree: object) -> object:
    match tree:
        case bytes():
            return {"bytes": tree.hex()}
        case Cbor(value):
            return {"cbor": _as_json(value)}
        case Saved(value):
            return {"saved": _as_json(value)}
        case Known(name, plus):
            return {"known": [name, plus]}
        case Damaged(value, changes):
            return {"damaged": [_as_json(value), changes]}
        case list() | tuple():
            return [_as_json(each) for each in tree]
        case dict():
            return {"map": [[_as_json(key), _as_json(value)] for key, value in tree.items()]}
    return tree


def _from_json(value: object) -> object:
    match value:
        case {"bytes": str(octets)}:
            return bytes.fromhex(octets)
        case {"cbor": inner}:
            return Cbor(_from_json(inner))
        case {"saved": inner}:
            return Saved(_from_json(inner))
        case {"known": [str(name), int(plus)]}:
            return Known(name, plus)
        case {"damaged": [inner, list(changes)]}:
            return Damaged(_from_json(inner), tuple((place, byte) for place, byte in changes))
        case {"map": list(pairs)}:
            return {_from_json(key): _from_json(inner) for key, inner in pairs}
        case list():
            return [_from_json(each) for each in value]
    return value
