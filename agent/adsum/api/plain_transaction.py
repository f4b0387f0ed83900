"""Transactions as Consul's own clients spell them: operations on keys, with the names of Go's fields.

They are read by their types, in a quarter of the time that it takes to look for each field in all its
spellings. What is not spelled so, or wrong in any way, is left to whoever reads with care and knows the words
to refuse it with.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from adsum.transactions import KEY_READS, KeyOperation, KeyOperationVerb

KEY_VERBS = {verb.name.lower().replace("_", "-"): verb for verb in KeyOperationVerb}
UINT64_MAX = 2**64 - 1
OF_TREES = (KeyOperationVerb.DELETE_TREE, KeyOperationVerb.GET_TREE)


class _PlainFields(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    Verb: str
    Key: str = ""
    Value: bytes = b""
    Flags: int = 0
    Index: int = 0
    Session: str = ""


class _PlainOperation(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    KV: _PlainFields


_decode = msgspec.json.Decoder(list[_PlainOperation]).decode


def plain_operations(
    body: bytes, *, most: int, value_bytes_max: int
) -> tuple[tuple[KeyOperation, ...], bool] | None:
    """And whether one of them writes; None if the body has to be read with care."""
    try:
        listed = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(listed) > most:
        return None
    operations: list[KeyOperation] = []
    has_write = False
    for each in listed:
        fields = each.KV
        verb = KEY_VERBS.get(fields.Verb)
        if verb is None or len(fields.Value) > value_bytes_max or not (fields.Key or verb in OF_TREES):
            return None
        flags, index = fields.Flags, fields.Index
        if (flags or index) and not (0 <= flags <= UINT64_MAX and 0 <= index <= UINT64_MAX):
            return None
        has_write = has_write or verb not in KEY_READS
        operations.append(KeyOperation(verb, fields.Key.encode(), fields.Value, flags, index, fields.Session))
    return tuple(operations), has_write
