"""/v1/agent/check…: registration, reports, and this agent's own checks as Consul shows them."""

from __future__ import annotations

import pytest

from adsum.catalog.definitions import CheckStatus
from tests.api.agents import Asker, header, refused

REGISTER = "/v1/agent/check/register"
SCRIPTS_DISABLED = (
    "Scripts are disabled on this agent from remote calls; "
    "to enable, configure 'enable_script_checks' to true"
)
STATUS_IS_NO_STRING = (
    "Request decode failed: json: cannot unmarshal number into Go struct field checkUpdate.Status of type "
    "string"
)
MEM = {"ID": "mem/1", "Name": "memory", "TTL": "15s", "Notes": "hi"}


@pytest.fixture
async def asker() -> Asker:
    asker = Asker()
    response = await asker.put(REGISTER, MEM)
    assert (response.status, response.body.plain) == (200, b"")
    return asker


async def test_own_checks_are_shown_as_consul_shows_them(asker: Asker) -> None:
    response = await asker.ask("/v1/agent/checks")
    assert response.body.plain == (
        b'{"mem/1":{"Node":"n1","CheckID":"mem/1","Name":"memory","Status":"critical","Notes":"hi",'
        b'"Output":"","ServiceID":"","ServiceName":"","ServiceTags":[],"Type":"ttl","Definition":{},'
        b'"CreateIndex":0,"ModifyIndex":0}}'
    )
    assert header(response, "X-Consul-Index") is None


async def test_checks_of_a_service_carry_its_name_and_tags(asker: Asker) -> None:
    asker.agent.put_service("web1", "web", tags=("a",))
    shown = await asker.json("/v1/agent/checks?filter=ServiceID==web1")
    assert isinstance(shown, dict)
    assert list(shown) == ["service:web1"]
    assert (shown["service:web1"]["ServiceName"], shown["service:web1"]["ServiceTags"]) == ("web", ["a"])


@pytest.mark.parametrize(
    ("verb", "status"),
    [("pass", CheckStatus.PASSING), ("warn", CheckStatus.WARNING), ("fail", CheckStatus.CRITICAL)],
)
async def test_reports_set_status_and_note(asker: Asker, verb: str, status: CheckStatus) -> None:
    response = await asker.put(f"/v1/agent/check/{verb}/mem/1?note=so+so")
    assert (response.status, response.body.plain) == (200, b"")
    check = asker.agent.own.checks["mem/1"]
    assert (check.status, check.output) == (status, "so so")
    assert await asker.json("/v1/agent/checks?filter=Output==`so so`")


async def test_update_sets_both_from_a_body_in_any_case(asker: Asker) -> None:
    response = await asker.put("/v1/agent/check/update/mem%2F1", {"status": "warning", "OUTPUT": "o"})
    assert (response.status, response.body.plain) == (200, b"")
    check = asker.agent.own.checks["mem/1"]
    assert (check.status, check.output) == (CheckStatus.WARNING, "o")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"Status": "xx"}, "Invalid check status: 'xx'"),
        ({}, "Invalid check status: ''"),
        (None, "Invalid check status: ''"),
        ({"Status": None}, "Invalid check status: ''"),
        (b"", "Request decode failed: EOF"),
        (
            {"Status": 5},
            STATUS_IS_NO_STRING,
        ),
        ([], "Request decode failed: json: cannot unmarshal array into Go value of type agent.checkUpdate"),
    ],
)
async def test_bad_updates_are_refused(asker: Asker, body: object, sentence: str) -> None:
    assert refused(await asker.put("/v1/agent/check/update/mem/1", body)) == (400, sentence)


async def test_filter_is_read_even_where_there_is_nothing_to_filter() -> None:
    status, sentence = refused(await Asker().ask("/v1/agent/checks?filter=Nope==1"))
    assert status == 400
    assert sentence.endswith('Selector "Nope" is not valid')


async def test_unknown_check_is_not_found_and_one_without_ttl_cannot_be_reported(asker: Asker) -> None:
    await asker.put(REGISTER, {"Name": "tcp", "TCP": "127.0.0.1:1", "Interval": "10s"})
    for target, body in [("pass/", b""), ("update/", {"Status": "passing"})]:
        path = f"/v1/agent/check/{target}"
        assert refused(await asker.put(f"{path}zz", body)) == (
            404,
            'Unknown check ID "zz". Ensure that the check ID is passed, not the check name.',
        )
        assert refused(await asker.put(f"{path}tcp", body)) == (
            500,
            'CheckID "tcp" does not have associated TTL',
        )


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"", (400, "Request decode failed: EOF")),
        ({}, (400, "Missing check name")),
        ({"Name": "a"}, (400, "Invalid check: TTL must be > 0 for TTL checks")),
        ({"Name": "a", "TTL": "10s", "Status": "zz"}, (400, "Bad check status")),
        ({"Name": "a", "TTL": "10s", "ServiceID": "nope"}, (500, 'ServiceID "nope" does not exist')),
        (
            {"Name": "a", "Args": ["true"], "Interval": "10s"},
            (500, SCRIPTS_DISABLED),
        ),
    ],
)
async def test_bad_registrations_change_nothing_and_say_why(
    asker: Asker, body: object, refusal: tuple[int, str]
) -> None:
    assert refused(await asker.put(REGISTER, body)) == refusal
    assert list(asker.agent.own.checks) == ["mem/1"]


async def test_deregistering_is_answered_alike_whether_it_was_there_or_not(asker: Asker) -> None:
    for _ in range(2):
        response = await asker.put("/v1/agent/check/deregister/mem/1")
        assert (response.status, response.body.plain) == (200, b"")
        assert not asker.agent.own.checks
    assert refused(await asker.put("/v1/agent/check/deregister/")) == (500, "CheckID missing")
