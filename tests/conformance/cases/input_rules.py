"""What clients really send: lower case, snake_case, nulls, Go durations, numbers for strings, and plain
mistakes.

Contract section 1.2 asks us to be more lenient than Consul in places (unknown keys, snake_case everywhere);
those cases are differences with a D-id.
"""

from __future__ import annotations

import json

from tests.conformance.case import Case, Family, get, put

SERVICES = get("/v1/agent/services")
CHECKS = get("/v1/agent/checks")


def service(name: str, body: object, query: str = "") -> Case:
    return Case(name, (put(f"/v1/agent/service/register{query}", body), SERVICES, CHECKS))


def check(name: str, body: object) -> Case:
    return Case(name, (put("/v1/agent/check/register", body), CHECKS))


def interval(text: object) -> Case:
    body = {"Name": "c", "TCP": "127.0.0.1:1", "Interval": text}
    return Case(f"interval {json.dumps(text)}", (put("/v1/agent/check/register", body), CHECKS))


SPELLING = (
    service(
        "lower case keys, as python sends them",
        {
            "name": "web",
            "id": "w1",
            "tags": ["a"],
            "port": 80,
            "address": "10.0.0.1",
            "enabletagoverride": True,
            "check": {"ttl": "10m", "status": "passing", "deregistercriticalserviceafter": "1h"},
        },
    ),
    service("upper case keys", {"NAME": "web", "ID": "w1", "TAGS": ["a"], "PORT": 80}),
    service(
        "snake case in a service",
        {
            "name": "web",
            "enable_tag_override": True,
            "tagged_addresses": {"lan": {"address": "10.0.0.1", "port": 1}},
        },
    ),
    service(
        "snake case in a check",
        {
            "name": "web",
            "check": {
                "tcp": "127.0.0.1:1",
                "interval": "1h",
                "deregister_critical_service_after": "2h",
                "tls_skip_verify": True,
            },
        },
    ),
    check("snake case in a check registration", {"name": "c", "ttl": "10m", "service_id": ""}),
    check("script_args", {"name": "c", "script_args": ["true"], "interval": "10s"}),
    check(
        "lower case check registration",
        {"name": "c", "id": "c1", "ttl": "10m", "status": "warning", "notes": "n", "serviceid": ""},
    ),
    service("unknown keys", {"Name": "web", "Bogus": 1}),
    service("unknown keys in a check", {"Name": "web", "Check": {"TTL": "10m", "Bogus": 1}}),
    check("unknown keys in a check registration", {"Name": "c", "TTL": "10m", "Bogus": 1}),
    service("WriteRequest, as py-consul adds it", {"Name": "web", "WriteRequest": {"Token": "t"}}),
)

NULLS = (
    service(
        "nulls, as the Go client sends them",
        {
            "ID": "w1",
            "Name": "web",
            "Tags": None,
            "Port": 80,
            "Address": "",
            "TaggedAddresses": None,
            "Meta": None,
            "EnableTagOverride": False,
            "Weights": None,
            "Check": None,
            "Checks": None,
            "Proxy": None,
            "Connect": None,
        },
    ),
    service("a null name", {"Name": None}),
    service("a null port", {"Name": "web", "Port": None}),
    service("an empty list of checks", {"Name": "web", "Checks": []}),
    service("a null in a list of checks", {"Name": "web", "Checks": [None, {"TTL": "10m"}]}),
    check("nulls in a check", {"Name": "c", "TTL": "10m", "Header": None, "Args": None, "Notes": None}),
    service("an empty object for weights", {"Name": "web", "Weights": {}}),
)

DURATIONS = tuple(
    interval(text)
    for text in (
        "10s", "1m30s", "1500ms", "15.0s", "1h", "2h45m", "15.000000s", "15", "abc", "", "1d",
        3600_000_000_000, 1.5e12, "1h ", "-1h", "0", 0, True, "1µs", "9999999h",
    )
)  # fmt: skip

MISTAKES = (
    service("no body", None),
    service("an empty body", ""),
    service("bad JSON", "{"),
    service("not JSON", "hello"),
    service("a list", "[]"),
    service("null", "null"),
    service("a string", '"web"'),
    service("two documents", '{"Name":"web"}{"Name":"api"}'),
    service("trailing text", '{"Name":"web"} x'),
    service("a port as a string", {"Name": "web", "Port": "80"}),
    service("a port as a fraction", {"Name": "web", "Port": 80.5}),
    service("a name as a number", {"Name": 1}),
    service("tags as a string", {"Name": "web", "Tags": "a"}),
    service("tags of numbers", {"Name": "web", "Tags": [1]}),
    service("meta of numbers", {"Name": "web", "Meta": {"k": 1}}),
    service("a check as a list", {"Name": "web", "Check": [{"TTL": "10m"}]}),
    service("checks as an object", {"Name": "web", "Checks": {"TTL": "10m"}}),
    service("a boolean as a string", {"Name": "web", "EnableTagOverride": "true"}),
    service("weights as a number", {"Name": "web", "Weights": 5}),
    service("a key twice", '{"Name":"web","Name":"api"}'),
    service("unicode", {"Name": "wéb", "Tags": ["ü", "日本"], "Meta": {"k": "ü"}}),
    service("escaped unicode and HTML characters", '{"Name":"web","Meta":{"k":"<a>&\\u00fc"}}'),
    service("an odd replace-existing-checks", {"Name": "web"}, "?replace-existing-checks=maybe"),
    check("check: no body", None),
    check("check: bad JSON", "{"),
    check("check: a name as a number", {"Name": 1, "TTL": "10m"}),
    check(
        "check: a header as a string",
        {"Name": "c", "HTTP": "http://127.0.0.1:1", "Interval": "1h", "Header": {"X": "1"}},
    ),
    check("check: a threshold as a string", {"Name": "c", "TTL": "10m", "SuccessBeforePassing": "1"}),
)

FAMILY = Family("input rules", SPELLING + NULLS + DURATIONS + MISTAKES)
