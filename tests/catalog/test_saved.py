from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog import saved
from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceAddress, ServiceDefinition, Weights
from adsum.testing.samples import HTTP_CHECK, WEB

FULL_SERVICE = ServiceDefinition(
    service_id="wëb/1 ",
    name="web",
    tags=("a", "b"),
    address="10.0.0.1",
    port=80,
    meta={"k": "v"},
    tagged_addresses={"lan": ServiceAddress("10.0.0.2", 81)},
    weights=Weights(5, 2),
    enable_tag_override=True,
    proxy={"Expose": {"Checks": True}},
)
FULL_CHECK = replace(HTTP_CHECK, header={"X-A": ["1", "2"]}, args=("a", "b"), h2ping_use_tls=False)


def test_registrations_come_back_as_they_were() -> None:
    assert saved.decode_service(saved.encode_service(FULL_SERVICE)) == FULL_SERVICE
    assert saved.decode_check(saved.encode_check(FULL_CHECK)) == FULL_CHECK


def test_a_service_is_saved_without_its_checks_which_have_files_of_their_own() -> None:
    assert saved.decode_service(saved.encode_service(WEB)) == replace(WEB, checks=())


def test_ttl_states_come_back_as_they_were() -> None:
    states = (saved.TtlState("c1", CheckStatus.WARNING, "slow", 1_795_000_000_000),)
    assert saved.decode_ttl_states(saved.encode_ttl_states(states)) == states


def test_a_field_of_a_later_version_is_skipped() -> None:
    content = saved.sealed({"check_id": "c1", "moon_phase": "full"})
    assert saved.decode_check(content) == CheckDefinition(check_id="c1")


def test_every_flipped_bit_is_noticed() -> None:
    content = saved.encode_check(FULL_CHECK)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        with pytest.raises(saved.DamagedFile):
            saved.decode_check(bytes(damaged))


@given(st.binary(max_size=200))
def test_any_other_bytes_are_damage_and_nothing_worse(content: bytes) -> None:
    for decode in (saved.decode_service, saved.decode_check, saved.decode_ttl_states):
        with pytest.raises(saved.DamagedFile):
            decode(content)


OF_SERVICES: list[tuple[str, object]] = [
    *(("service_id", []), ("name", 7), ("port", "80"), ("port", True), ("port", 1 << 64)),
    *(("enable_tag_override", 1), ("tags", "ab"), ("tags", [b"a"]), ("meta", True), ("meta", {"a": 1})),
    *(("meta", {1: "a"}), ("proxy", "x"), ("checks", []), ("weights", 1), ("weights", [1, "a"])),
    *(("tagged_addresses", False), ("tagged_addresses", {"lan": [1, 2]})),
    ("tagged_addresses", {"lan": ["a", 1, 2]}),
]
OF_CHECKS: list[tuple[str, object]] = [
    *(("check_id", ["c"]), ("status", "1lo"), ("status", []), ("output_max_size", "many")),
    *(("interval_ns", "1s"), ("header", 3), ("header", {"a": "b"}), ("args", [1]), ("http", b"x")),
    *(("ttl_ns", 1.5), ("ttl_ns", None)),
]
OF_STATES: list[object] = [
    *(7, [7], [["c", "warning", "late", "soon"]], [[["c"], "warning", "", 1]]),
    *([["c", "warning", b"", 1]], [["c", "", "", 1]]),
]


@pytest.mark.parametrize(("name", "value"), OF_SERVICES, ids=str)
def test_a_service_with_a_field_of_another_type_is_damaged(name: str, value: object) -> None:
    with pytest.raises(saved.DamagedFile):
        saved.decode_service(saved.sealed({name: value}))


@pytest.mark.parametrize(("name", "value"), OF_CHECKS, ids=str)
def test_a_check_with_a_field_of_another_type_is_damaged(name: str, value: object) -> None:
    with pytest.raises(saved.DamagedFile):
        saved.decode_check(saved.sealed({name: value}))


@pytest.mark.parametrize("rows", OF_STATES, ids=str)
def test_states_of_other_types_are_damaged(rows: object) -> None:
    with pytest.raises(saved.DamagedFile):
        saved.decode_ttl_states(saved.sealed(rows))


NAMES = ["service_id", "tags", "meta", "port", "weights", "tagged_addresses", "args", "header", "status"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner), max_leaves=8
)


@given(st.dictionaries(st.sampled_from(NAMES), TREES))
def test_whatever_was_sealed_is_a_registration_or_damage(values: dict[str, object]) -> None:
    for decode in (saved.decode_service, saved.decode_check):
        with contextlib.suppress(saved.DamagedFile):
            decode(saved.sealed(values))


def test_ids_of_any_length_and_characters_have_short_distinct_file_names() -> None:
    paths = {saved.check_path(check_id) for check_id in ("a", "A", "a/b", "../x", "x" * 10_000, "\ud800")}
    assert len(paths) == 6
    assert all(len(path) == len("checks/") + 32 for path in paths)
