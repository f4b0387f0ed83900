from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog import saved
from adsum.catalog.definitions import CheckDefinition, ServiceAddress, ServiceDefinition, Status, Weights
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
    states = (saved.TtlState("c1", Status.WARNING, "slow", 1_795_000_000_000),)
    assert saved.decode_ttl_states(saved.encode_ttl_states(states)) == states


def test_a_field_of_a_later_version_is_skipped() -> None:
    content = saved.sealed({"check_id": "c1", "moon_phase": "full"})
    assert saved.decode_check(content) == CheckDefinition(check_id="c1")


def test_every_flipped_bit_is_noticed() -> None:
    content = saved.encode_check(FULL_CHECK)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x10
        with pytest.raises(saved.Damaged):
            saved.decode_check(bytes(damaged))


@given(st.binary(max_size=200))
def test_any_other_bytes_are_damage_and_nothing_worse(content: bytes) -> None:
    for decode in (saved.decode_service, saved.decode_check, saved.decode_ttl_states):
        with pytest.raises(saved.Damaged):
            decode(content)


def test_ids_of_any_length_and_characters_have_short_distinct_file_names() -> None:
    paths = {saved.check_path(check_id) for check_id in ("a", "A", "a/b", "../x", "x" * 10_000, "\ud800")}
    assert len(paths) == 6
    assert all(len(path) == len("checks/") + 32 for path in paths)
