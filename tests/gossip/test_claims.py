from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.address import Address
from adsum.cbor import BadEncoding
from adsum.gossip import claims
from adsum.gossip.claims import Claims
from adsum.gossip.order import Departure
from tests.gossip.support import GENERATION, alive, dead, profile, short, suspect

EVERY_KIND: list[claims.Claim] = [
    alive("a"),
    suspect("a", "b", "c", refusers=("b",)),
    dead("a", "b"),
    claims.left(short("a"), GENERATION, 3, Departure.PRUNED, short("b")),
    claims.restarting(short("a"), GENERATION, 5_000),
    claims.user_event(short("a"), 7, 1, "deploy", b"v2"),
]

SIGNED = [claim for claim in EVERY_KIND if not isinstance(claim, claims.Suspect | claims.Dead)]


@pytest.mark.parametrize("claim", EVERY_KIND, ids=lambda claim: type(claim).__name__)
def test_a_claim_comes_back_as_it_was_made(claim: claims.Claim) -> None:
    assert claims.decode(claim.encoded) == claim


@pytest.mark.parametrize("claim", SIGNED, ids=lambda claim: type(claim).__name__)
def test_a_signature_is_kept_with_its_claim(claim: claims.Claim) -> None:
    unsigned = cbor2.loads(claim.encoded)
    before = [*unsigned, ""] if isinstance(claim, claims.Alive) else unsigned  # a version, that is
    signed = claims.decode(cbor2.dumps([*before, bytes(64)]))
    assert getattr(signed, "signature") == bytes(64)  # noqa: B009 - which is a field of these kinds only
    assert signed.encoded == cbor2.dumps([*before, bytes(64)])
    for wrong in (b"", bytes(63), bytes(65), "", None):
        with pytest.raises(BadEncoding):
            claims.decode(cbor2.dumps([*before, wrong]))


def test_the_longest_claim_of_a_member_has_room_for_its_signature() -> None:
    host = "fe80:1111:2222:3333:4444:5555:6666:7777%" + "e" * 15
    longest = claims.Profile(b"\xff" * 16, "n" * 128, Address(host, 65_535), bytes(256), 255, 255, "9" * 32)
    told = claims.alive(longest, claims.COUNTER_MAX - 1, claims.COUNTER_MAX - 1)
    signed = cbor2.dumps([*cbor2.loads(told.encoded), bytes(64)])
    assert len(signed) < claims.CLAIM_BYTES_MAX
    decoded = claims.decode(signed)
    assert isinstance(decoded, claims.Alive)
    assert decoded.profile == longest


def test_the_version_of_adsum_costs_a_member_six_bytes_and_one_that_says_none_nothing() -> None:
    told = claims.alive(replace(profile("a"), version="0.1.0"), GENERATION, 0)
    assert claims.decode(told.encoded) == told
    assert (len(told.encoded), len(alive("a").encoded)) == (55, 49)


def test_claims_are_small() -> None:
    assert [len(claim.encoded) for claim in EVERY_KIND] == [49, 52, 35, 31, 23, 23]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_claim_or_refused(garbage: bytes) -> None:
    try:
        claim = claims.decode(garbage)
    except BadEncoding:
        return
    assert claim.encoded == garbage


@given(st.sampled_from(EVERY_KIND), st.data())
def test_a_claim_with_one_byte_changed_is_another_or_refused(
    claim: claims.Claim, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(claim.encoded) - 1))
    value = data.draw(st.integers(0, 255))
    changed = claim.encoded[:place] + bytes([value]) + claim.encoded[place + 1 :]
    try:
        decoded = claims.decode(changed)
    except BadEncoding:
        return
    assert (decoded == claim) == (changed == claim.encoded)


@pytest.mark.parametrize("claim", EVERY_KIND, ids=lambda claim: type(claim).__name__)
def test_a_truncated_claim_is_refused(claim: claims.Claim) -> None:
    for end in range(len(claim.encoded)):
        with pytest.raises(BadEncoding):
            claims.decode(claim.encoded[:end])


BAD = {
    "bytes after the end": alive("a").encoded + b"\x00",
    "an array without end": b"\x9f" + alive("a").encoded[1:] + b"\xff",
    "a number in more bytes than it needs": cbor2.dumps([4, short("a"), 5, 9])[:-1] + b"\x18\x09",
    "a kind of nobody": cbor2.dumps([9, short("a")]),
    "a map": cbor2.dumps({1: 2}),
    "a tag": cbor2.dumps(cbor2.CBORTag(35, "(a+)+b")),
    "a negative generation": cbor2.dumps([4, short("a"), -1, 9]),
    "an endless generation": cbor2.dumps([4, short("a"), 1 << 60, 9]),
    "a short id that is too long": cbor2.dumps([4, short("a") + b"x", 1, 9]),
    "a departure that is no whole number": cbor2.dumps([3, short("a"), 1, 0, 1.0, short("b")]),
    "a departure of no kind": cbor2.dumps([3, short("a"), 1, 0, 0, short("b")]),
    "a cause that is no whole number": cbor2.dumps([2, short("a"), 1, 0, [short("b")], [], 0, 0, 1.0]),
    "a counter that is a boolean": cbor2.dumps([3, short("a"), True, 0, 1, short("b")]),
    "five witnesses": cbor2.dumps([1, short("a"), 1, 0, [short("b")] * 5, [], 0, 0]),
    "no accuser": cbor2.dumps([1, short("a"), 1, 0, [], [], 0, 0]),
    "a member without a name": cbor2.dumps([0, bytes(16), 1, 0, "", "10.0.0.1", 8301, b"", 1, 1]),
    "a member that calls itself the store": cbor2.dumps(
        [0, b"@store\0\0" + bytes(8), 1, 0, "a", "10.0.0.1", 8301, b"", 1, 1]
    ),
    "a member of a version without end": cbor2.dumps(
        [0, bytes(16), 1, 0, "a", "10.0.0.1", 8301, b"", 1, 1, "9" * 33]
    ),
    "a member that says its default version": cbor2.dumps(
        [0, bytes(16), 1, 0, "a", "10.0.0.1", 8301, b"", 1, 1, ""]
    ),
    "a member with a big description": cbor2.dumps(
        [0, bytes(16), 1, 0, "a", "10.0.0.1", 1, bytes(257), 1, 1]
    ),
    "a port that is none": cbor2.dumps([0, bytes(16), 1, 0, "a", "10.0.0.1", 65_536, b"", 1, 1]),
    "a port that is a boolean": cbor2.dumps([0, bytes(16), 1, 0, "a", "10.0.0.1", True, b"", 1, 1]),
    "a host that is a name": cbor2.dumps([0, bytes(16), 1, 0, "a", "h", 8301, b"", 1, 1]),
    "a host with a NUL in its scope": cbor2.dumps([0, bytes(16), 1, 0, "a", "fe80::1%a\0b", 8301, b"", 1, 1]),
    "a host that is everybody": cbor2.dumps([0, bytes(16), 1, 0, "a", "224.0.0.1", 8301, b"", 1, 1]),
    "more than a claim may have": cbor2.dumps([4, short("a"), 1, 9, bytes(1_100)]),
    "nests": b"\x81" * 50 + b"\x00",
}


@pytest.mark.parametrize("encoded", BAD.values(), ids=BAD)
def test_what_is_no_claim_is_refused(encoded: bytes) -> None:
    with pytest.raises(BadEncoding):
        claims.decode(encoded)


def test_fields_of_a_later_version_are_kept_and_ignored() -> None:
    later = cbor2.dumps([*cbor2.loads(suspect("a", "b").encoded), "new"])
    decoded = claims.decode(later)
    assert isinstance(decoded, claims.Suspect)
    assert decoded.subject == short("a")
    assert decoded.encoded == later


def test_joined_suspicions_keep_every_witness_once_and_the_first_first() -> None:
    joined = claims.joined(suspect("a", "b"), suspect("a", "c", "b", refusers=("c",)))
    assert joined.accusers == (short("b"), short("c"))
    assert joined.refusers == (short("c"),)
    assert claims.joined(joined, suspect("a", "c")) is joined


def test_a_claim_is_decoded_once() -> None:
    known = Claims()
    first = known.decode(alive("a").encoded)
    assert known.decode(bytes(bytearray(alive("a").encoded))) is first


def test_remembered_claims_are_bounded() -> None:
    known = Claims(10)
    for incarnation in range(100):
        known.decode(claims.alive(profile("a"), 1, incarnation).encoded)
    assert len(known) <= 10
