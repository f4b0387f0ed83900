"""The servers of the last run, as they were kept."""

from __future__ import annotations

import cbor2
import pytest

from adsum.address import Address
from adsum.agent import saved_servers

A, B = b"a" * 16, b"b" * 16


def test_what_was_kept_is_found() -> None:
    servers = {A: Address("10.0.0.1", 8300), B: Address("fe80::1", 8300)}
    assert saved_servers.decode(saved_servers.encode(servers)) == servers
    assert saved_servers.decode(None) == {}


@pytest.mark.parametrize(
    "row",
    [
        [b"short", "10.0.0.2", 8300],
        [B, "a name", 8300],
        [B, "0.0.0.0", 8300],
        [B, "10.0.0.2", 0],
        [B, "10.0.0.2", 65_536],
        [B, "10.0.0.2", True],
        [B, "10.0.0.2"],
        7,
    ],
)
def test_what_makes_no_sense_is_passed_over_and_the_rest_is_used(row: object) -> None:
    content = cbor2.dumps([row, [A, "10.0.0.1", 8300]])
    assert saved_servers.decode(content) == {A: Address("10.0.0.1", 8300)}


@pytest.mark.parametrize("content", [b"", b"\xff", cbor2.dumps(7)])
def test_a_damaged_file_is_none(content: bytes) -> None:
    assert saved_servers.decode(content) == {}
