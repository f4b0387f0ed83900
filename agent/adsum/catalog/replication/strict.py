"""CBOR as replication speaks it: one encoding for one value, no tags, no indefinite lengths, no depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import cbor2


class BadBytes(ValueError):
    """The sender's fault; counted and dropped, nothing changed."""


def _refuse_tag(*_arguments: object) -> object:
    raise BadBytes("a tag")


# All tags that cbor2 knows how to build objects from; none of them belongs here.
_TAGS = (*range(6), 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1_004, 43_000, 55_799)
_NO_TAGS = dict.fromkeys(_TAGS, _refuse_tag)
_NO_TAGS_BUT_BIG_NUMBERS = {tag: refuse for tag, refuse in _NO_TAGS.items() if tag not in (2, 3)}


def loads(encoded: bytes) -> list[object]:
    """A canonical array; variants of one message would else fill memories that go by bytes."""
    fields = _loads(encoded, depth_max=3)
    if not isinstance(fields, list) or cbor2.dumps(fields) != encoded:
        raise BadBytes("not a canonical array")
    if fields and type(fields[0]) is bool:  # which would pass for the number that says what it is
        raise BadBytes("unknown shape")
    return fields


def settings(encoded: bytes, *, depth_max: int) -> dict[str, object]:
    """A map that JSON can say: it is carried for clients, and one value they cannot be told would cost them
    the whole answer."""
    value = _loads(encoded, depth_max=depth_max, refused=_NO_TAGS_BUT_BIG_NUMBERS)
    if not isinstance(value, dict) or not _is_json(value):
        raise BadBytes("settings that are none")
    return value


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or type(value) in _SCALARS


_SCALARS = (str, int, float, bool)


def _loads(
    encoded: bytes, *, depth_max: int, refused: Mapping[int, Callable[..., object]] = _NO_TAGS
) -> object:
    try:
        return cbor2.loads(
            encoded,
            max_depth=depth_max,
            allow_indefinite=False,
            strict_hashable_types=True,
            semantic_decoders=refused,
            tag_hook=_refuse_tag,
        )
    except (cbor2.CBORDecodeError, ValueError, MemoryError) as error:
        raise BadBytes("not the CBOR we speak") from error


def counter(value: object, below: int, *, at_least: int = 0) -> int:
    if type(value) is not int or not at_least <= value < below:
        raise BadBytes("a counter out of range")
    return value


def octets(value: object, *, at_least: int = 0, at_most: int) -> bytes:
    if type(value) is not bytes or not at_least <= len(value) <= at_most:
        raise BadBytes("bytes of a wrong length")
    return value
