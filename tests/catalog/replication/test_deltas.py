from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import Busy, OwnerStanding
from adsum.catalog.replication.deltas import RANGE_BYTES_MAX, decode, push, span
from adsum.catalog.replication.items import NUMBER_MAX, VALUE_BYTES_MAX, VERSION_MAX, Item
from adsum.catalog.replication.root import WORDS_BYTES
from adsum.cbor import BadEncoding

OWNER, DIGEST = b"ownerone", bytes(8)


def changed(place: int, value: object) -> list[object]:
    good: list[object] = [1, OWNER, 5, 9, DIGEST, [[3, 1, b"x"]], 2, 8, 0]
    good[place] = value
    return good


def test_a_push_says_what_was_put_removed_and_announced() -> None:
    delta = decode(push(OWNER, 5, 9, 77, [Item(3, 8, b"x"), Item(4, 9, None)], [Item(5, 7, b"long")]))
    assert (delta.owner, delta.generation, delta.version, delta.digest) == (OWNER, 5, 9, 77)
    assert delta.items == (Item(3, 8, b"x"), Item(4, 9, None))
    assert delta.notices == ((5, 7),)
    assert delta.through is None
    assert delta.key == (OWNER, (3, 4, 5))


def test_a_range_says_from_where_to_where_it_is_complete() -> None:
    delta = decode(span(OWNER, 5, 9, 77, [Item(3, 8, b"x")], since=2, through=8, gc_version=1))
    assert (delta.since, delta.through, delta.gc_version) == (2, 8, 1)


def test_fields_of_a_later_version_are_ignored_and_kept() -> None:
    encoded = cbor2.dumps([*changed(2, 5), "later", 4])
    assert decode(encoded).encoded == encoded


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [2, OWNER, 5, 9, DIGEST, []],
        changed(0, True),
        changed(1, b"short"),
        changed(1, "ownerone"),
        changed(2, -1),
        changed(2, 1 << 53),
        changed(2, 5.0),
        changed(3, 0),
        changed(3, VERSION_MAX),
        changed(4, b"1234567"),
        changed(5, [[3, 1, "text"]]),
        changed(5, [[3, 9, b"x"]]),
        changed(5, [[3, -1, b"x"]]),
        changed(5, [[NUMBER_MAX, 1, b"x"]]),
        changed(5, [[3, 1, False]]),
        changed(5, [[3, 1, True]]),  # a notice in a range
        changed(5, [[3, 1, b"x"], [3, 2, b"y"]]),
        changed(5, [[3]]),
        changed(5, [3]),
        changed(5, [[3, 1, bytes(VALUE_BYTES_MAX + 1)]]),
        changed(6, 10),
        changed(7, 10),
        changed(7, 1),
        changed(8, 10),
    ],
    ids=repr,
)
def test_what_is_not_a_delta_is_refused(fields: list[object]) -> None:
    with pytest.raises(BadEncoding):
        decode(cbor2.dumps(fields))


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xff",
        b"\x9f\x00\xff",  # an array of no stated length
        cbor2.dumps(changed(2, 5)) + b"\x00",
        cbor2.dumps(changed(2, 5))[:-1],
        b"\x89\x18\x01" + cbor2.dumps(changed(2, 5))[2:],  # a longer way to say 1
        cbor2.dumps(cbor2.CBORTag(24, b"x")),
        cbor2.dumps([[[[[[1]]]]]]),
        bytes(RANGE_BYTES_MAX + 1),
    ],
)
def test_bytes_that_are_not_our_cbor_are_refused(encoded: bytes) -> None:
    with pytest.raises(BadEncoding):
        decode(encoded)


def test_every_damaged_byte_is_refused_or_means_something_else() -> None:
    encoded = push(OWNER, 5, 9, 77, [Item(3, 8, b"x")])
    for place in range(len(encoded)):
        for bit in range(8):
            damaged = bytearray(encoded)
            damaged[place] ^= 1 << bit
            try:
                delta = decode(bytes(damaged))
            except BadEncoding:
                continue
            assert delta.encoded != encoded


def test_questions_and_answers_come_back_as_they_were() -> None:
    standing = OwnerStanding(OWNER, 5, 9, 2, 0xABCDEF, 7)
    words = bytes(WORDS_BYTES)
    assert bodies.read_compare(bodies.compare(3, words)) == (3, words)
    assert bodies.read_compared(bodies.compared([standing], is_more=True)) == ([standing], True)
    assert bodies.read_fetch(bodies.fetch([standing], [b"range"])) == ([standing], (b"range",))
    assert bodies.read_fetched(bodies.fetched([b"range"])) == (b"range",)
    assert bodies.read_items(bodies.items(OWNER, 5, [1, 2])) == (OWNER, 5, (1, 2))
    with pytest.raises(Busy):
        bodies.read_fetched(bodies.BUSY)
    with pytest.raises(Busy):
        bodies.read_compared(bodies.BUSY)


@pytest.mark.parametrize(
    "body",
    [b"", b"\x80", bodies.REFUSED, cbor2.dumps([0, b"half a standing"]), bytes(bodies.BODY_BYTES_MAX + 1)],
)
def test_what_is_not_a_body_is_refused(body: bytes) -> None:
    for read in (bodies.read_compare, bodies.read_compared, bodies.read_fetch, bodies.read_fetched):
        with pytest.raises(BadEncoding):
            read(body)
    with pytest.raises(BadEncoding):
        bodies.read_items(body)


LEAVES = st.one_of(
    st.integers(-(1 << 64), 1 << 64),
    st.sampled_from([0, 1, 2, 5, 9, True, False, None, OWNER, DIGEST, b"", "", 1.5]),
    st.binary(max_size=12),
)
SHAPES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=10), max_leaves=40)


@given(st.one_of(st.binary(max_size=64), st.lists(SHAPES, max_size=10).map(cbor2.dumps)))
def test_anything_is_decoded_or_refused_and_never_more(encoded: bytes) -> None:
    """An answer of "no time" is told as such; nothing else may come out of reading."""
    for read in (
        decode,
        bodies.read_compare,
        bodies.read_compared,
        bodies.read_fetch,
        bodies.read_fetched,
        bodies.read_items,
    ):
        try:
            read(encoded)
        except (BadEncoding, Busy):
            continue


ITEMS = st.lists(
    st.builds(Item, st.integers(0, NUMBER_MAX - 1), st.integers(1, 500), st.none() | st.binary(max_size=40)),
    max_size=20,
    unique_by=lambda item: item.number,
)


@given(ITEMS, st.integers(0, (1 << 53) - 1), st.integers(0, (1 << 64) - 1))
def test_what_was_encoded_is_decoded(items: list[Item], generation: int, owner_digest: int) -> None:
    delta = decode(push(OWNER, generation, 500, owner_digest, items))
    assert (delta.generation, delta.digest, delta.items) == (generation, owner_digest, tuple(items))
    delta = decode(span(OWNER, generation, 500, owner_digest, items, since=3, through=500, gc_version=7))
    assert (delta.items, delta.since, delta.through, delta.gc_version) == (tuple(items), 3, 500, 7)
