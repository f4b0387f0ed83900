"""Transactions that are read by their types are those that would be read with care, and nothing else is."""

from __future__ import annotations

import pytest

from adsum.api.plain_transaction import plain_operations
from adsum.transactions import KeyOperation, KeyOperationVerb


def read(body: bytes) -> tuple[tuple[KeyOperation, ...], bool] | None:
    return plain_operations(body, most=2, value_bytes_max=4)


def test_operations_on_keys_are_read_with_all_their_fields() -> None:
    body = b"""[{"KV": {"Verb": "set", "Key": "a/\\u00e4", "Value": "YWJjZA==",
        "Flags": 18446744073709551615}},
        {"KV": {"Verb": "lock", "Key": "b", "Index": 7, "Session": "s"}}]"""
    put = KeyOperation(KeyOperationVerb.SET, "a/ä".encode(), b"abcd", 2**64 - 1)
    lock = KeyOperation(KeyOperationVerb.LOCK, b"b", b"", 0, 7, "s")
    assert read(body) == ((put, lock), True)


def test_whether_one_of_them_writes_is_told() -> None:
    get = KeyOperation(KeyOperationVerb.GET, b"a")
    tree = KeyOperation(KeyOperationVerb.GET_TREE, b"")
    body = b'[{"KV":{"Verb":"get","Key":"a"}},{"KV":{"Verb":"get-tree"}}]'
    assert read(body) == ((get, tree), False)
    assert read(b'[{"KV":{"Verb":"delete","Key":"a"}}]') == (
        (KeyOperation(KeyOperationVerb.DELETE, b"a"),),
        True,
    )
    assert read(b"[]") == ((), False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"[null]",
        b'[{"KV":null}]',
        b'[{"KV":{"verb":"set","Key":"a"}}]',
        b'[{"KV":{"Verb":"put","Key":"a"}}]',
        b'[{"KV":{"Verb":"set","Key":"a"},"Session":{}}]',
        b'[{"KV":{"Verb":"set","Key":"a"},"Node":null}]',
        b'[{"KV":{"Verb":"set","Key":"a","Value":null}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Value":"YQ"}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Value":"YWJjZGU="}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Flags":-1}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Flags":1.0}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Flags":true}}]',
        b'[{"KV":{"Verb":"set","Key":"a","Index":18446744073709551616}}]',
        b'[{"KV":{"Verb":"set","Key":""}}]',
        b'[{"KV":{"Verb":"set","Key":"\\ud800"}}]',
        b'[{"KV":{"Verb":"set","Key":"\xff"}}]',
        b'[{"KV":{"Verb":"get","Key":"a"}},{"KV":{"Verb":"get","Key":"a"}},{"KV":{"Verb":"get","Key":"a"}}]',
        b'[{"KV":{"Verb":"get","Key":"a"}}] []',
        b"[" * 5_000,
    ],
)
def test_what_is_spelled_or_meant_otherwise_is_read_with_care(body: bytes) -> None:
    assert read(body) is None
