"""Every body here was sent to Consul 1.8.7 too, except where a test says otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.catalog.decode import decode_check, decode_service
from adsum.catalog.definitions import BadDefinition, CheckKind, ServiceAddress, Weights

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"Port": "80"}, "cannot unmarshal string into Go struct field .Port of type int"),
        ({"Port": True}, "cannot unmarshal bool into Go struct field .Port of type int"),
        ({"Port": 1.5}, "cannot unmarshal number 1.5 into Go struct field .Port of type int"),
        ({"Port": 10**20}, f"cannot unmarshal number {10**20} into Go struct field .Port of type int"),
        ({"Name": 1}, "cannot unmarshal number into Go struct field .Name of type string"),
        ({"Tags": "x"}, "cannot unmarshal string into Go struct field .Tags of type []string"),
        ({"Tags": [1]}, "cannot unmarshal number into Go struct field .Tags of type string"),
        ({"Meta": {"a": 1}}, "cannot unmarshal number into Go struct field .Meta of type string"),
        ({"Meta": ["x"]}, "cannot unmarshal array into Go struct field .Meta of type map[string]string"),
        (
            {"EnableTagOverride": "yes"},
            "cannot unmarshal string into Go struct field .EnableTagOverride of type bool",
        ),
        ({"Checks": {}}, "cannot unmarshal object into Go struct field .Checks of type structs.CheckTypes"),
        ({"Check": {"Args": "x"}}, "cannot unmarshal string into Go struct field .Check of type []string"),
        (
            {"Check": {"Header": {"a": "b"}}},
            "cannot unmarshal string into Go struct field .Check of type []string",
        ),
        (
            {"TaggedAddresses": {"lan": "1.2.3.4"}},
            "cannot unmarshal string into Go struct field .TaggedAddresses of type structs.ServiceAddress",
        ),
    ],
)
def test_a_wrong_type_is_refused_in_the_words_of_gos_decoder(body: dict[str, object], text: str) -> None:
    with pytest.raises(BadDefinition) as refusal:
        decode_service({"Name": "a"} | body)
    assert str(refusal.value) == "Request decode failed: json: " + text


@pytest.mark.parametrize("field", ["Proxy", "Connect"])
def test_what_could_not_be_read_back_from_disk_is_refused(field: str) -> None:
    """Consul keeps it in a JSON file; Adsum refuses far above what any proxy has."""
    bottom: object = "x"
    for _ in range(31):
        bottom = {"a": bottom}
    assert decode_service({"Name": "a", field: {"a": bottom}})
    with pytest.raises(BadDefinition, match=f"{field} is nested deeper than 32 levels"):
        decode_service({"Name": "a", field: {"a": [bottom]}})


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        ("10", 'time: missing unit in duration "10"'),
        ("abc", 'time: invalid duration "abc"'),
        ("", 'time: invalid duration ""'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
    ],
)
def test_a_bad_duration_is_refused_in_gos_words(duration: str, text: str) -> None:
    with pytest.raises(BadDefinition) as refusal:
        decode_service({"Name": "a", "Check": {"TTL": duration}})
    assert str(refusal.value) == "Request decode failed: " + text


@pytest.mark.parametrize(("duration", "ttl_ns"), [("3s", 3e9), (3_000_000_000, 3e9), (3e9, 3e9), (1.5, 1)])
def test_a_duration_is_text_or_nanoseconds(duration: object, ttl_ns: int) -> None:
    assert decode_check({"Name": "c", "TTL": duration}).ttl_ns == ttl_ns


@pytest.mark.parametrize("duration", [None, False, True, [], {}, float("nan"), float("inf")])
def test_a_duration_of_any_other_type_counts_as_absent(duration: object) -> None:
    assert decode_check({"Name": "c", "TTL": duration}).ttl_ns == 0


def test_keys_match_in_any_case_and_with_or_without_underscores() -> None:
    service = decode_service(
        {
            "NAME": "a",
            "enable_tag_override": True,
            "taggedaddresses": {"lan": {"address": "1.2.3.4", "PORT": 5}},
        }
    )
    assert service.enable_tag_override
    assert service.tagged_addresses == {"lan": ServiceAddress("1.2.3.4", 5)}


def test_the_last_of_two_spellings_wins() -> None:
    assert decode_service({"name": "a", "NAME": "b"}).name == "b"


def test_a_spelling_with_underscores_only_fills_a_gap() -> None:
    assert decode_check({"service_id": "w1", "ServiceID": "w2"}).service_id == "w2"
    assert decode_service({"enable_tag_override": True, "EnableTagOverride": False}).enable_tag_override


def test_null_is_absent_and_unknown_keys_are_ignored() -> None:
    absent = dict.fromkeys(
        ["ID", "Tags", "Meta", "Port", "Weights", "Check", "Checks", "Proxy", "Connect", "TaggedAddresses"]
    )
    assert decode_service({"Name": "w", "WriteRequest": {"Token": "t"}} | absent) == decode_service(
        {"Name": "w"}
    )
    assert decode_service(None) == decode_service({})


def test_a_null_within_a_list_of_texts_is_an_empty_text() -> None:
    assert decode_service({"Tags": ["x", None, "x"]}).tags == ("x", "", "x")


def test_one_check_is_named_after_its_service() -> None:
    service = decode_service({"ID": "w1", "Name": "w", "Token": "t", "Check": {"TTL": "3s"}})
    (check,) = service.checks
    assert (check.check_id, check.name, check.service_id, check.token) == (
        "service:w1",
        "Service 'w' check",
        "w1",
        "t",
    )


def test_several_checks_are_numbered_by_position_and_empty_ones_dropped() -> None:
    checks = [{}, {"TTL": "4s"}, None, {"TTL": "5s", "CheckID": "own"}, {"TTL": "6s"}]
    service = decode_service({"Name": "w", "Check": {"TTL": "3s"}, "Checks": checks})
    assert [check.check_id for check in service.checks] == [
        "service:w:1",
        "service:w:2",
        "own",
        "service:w:4",
    ]


def test_an_empty_check_is_absent() -> None:
    assert decode_service({"Name": "w", "Check": {}}).checks == ()


def test_weights_not_given_are_equal_and_half_given_ones_are_nought() -> None:
    assert decode_service({"Name": "w"}).weights == Weights(1, 1)
    assert decode_service({"Name": "w", "Weights": {"Passing": 3}}).weights == Weights(3, 0)


def test_the_id_of_a_lone_check_is_its_name_unless_given() -> None:
    assert decode_check({"Name": "c", "TTL": "3s"}).check_id == "c"
    assert decode_check({"Name": "c", "ID": "i", "TTL": "3s"}).check_id == "i"


def test_the_legacy_script_runs_in_a_shell() -> None:
    check = decode_check({"Name": "c", "Script": "exit 1", "Interval": "10s"})
    assert check.args == ("/bin/sh", "-c", "exit 1")
    assert check.kind is CheckKind.SCRIPT


def test_script_args_is_another_name_for_args() -> None:
    assert decode_check({"script_args": ["a", "b"]}).args == ("a", "b")


def test_output_is_limited_by_the_smaller_of_check_and_agent() -> None:
    assert decode_check({}, output_bytes_max=100).output_max_size == 100
    assert decode_check({"OutputMaxSize": 50}, output_bytes_max=100).output_max_size == 50
    assert decode_check({"OutputMaxSize": 500}, output_bytes_max=100).output_max_size == 100


def test_h2ping_uses_tls_unless_told_otherwise() -> None:
    assert decode_check({"H2PING": "a:1"}).h2ping_use_tls
    assert not decode_check({"H2PING": "a:1", "H2PingUseTLS": False}).h2ping_use_tls


def test_integers_keep_all_their_64_bits() -> None:
    assert decode_service({"Port": 2**63 - 1}).port == 2**63 - 1


@given(JSON)
def test_whatever_comes_is_a_definition_or_a_refusal(raw: object) -> None:
    for decode in (decode_service, decode_check):
        try:
            decode(raw)
        except BadDefinition as refusal:
            text = str(refusal)
            assert text


@given(st.sampled_from(["Name", "Port", "Tags", "Meta", "Checks", "Check", "Weights", "Proxy"]), JSON)
def test_whatever_a_known_field_holds_is_a_definition_or_a_refusal(field: str, raw: object) -> None:
    try:
        decode_service({field: raw})
    except BadDefinition as refusal:
        text = str(refusal)
        assert text.startswith("Request decode failed: ")
