"""The description in a member's claim: small, and harmless when it makes no sense."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest

from adsum.agent import tags
from adsum.agent.tags import Tags
from adsum.gossip.claims import META_BYTES_MAX

SERVER = Tags(datacenter="dc1", build="1.8.7", is_server=True, server_port=8300, expect=3, wan_port=8302)


def test_what_is_described_is_read_back() -> None:
    assert tags.decode(tags.encode(SERVER)) == SERVER


def test_the_longest_description_leaves_room_for_later_versions() -> None:
    longest = Tags(datacenter="d" * 64, build="b" * 64, is_server=True, server_port=65_535, expect=1 << 30)
    assert len(tags.encode(longest)) < META_BYTES_MAX - 64


def test_a_description_of_an_earlier_version_lacks_what_came_later() -> None:
    earlier = cbor2.dumps(cbor2.loads(tags.encode(SERVER))[:6])
    assert tags.decode(earlier) == replace(SERVER, wan_port=0)


def test_fields_of_a_later_version_are_ignored() -> None:
    leader = replace(SERVER, leads_in_term=7)
    fields = [*cbor2.loads(tags.encode(leader)), "zone", 7]
    assert tags.decode(cbor2.dumps(fields)) == leader


@pytest.mark.parametrize(
    "meta",
    [
        b"",
        b"\xff",
        cbor2.dumps({}),
        cbor2.dumps(["dc1", "1.8.7", 1, 8300, False, 0]),
        cbor2.dumps(["dc1", "1.8.7", True, 70_000, False, 0]),
        cbor2.dumps(["d" * 65, "1.8.7", True, 8300, False, 0]),
        cbor2.dumps(["dc1", "1.8.7", True, 8300, False, -1]),
        cbor2.dumps(["dc1", "1.8.7", True, 8300, False, 0, "8302"]),
        cbor2.dumps(["dc1", "1.8.7"]),
    ],
)
def test_a_description_that_makes_no_sense_says_nothing(meta: bytes) -> None:
    assert tags.decode(meta) == tags.UNKNOWN
