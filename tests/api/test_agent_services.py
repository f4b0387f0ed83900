"""/v1/agent/service…: registration as clients write it, and own services as Consul shows them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.catalog.definitions import CheckStatus
from adsum.config.config import Config
from adsum.http.response import Response
from tests.api.agents import Asker, FakeAgent, decoded, header, refused

REGISTER = "/v1/agent/service/register"
SCRIPTS_DISABLED = (
    "Scripts are disabled on this agent from remote calls; "
    "to enable, configure 'enable_script_checks' to true"
)
WEB = {
    "ID": "web1",
    "Name": "web",
    "Tags": ["a", "b"],
    "Port": 80,
    "Meta": {"k": "v"},
    "TaggedAddresses": {"lan": {"Address": "10.0.0.1", "Port": 8}},
    "Weights": {"Passing": 5, "Warning": 2},
    "Check": {"TTL": "30s"},
}
WEB_SHOWN = (
    b'{"ID":"web1","Service":"web","Tags":["a","b"],"Meta":{"k":"v"},"Port":80,"Address":"",'
    b'"TaggedAddresses":{"lan":{"Address":"10.0.0.1","Port":8}},"Weights":{"Passing":5,"Warning":2},'
    b'"EnableTagOverride":false'
)


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def registered(asker: Asker, body: object, query: str = "") -> Response:
    response = await asker.put(REGISTER + query, body)
    assert response.status == 200, response.body.plain
    return response


async def test_registration_is_answered_with_nothing_and_shown_as_consul_shows_it(asker: Asker) -> None:
    response = await registered(asker, WEB)
    assert (response.body.plain, response.content_type) == (b"", "")
    shown = await asker.ask("/v1/agent/services")
    assert shown.body.plain == b'{"web1":' + WEB_SHOWN + b"}}"
    assert header(shown, "X-Consul-Index") is None


async def test_one_service_has_its_hash_in_body_and_header(asker: Asker) -> None:
    await registered(asker, WEB)
    response = await asker.ask("/v1/agent/service/web1")
    content_hash = header(response, "X-Consul-Contenthash")
    assert content_hash is not None
    assert response.body.plain == WEB_SHOWN + b',"ContentHash":"' + content_hash.encode() + b'"}'


async def test_proxies_show_what_they_stand_for_after_the_hash(asker: Asker) -> None:
    body = {"Name": "px", "Kind": "connect-proxy", "Port": 1, "Proxy": {"DestinationServiceName": "web"}}
    await registered(asker, body)
    await registered(asker, {"Name": "native", "Connect": {"Native": True}})
    proxy = await asker.ask("/v1/agent/service/px")
    assert proxy.body.plain.startswith(b'{"Kind":"connect-proxy","ID":"px"')
    assert proxy.body.plain.endswith(
        b'","Proxy":{"DestinationServiceName":"web","MeshGateway":{},"Expose":{}}}'
    )
    assert (await asker.ask("/v1/agent/service/native")).body.plain.endswith(b',"Connect":{"Native":true}}')


async def test_address_is_tagged_with_its_family(asker: Asker) -> None:
    await registered(asker, {"Name": "four", "Address": "10.0.0.2", "Port": 81})
    await registered(asker, {"Name": "six", "Address": "2001:db8::1", "Port": 82})
    await registered(asker, {"Name": "name", "Address": "db.example", "Port": 83})
    services = await asker.json("/v1/agent/services")
    assert isinstance(services, dict)
    own = {"Address": "10.0.0.2", "Port": 81}
    assert services["four"]["TaggedAddresses"] == {"lan_ipv4": own, "wan_ipv4": own}
    assert set(services["six"]["TaggedAddresses"]) == {"lan_ipv6", "wan_ipv6"}
    assert "TaggedAddresses" not in services["name"]


async def test_given_tagged_address_wins_over_its_family_s(asker: Asker) -> None:
    given = {"lan_ipv4": {"Address": "10.9.9.9", "Port": 1}}
    await registered(asker, {"Name": "four", "Address": "10.0.0.2", "TaggedAddresses": given})
    services = await asker.json("/v1/agent/services")
    assert isinstance(services, dict)
    assert services["four"]["TaggedAddresses"]["lan_ipv4"] == {"Address": "10.9.9.9", "Port": 1}


async def test_registering_again_keeps_what_checks_say_and_the_checks_it_does_not_name(asker: Asker) -> None:
    await registered(asker, WEB)
    asker.agent.report("service:web1", CheckStatus.PASSING, "fine")
    await registered(asker, WEB)
    assert asker.agent.own.checks["service:web1"].status is CheckStatus.PASSING
    await registered(asker, {**WEB, "Check": None})
    assert "service:web1" in asker.agent.own.checks


@pytest.mark.parametrize(
    ("query", "is_kept"),
    [
        ("", True),
        ("?replace-existing-checks", False),
        ("?replace-existing-checks=true", False),
        ("?replace-existing-checks=false", True),
        ("?replace-existing-checks=zz", True),
    ],
)
async def test_replacing_existing_checks_drops_the_others(asker: Asker, query: str, is_kept: bool) -> None:
    await registered(asker, WEB)
    await registered(asker, {**WEB, "Check": None}, query)
    assert ("service:web1" in asker.agent.own.checks) is is_kept


async def test_python_clients_spell_in_lower_case_and_some_send_post(asker: Asker) -> None:
    body = {"name": "web", "id": "w", "enabletagoverride": True, "check": {"ttl": "10s"}, "WriteRequest": {}}
    assert (await asker.ask(REGISTER, "POST", body)).status == 200
    assert asker.agent.own.services["w"].definition.enable_tag_override
    assert list(asker.agent.own.checks) == ["service:w"]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"", (400, "Request decode failed: EOF")),
        (b"{", (400, "Request decode failed: unexpected EOF")),
        ({}, (400, "Missing service name")),
        (None, (400, "Missing service name")),
        (
            {"Name": "a", "Port": "80"},
            (
                400,
                "Request decode failed: json: cannot unmarshal string into Go struct field .Port of type int",
            ),
        ),
        ({"Name": "a", "Address": "0.0.0.0"}, (400, "Invalid service address")),
        ({"Name": "a", "Check": {"Name": "x"}}, (400, "Invalid check: TTL must be > 0 for TTL checks")),
        (
            {"Name": "a", "Check": {"TTL": "15"}},
            (400, 'Request decode failed: time: missing unit in duration "15"'),
        ),
        (
            {"Name": "a", "Check": {"Args": ["true"], "Interval": "10s"}},
            (500, SCRIPTS_DISABLED),
        ),
    ],
)
async def test_bad_registrations_change_nothing_and_say_why(
    asker: Asker, body: object, refusal: tuple[int, str]
) -> None:
    assert refused(await asker.put(REGISTER, body)) == refusal
    assert not asker.agent.own.services


async def test_scripts_run_where_the_operator_allows_them() -> None:
    asker = Asker(FakeAgent(Config(node_name="n1", enable_script_checks=True)))
    await registered(asker, {"Name": "a", "Check": {"Args": ["true"], "Interval": "10s"}})
    assert list(asker.agent.own.checks) == ["service:a"]


async def test_deregistering_is_answered_alike_whether_it_was_there_or_not(asker: Asker) -> None:
    await registered(asker, {**WEB, "ID": "batman/pg 0"})
    for _ in range(2):
        response = await asker.put("/v1/agent/service/deregister/batman/pg%200")
        assert (response.status, response.body.plain) == (200, b"")
        assert not asker.agent.own.services
    assert refused(await asker.put("/v1/agent/service/deregister/")) == (500, "ServiceID missing")


async def test_unknown_service_is_named(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/agent/service/zz")) == (404, "unknown service ID: zz")


async def test_maintenance_is_a_critical_check(asker: Asker) -> None:
    await registered(asker, WEB)
    response = await asker.put("/v1/agent/service/maintenance/web1?enable=True&reason=why")
    assert (response.status, response.body.plain) == (200, b"")
    check = asker.agent.own.checks["_service_maintenance:web1"]
    assert (check.status, check.definition.notes) == (CheckStatus.CRITICAL, "why")
    await asker.put("/v1/agent/service/maintenance/web1?enable=0")
    assert "_service_maintenance:web1" not in asker.agent.own.checks


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("?enable=true", (400, "Missing service ID")),
        ("web1", (400, "Missing value for enable")),
        ("web1?enable=maybe", (400, 'Invalid value for enable: "maybe"')),
        ("zz?enable=true", (404, 'No service registered with ID "zz"')),
    ],
)
async def test_bad_maintenance_is_refused(asker: Asker, target: str, refusal: tuple[int, str]) -> None:
    await registered(asker, WEB)
    assert refused(await asker.put(f"/v1/agent/service/maintenance/{target}")) == refusal


async def test_own_services_can_be_filtered(asker: Asker) -> None:
    await registered(asker, WEB)
    await registered(asker, {"Name": "db"})
    shown = await asker.json("/v1/agent/services?filter=Port==80")
    assert isinstance(shown, dict)
    assert list(shown) == ["web1"]
    bad = await asker.ask("/v1/agent/services?filter=Nope==1")
    assert refused(bad)[0] == 400
    assert bad.headers == ()


async def test_hash_waits_until_the_service_is_another(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await registered(asker, WEB)
    known = header(await asker.ask("/v1/agent/service/web1"), "X-Consul-Contenthash")
    target = f"/v1/agent/service/web1?hash={known}&wait=10s"
    answers = []

    async def ask() -> None:
        answers.append((await asker.ask(target), trio.current_time()))

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        await registered(asker, {"Name": "db"})
        await trio.testing.wait_all_tasks_blocked()
        assert not answers
        await registered(asker, {**WEB, "Port": 81})
    assert answers[0][1] == begun
    assert header(answers[0][0], "X-Consul-Contenthash") != known
    assert asker.agent.watches.waiting == 0


async def test_hash_that_stays_is_answered_when_the_wait_is_over(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await registered(asker, WEB)
    first = await asker.ask("/v1/agent/service/web1")
    begun = trio.current_time()
    known = header(first, "X-Consul-Contenthash")
    again = await asker.ask(f"/v1/agent/service/web1?hash={known}&wait=10s")
    assert trio.current_time() - begun == 10
    assert decoded(again) == decoded(first)
    unknown = await asker.ask("/v1/agent/service/web1?hash=zz&wait=10s")
    assert trio.current_time() - begun == 10
    assert decoded(unknown) == decoded(first)


async def test_service_that_goes_while_its_hash_is_waited_for_is_unknown(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await registered(asker, WEB)
    known = header(await asker.ask("/v1/agent/service/web1"), "X-Consul-Contenthash")
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await asker.ask(f"/v1/agent/service/web1?hash={known}&wait=10s"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        await asker.put("/v1/agent/service/deregister/web1")
    assert refused(answers[0]) == (404, "unknown service ID: web1")


async def test_warnings_are_few_and_not_repeated_with_the_registration(
    asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    """Registrators register again every few seconds, and a body has room for thousands of odd checks."""
    checks = [{"TCP": "127.0.0.1:1", "Interval": "1ms"} for _ in range(100)]
    for _ in range(3):
        await registered(asker, {"Name": "web", "Checks": checks})
    assert len(caplog.messages) == 9
    assert caplog.messages[-1] == "92 more warnings of this registration are not shown"
