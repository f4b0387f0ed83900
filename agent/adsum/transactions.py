"""Transactions, in the words that all share: operations in order, each seeing those before it, all done or
none.

What fails is told with its place, and all that fail are told. Verbs are Consul's; others are refused before.
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.msgpack import Encoder

from adsum.external import ExternalItem
from adsum.kv import KeyRecord
from adsum.packed import decoder


class KeyOperationVerb(enum.IntEnum):
    SET = 0
    CAS = 1
    LOCK = 2
    UNLOCK = 3
    GET = 4
    GET_TREE = 5
    CHECK_INDEX = 6
    CHECK_SESSION = 7
    CHECK_NOT_EXISTS = 8
    DELETE = 9
    DELETE_TREE = 10
    DELETE_CAS = 11
    GET_OR_EMPTY = 12


class EntryVerb(enum.IntEnum):
    """Of nodes, services and checks."""

    GET = 0
    SET = 1
    CAS = 2
    DELETE = 3
    DELETE_CAS = 4


class KeyOperation(Struct, frozen=True, gc=False, array_like=True, tag=1):
    verb: KeyOperationVerb
    key: bytes
    value: bytes = b""
    flags: int = 0
    index: int = 0
    session: str = ""


class EntryOperation(Struct, frozen=True, array_like=True, tag=2):
    """On a node, a service or a check that has no agent."""

    verb: EntryVerb
    item: ExternalItem  # what is to be; `modify` is the index that cas compares with


Operation = KeyOperation | EntryOperation

KEY_READS = (
    *(KeyOperationVerb.GET, KeyOperationVerb.GET_TREE, KeyOperationVerb.GET_OR_EMPTY),
    *(KeyOperationVerb.CHECK_INDEX, KeyOperationVerb.CHECK_SESSION, KeyOperationVerb.CHECK_NOT_EXISTS),
)


def is_read(operation: Operation) -> bool:
    if isinstance(operation, KeyOperation):
        return operation.verb in KEY_READS
    return operation.verb is EntryVerb.GET


class KeyResult(Struct, frozen=True, gc=False, array_like=True, tag=1):
    key: bytes
    record: KeyRecord | None  # None: there is none, which only `get-or-empty` tells so
    shows_value: bool = True  # a write's is not repeated


class EntryResult(Struct, frozen=True, array_like=True, tag=2):
    item: ExternalItem


Result = KeyResult | EntryResult


class OperationError(Struct, frozen=True, array_like=True):
    place: int
    sentence: str  # Consul's, on which clients dispatch


class TransactionAnswer(Struct, frozen=True, array_like=True):
    """Results of a transaction that was done; errors of one of which nothing was."""

    results: list[Result] = []
    errors: list[OperationError] = []


class Transaction(Struct, frozen=True, array_like=True, tag=3):
    operations: tuple[Operation, ...]


encode_answer = Encoder().encode
decode_answer = decoder(TransactionAnswer)
