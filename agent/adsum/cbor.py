"""CBOR as agents speak it: no tags, no indefinite lengths, little depth. Anything else is a peer's fault.

What is carried on (claims, items) has one encoding for one value, or variants of one message would fill
memories that go by bytes.

cbor2 knows how to build objects from some twenty tags, among them patterns and network addresses, whose
parsers are slow or worse when an attacker writes their input; none of them belongs into what agents say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import cbor2

DEPTH_MAX = 3


class BadEncoding(ValueError):
    """The sender's fault; counted and dropped, nothing changed."""


def _refuse_tag(*_arguments: object) -> object:
    raise BadEncoding("a tag")


_TAGS = (*range(6), 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1_004, 43_000, 55_799)
NO_TAGS: Mapping[int, Callable[..., object]] = dict.fromkeys(_TAGS, _refuse_tag)
NO_TAGS_BUT_BIG_NUMBERS = {tag: refuse for tag, refuse in NO_TAGS.items() if tag not in (2, 3)}


def strict_loads(
    encoded: bytes, *, depth_max: int = DEPTH_MAX, refused: Mapping[int, Callable[..., object]] = NO_TAGS
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
        raise BadEncoding("not the CBOR we speak") from error


def canonical_array(encoded: bytes) -> list[object]:
    fields = strict_loads(encoded)
    if not isinstance(fields, list) or cbor2.dumps(fields) != encoded:
        raise BadEncoding("not a canonical array")
    if fields and type(fields[0]) is bool:  # which would pass for the number that says what it is
        raise BadEncoding("unknown shape")
    return fields
