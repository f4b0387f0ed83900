from __future__ import annotations

import pytest

from adsum.catalog.decode import decode_check, decode_service
from adsum.catalog.definitions import BadDefinition
from adsum.catalog.validate import validate_check, validate_service

HTTP = {"HTTP": "http://x", "Interval": "10s"}
RESERVED = (
    "Invalid Service Meta: Couldn't load metadata pair ('consul-x', '1'): "
    "Key prefix 'consul-' is reserved for internal use"
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"Name": ""}, "Missing service name"),
        ({"Address": "0.0.0.0"}, "Invalid service address"),
        ({"Address": "::"}, "Invalid service address"),
        ({"Address": "[::]"}, "Invalid service address"),
        ({"Weights": {}}, "Invalid Weights: Passing must be greater than 0"),
        (
            {"Weights": {"Passing": 1, "Warning": -1}},
            "Invalid Weights: Warning must be greater or equal than 0",
        ),
        ({"Weights": {"Passing": 70000}}, "Invalid Weights: DNS Weight must be between 0 and 65535"),
        (
            {"Meta": {"a b": "1"}},
            "Invalid Service Meta: Couldn't load metadata pair ('a b', '1'): Key contains invalid characters",
        ),
        (
            {"Meta": {"": "1"}},
            "Invalid Service Meta: Couldn't load metadata pair ('', '1'): Key cannot be blank",
        ),
        ({"Meta": {"consul-x": "1"}}, RESERVED),
        (
            {"Meta": {f"k{n}": "v" for n in range(65)}},
            "Invalid Service Meta: Node metadata cannot contain more than 64 key/value pairs",
        ),
        (
            {"Check": {"TTL": "3s", "Status": "PASSING"}},
            "Status for checks must 'passing', 'warning', 'critical'",
        ),
        ({"Check": {"Interval": "10s"}}, "Invalid check: TTL must be > 0 for TTL checks"),
        ({"Check": {"TTL": "-5s"}}, "Invalid check: TTL must be > 0 for TTL checks"),
        ({"Check": {"Status": "passing"}}, "Invalid check: TTL must be > 0 for TTL checks"),
        ({"Check": HTTP | {"TTL": "5s"}}, "Invalid check: Interval and TTL cannot both be specified"),
        (
            {"Check": {"HTTP": "http://x"}},
            "Invalid check: Interval must be > 0 for Script, HTTP, or TCP checks",
        ),
        ({"Check": HTTP | {"AliasService": "x"}}, "Invalid check: Interval cannot be set for Alias checks"),
        (
            {"Check": {"AliasService": "x", "TTL": "3s"}},
            "Invalid check: TTL must be not be set for Alias checks",
        ),
        ({"Check": {"TTL": "3s", "OutputMaxSize": -1}}, "Invalid check: MaxOutputMaxSize must be positive"),
        (
            {"Check": HTTP | {"FailuresBeforeWarning": 3, "FailuresBeforeCritical": 2}},
            "Invalid check: FailuresBeforeWarning can't be higher than FailuresBeforeCritical",
        ),
    ],
)
def test_a_bad_service_is_refused_in_consuls_words(body: dict[str, object], text: str) -> None:
    with pytest.raises(BadDefinition) as refusal:
        validate_service(decode_service({"Name": "a"} | body))
    assert str(refusal.value) == text


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_an_srv_record_cannot_hold_is_refused(port: int) -> None:
    """Consul takes any integer."""
    with pytest.raises(BadDefinition, match=f"Port {port} is not between 0 and 65535"):
        validate_service(decode_service({"Name": "a", "Port": port}))
    with pytest.raises(BadDefinition, match="TaggedAddresses wan Port"):
        validate_service(decode_service({"Name": "a", "TaggedAddresses": {"wan": {"Port": port}}}))


def test_a_lone_check_is_refused_in_its_own_words() -> None:
    for body, text in [
        ({"TTL": "3s"}, "Missing check name"),
        ({"Name": "c", "TTL": "3s", "Status": "x"}, "Bad check status"),
        ({"Name": "c"}, "Invalid check: TTL must be > 0 for TTL checks"),
    ]:
        with pytest.raises(BadDefinition) as refusal:
            validate_check(decode_check(body))
        assert str(refusal.value) == text


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        (
            {"Kind": "connect-proxy"},
            [
                "Proxy.DestinationServiceName must be non-empty for Connect proxy services",
                "Port must be set for a Connect proxy",
            ],
        ),
        (
            {"Kind": "connect-proxy", "Port": 1, "Proxy": {"DestinationServiceName": " "}},
            ["Proxy.DestinationServiceName must be non-empty for Connect proxy services"],
        ),
        (
            {
                "Kind": "connect-proxy",
                "Port": 1,
                "Proxy": {"destination_service_name": "web"},
                "Connect": {"native": True},
            },
            ["A Proxy cannot also be Connect Native, only typical services"],
        ),
        ({"Kind": "mesh-gateway"}, ["Port must be non-zero for a mesh-gateway"]),
        (
            {"Kind": "ingress-gateway", "Proxy": {"DestinationServiceName": "web", "localserviceport": 1}},
            [
                "The Proxy.DestinationServiceName configuration is invalid for a ingress-gateway",
                "The Proxy.LocalServicePort configuration is invalid for a ingress-gateway",
            ],
        ),
    ],
)
def test_proxies_and_gateways_are_held_to_their_kind(body: dict[str, object], problems: list[str]) -> None:
    with pytest.raises(BadDefinition) as refusal:
        validate_service(decode_service({"Name": "a"} | body))
    count, *lines = str(refusal.value).removesuffix("\n\n").split("\n\t* ")
    assert lines == problems
    assert count == ("1 error occurred:" if len(lines) == 1 else f"{len(lines)} errors occurred:")


@pytest.mark.parametrize(
    "key", ["DestinationServiceName", "destination_service_name", "destinationservicename"]
)
def test_a_proxy_names_its_destination_in_any_spelling_and_keeps_one(key: str) -> None:
    proxy = decode_service({"Name": "a", "Kind": "connect-proxy", "Port": 1, "Proxy": {key: "web"}})
    assert validate_service(proxy) == []
    assert proxy.proxy == {"DestinationServiceName": "web"}


def test_meta_at_its_limits_is_taken() -> None:
    meta = {"k" * 128: "v" * 512} | {f"k{n}": "" for n in range(63)}
    assert validate_service(decode_service({"Name": "a", "Meta": meta})) == []


def test_names_that_dns_cannot_ask_for_are_taken_with_a_warning() -> None:
    warnings = validate_service(decode_service({"Name": "My_Svc", "Tags": ["ok", "v1.2", "not ok"]}))
    assert len(warnings) == 2
    assert '"My_Svc"' in warnings[0]
    assert '"not ok"' in warnings[1]


def test_a_service_of_odd_tags_is_warned_of_in_one_short_line() -> None:
    """A body of a megabyte holds eighty thousand tags; a log does not want a line for each."""
    name = "x " * 100_000
    warnings = validate_service(decode_service({"Name": name, "Tags": [f"{n} " for n in range(1000)]}))
    assert len(warnings) == 2
    assert '"0 " (and 999 more of its tags)' in warnings[1]
    assert max(map(len, warnings)) < 250


def test_the_check_of_the_node_itself_cannot_be_registered_over() -> None:
    """Who deregistered it again would have made the whole node go missing."""
    wanted = 'Invalid check: "serfHealth" is the check of the node itself; choose another CheckID'
    with pytest.raises(BadDefinition) as refusal:
        validate_check(decode_check({"Name": "c", "CheckID": "serfHealth", "TTL": "10s"}))
    assert str(refusal.value) == wanted
    with pytest.raises(BadDefinition):
        validate_service(decode_service({"Name": "a", "Check": {"CheckID": "serfHealth", "TTL": "10s"}}))


def test_times_below_their_floor_are_raised_with_a_warning() -> None:
    check = decode_check(
        {"Name": "c", "HTTP": "http://x", "Interval": "0.5s", "DeregisterCriticalServiceAfter": "1s"}
    )
    assert check.effective_interval_ns == 1_000_000_000
    assert check.effective_deregister_ns == 60_000_000_000
    assert validate_check(check) == [
        'check "c": interval 500ms is below the floor, 1s is used',
        'check "c": deregister_critical_service_after 1s is below the floor, 1m0s is used',
    ]


def test_a_service_that_wants_a_sidecar_is_told_that_it_gets_none() -> None:
    (warning,) = validate_service(decode_service({"Name": "a", "Connect": {"SidecarService": {}}}))
    assert "sidecar" in warning
