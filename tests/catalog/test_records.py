"""Items of a catalog as bytes: what goes in comes out, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.records import CheckState, NodeRecord
from adsum.cbor import BadEncoding

NODE = Node(
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01",
    name="n1",
    address="10.0.0.1",
    datacenter="dc1",
    tagged_addresses={"lan": "10.0.0.1"},
    meta={"rack": "r1"},
)
SERVICE = Service(
    service_id="web1",
    name="web",
    tags=("a", "b"),
    address="10.0.0.9",
    port=80,
    tagged_addresses={"lan": ("10.0.0.9", 80)},
    meta={"version": "1"},
    weight_passing=10,
    weight_warning=2,
    enable_tag_override=True,
    proxy={"Upstreams": [{"DestinationName": "db"}], "Config": {"big": 1 << 200, "small": -(1 << 70)}},
    connect={"Native": True},
)
CHECK = Check(
    check_id="service:web1",
    name="alive",
    status=CheckStatus.CRITICAL,
    notes="why",
    service_id="web1",
    service_name="web",
    service_tags=("a", "b"),
    kind="http",
)


def test_a_node_says_what_the_roll_does_not() -> None:
    expected = NodeRecord("dc1", {"lan": "10.0.0.1"}, {"rack": "r1"})
    assert records.decode(records.encode_node(NODE)) == expected


def test_a_service_comes_out_as_it_went_in() -> None:
    assert records.decode(records.encode_service(SERVICE)) == SERVICE
    bare = Service(service_id="s", name="s")
    assert records.decode(records.encode_service(bare)) == bare


def test_a_check_comes_without_what_it_says() -> None:
    assert records.decode(records.encode_check(replace(CHECK, output="down"))) == CHECK


def test_a_flip_of_a_passing_check_takes_few_bytes_and_no_output() -> None:
    encoded = records.encode_state(41, replace(CHECK, status=CheckStatus.PASSING, output="200 OK"))
    assert len(encoded) <= 5
    assert records.decode(encoded) == CheckState(41, CheckStatus.PASSING)


def test_what_a_check_without_an_agent_says_travels_whole() -> None:
    encoded = records.encode_external_state(41, CheckStatus.PASSING, "ü" * 100)
    assert records.decode(encoded) == CheckState(41, CheckStatus.PASSING, "ü" * 100)


def test_a_failing_check_brings_the_first_96_bytes_of_its_output() -> None:
    encoded = records.encode_state(41, replace(CHECK, output="ü" * 100))
    assert records.decode(encoded) == CheckState(41, CheckStatus.CRITICAL, "ü" * 48)


def test_fields_of_a_later_version_are_ignored_and_kinds_of_it_passed_over() -> None:
    later = [*cbor2.loads(records.encode_check(CHECK)), "", "", "new"]
    assert records.decode(cbor2.dumps(later)) == CHECK
    assert records.decode(cbor2.dumps([9, "whatever"])) is None


def test_what_is_on_another_node_than_its_owner_s_names_it_and_others_pay_nothing() -> None:
    service = replace(SERVICE, node="printer-1")
    assert records.decode(records.encode_service(service)) == service
    assert records.decode(records.encode_check(replace(CHECK, node="printer-1"))) == replace(
        CHECK, node="printer-1"
    )
    node = [0, "dc1", {}, {}, "printer-1", "10.0.0.9"]
    assert records.decode(cbor2.dumps(node)) == NodeRecord("dc1", {}, {}, "printer-1", "10.0.0.9")
    assert len(records.encode_service(service)) == len(records.encode_service(SERVICE)) + len("printer-1") + 1
    assert cbor2.loads(records.encode_check(CHECK))[-1] == "http"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [-1],
        ["web"],
        [0, "dc1", {"lan": 1}, {}],
        [0, "dc1", {1: "x"}, {}],
        [1, "web1", "web"],
        [1, "web1", "web", "", [1], "", 80, {}, {}, 1, 1, False, b"", b""],
        [1, "web1", "web", "", [], "", 80, {"lan": ["x"]}, {}, 1, 1, False, b"", b""],
        [1, "web1", "web", "", [], "", 80, {}, {}, 1, 1, False, b"\xff", b""],
        [1, "web1", "web", "", [], "", 80, {}, {}, 1, 1, False, cbor2.dumps([1]), b""],
        [2, "c1", "c1", "", "", "", [], 5],
        [3, 1, 7],
        [3, -1, 0],
    ],
)
def test_what_makes_no_sense_is_refused(fields: list[object]) -> None:
    with pytest.raises(BadEncoding):
        records.decode(cbor2.dumps(fields))


@pytest.mark.parametrize(
    "value",
    [
        cbor2.CBORTag(35, "(a+)+b"),
        cbor2.CBORTag(9_999, [1]),
        cbor2.undefined,
        cbor2.CBORSimpleValue(99),
        b"bytes",
        {1: "a key that is a number"},
        [{"deep": {b"k": 1}}],
        1 << 20_000,
    ],
    ids=lambda value: str(value) if type(value) is not int else "an endless number",
)
def test_settings_of_a_mesh_that_no_client_could_be_told_cost_their_item_alone(value: object) -> None:
    """In an answer with others they would make an error of all of it."""
    proxy = cbor2.dumps({"Config": value})
    fields = [1, "web1", "web", "", [], "", 80, {}, {}, 1, 1, False, proxy, b""]
    with pytest.raises(BadEncoding):
        records.decode(cbor2.dumps(fields))


@given(st.binary(max_size=64))
def test_random_bytes_are_a_record_or_refused(value: bytes) -> None:
    try:
        records.decode(value)
    except BadEncoding:
        return
