"""The verdict as a status code: what load balancers ask."""

from __future__ import annotations

import pytest

from adsum.agent.commands import RegisterCheck, SetNodeMaintenance, SetServiceMaintenance
from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.now import SECOND
from tests.api.agents import Asker, decoded, header, refused

BY_ID = "/v1/agent/health/service/id/"
BY_NAME = "/v1/agent/health/service/name/"
DEFINITION = (
    b'"Type":"","Definition":{"Interval":"0s","Timeout":"0s","DeregisterCriticalServiceAfter":"0s",'
    b'"HTTP":"","Header":null,"Method":"","Body":"","TLSSkipVerify":false,"TCP":""},'
    b'"CreateIndex":0,"ModifyIndex":0}'
)


@pytest.fixture
def asker() -> Asker:
    asker = Asker()
    asker.agent.put_service("web1", "web")
    return asker


async def verdict(asker: Asker, target: str) -> tuple[int, str | None, bytes]:
    response = await asker.ask(f"{target}?format=text")
    assert response.content_type == "text/plain"
    return response.status, header(response, "X-Consul-Reason"), response.body.plain


async def test_entry_is_consul_s_field_for_field(asker: Asker) -> None:
    response = await asker.ask(BY_ID + "web1")
    assert response.status == 200
    assert response.body.plain == (
        b'{"AggregatedStatus":"passing","Service":{"ID":"web1","Service":"web","Tags":[],"Meta":{},"Port":0,'
        b'"Address":"","Weights":{"Passing":1,"Warning":1},"EnableTagOverride":false},"Checks":[{"Node":"n1",'
        b'"CheckID":"service:web1","Name":"alive","Status":"passing","Notes":"","Output":"",'
        b'"ServiceID":"web1","ServiceName":"web","ServiceTags":null,' + DEFINITION + b"]}"
    )


@pytest.mark.parametrize(("status", "code"), [("passing", 200), ("warning", 429), ("critical", 503)])
async def test_status_code_is_the_verdict(asker: Asker, status: str, code: int) -> None:
    asker.agent.report("service:web1", CheckStatus(status))
    for target in (BY_ID + "web1", BY_NAME + "web"):
        assert await verdict(asker, target) == (code, status, status.encode())


async def test_worst_of_the_instances_of_a_name_counts(asker: Asker) -> None:
    asker.agent.put_service("web2", "web", status="warning")
    response = await asker.ask(BY_NAME + "web")
    assert response.status == 429
    entries = decoded(response)
    assert isinstance(entries, list)
    assert [entry["AggregatedStatus"] for entry in entries] == ["passing", "warning"]


async def test_node_s_own_checks_count_for_every_service(asker: Asker) -> None:
    check = CheckDefinition(check_id="mem", name="mem", ttl_ns=SECOND, status=CheckStatus.WARNING)
    asker.agent.obey(RegisterCheck(check))
    assert await verdict(asker, BY_ID + "web1") == (429, "warning", b"warning")


async def test_maintenance_comes_before_all(asker: Asker) -> None:
    asker.agent.report("service:web1", CheckStatus.CRITICAL)
    asker.agent.obey(SetServiceMaintenance("web1", is_enabled=True))
    assert await verdict(asker, BY_ID + "web1") == (503, "maintenance", b"maintenance")
    asker.agent.obey(SetServiceMaintenance("web1", is_enabled=False))
    asker.agent.obey(SetNodeMaintenance(is_enabled=True))
    assert await verdict(asker, BY_NAME + "web") == (503, "maintenance", b"maintenance")


async def test_service_without_checks_passes(asker: Asker) -> None:
    await asker.put("/v1/agent/service/register", {"Name": "bare"})
    assert await verdict(asker, BY_ID + "bare") == (200, "passing", b"passing")


async def test_text_may_be_asked_for_by_header(asker: Asker) -> None:
    response = await asker.ask(BY_ID + "web1", headers={"Accept": "text/plain"})
    assert response.body.plain == b"passing"


async def test_what_is_not_here_is_not_found(asker: Asker) -> None:
    by_id, by_name = await asker.ask(BY_ID + "zz"), await asker.ask(BY_NAME + "zz")
    assert (by_id.status, by_name.status) == (404, 404)
    assert decoded(by_id) == {"AggregatedStatus": "critical", "Service": None, "Checks": None}
    assert decoded(by_name) == []
    assert header(by_id, "X-Consul-Reason") == "ServiceId zz not found"
    assert header(by_name, "X-Consul-Reason") == "ServiceName zz Not Found"
    assert decoded(await asker.ask(BY_ID + "zz?format=text")) == "ServiceId zz not found"
    as_text = await asker.ask(BY_NAME + "zz?format=text")
    assert (as_text.content_type, as_text.body.plain) == ("text/plain", b"ServiceName zz Not Found")


async def test_missing_ids_are_named(asker: Asker) -> None:
    assert refused(await asker.ask(BY_ID)) == (500, "Bad request: Missing serviceID")
    assert refused(await asker.ask(BY_NAME)) == (500, "Bad request: Missing service Name")
