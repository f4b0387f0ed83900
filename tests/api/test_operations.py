"""Reload, leave, join, the log, metrics: what operators ask of an agent."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.address import Address
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.api.host import describe_host
from adsum.api.operations import TAKEN_OFF_HERE
from adsum.catalog.definitions import CheckStatus
from adsum.config.errors import ConfigError, ConfigErrors
from adsum.gossip.claims import Profile
from adsum.http.response import Response
from adsum.logs.stream import FOLLOWERS_MAX
from tests.api.agents import CONFIG, Asker, FakeAgent, decoded, refused


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def test_reload_says_what_was_applied_and_what_needs_a_restart(asker: Asker) -> None:
    asker.agent.reloads = [(["log.level"], ["ports.http"])]
    response = await asker.put("/v1/agent/reload")
    assert response.status == 200
    assert decoded(response) == {"Applied": ["log.level"], "NeedsRestart": ["ports.http"]}


async def test_reload_of_a_broken_configuration_names_every_error(asker: Asker) -> None:
    asker.agent.reloads = [ConfigErrors([ConfigError("a.json", "no"), ConfigError("b.json", "neither")])]
    assert refused(await asker.put("/v1/agent/reload")) == (
        500,
        "Nothing was reloaded:\na.json: no\nb.json: neither",
    )


async def test_leave_is_answered_when_the_agent_has_left(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    answered: list[Response] = []

    async def leave() -> None:
        answered.append(await asker.put("/v1/agent/leave"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        assert asker.agent.has_left
        assert answered == []
        asker.agent.gone.set()
    assert [(response.status, response.body.plain) for response in answered] == [(200, b"")]
    assert (await asker.ask("/v1/agent/leave")).status == 405


async def test_maintenance_of_the_node(asker: Asker) -> None:
    response = await asker.put("/v1/agent/maintenance?enable=true&reason=why")
    assert (response.status, response.body.plain) == (200, b"")
    check = asker.agent.own.checks["_node_maintenance"]
    assert (check.status, check.definition.notes) == (CheckStatus.CRITICAL, "why")
    await asker.put("/v1/agent/maintenance?enable=f")
    assert not asker.agent.own.checks
    assert refused(await asker.put("/v1/agent/maintenance")) == (400, "Missing value for enable")


async def test_maintenance_without_a_reason_says_that_nobody_gave_one(asker: Asker) -> None:
    await asker.put("/v1/agent/maintenance?enable=true")
    assert "gave no reason" in asker.agent.own.checks["_node_maintenance"].definition.notes


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:8301"])
async def test_joining_oneself_succeeds(asker: Asker, address: str) -> None:
    assert (await asker.put(f"/v1/agent/join/{address}")).status == 200


async def test_joining_those_who_let_us_in_succeeds(asker: Asker) -> None:
    """The fake network answers nothing, which is no failure."""
    assert (await asker.put("/v1/agent/join/10.0.0.9")).status == 200


@pytest.mark.parametrize(
    ("address", "named"),
    [("10.0.0.9", "10.0.0.9:8301"), ("10.0.0.9:1", "10.0.0.9:1"), ("[fd00::2]:8302", "[fd00::2]:8302")],
)
async def test_joining_others_fails_in_consul_s_form_with_the_reason(
    asker: Asker, address: str, named: str
) -> None:
    asker.agent.dial_error = "its host refused the connection"
    sentence = f"1 error occurred:\n\t* Failed to join {named}: its host refused the connection\n\n"
    assert refused(await asker.put(f"/v1/agent/join/{address}")) == (500, sentence)


@pytest.mark.parametrize("address", ["a%20b", "127.0.0.1:99999", "provider=aws", "", "10.0.0.1,10.0.0.2"])
async def test_what_can_be_no_address_is_refused_with_the_forms_that_can(asker: Asker, address: str) -> None:
    status, sentence = refused(await asker.put(f"/v1/agent/join/{address}"))
    assert status == 500
    assert sentence.startswith("1 error occurred:\n\t* Failed to resolve ")
    assert sentence.endswith("\n\n")


async def test_joining_across_datacenters_is_for_servers_and_not_here_yet(asker: Asker) -> None:
    status, sentence = refused(await asker.put("/v1/agent/join/10.0.0.9?wan=1"))
    assert (status, "does not connect datacenters" in sentence) == (500, True)
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    assert refused(await client.put("/v1/agent/join/10.0.0.9?wan=1")) == (
        500,
        "Must be a server to join WAN cluster",
    )


async def test_a_server_without_which_nobody_could_write_leaves_only_when_it_is_forced(asker: Asker) -> None:
    agent = asker.agent
    me = agent.cluster.membership.me.node_id
    others = [agent.meet(name, is_server=True).profile.node_id for name in ("s2", "s3")]
    gone = b"gone" * 4
    agent.see_leader(me, (me, others[0], gone))
    assert refused(await asker.put("/v1/agent/leave")) == (
        500,
        (
            "1 of the 2 servers that would stay cannot be reached, so without this one nobody could write "
            "keys any more; bring them back first, or leave with force"
        ),
    )
    assert not agent.has_left
    agent.gone.set()
    assert (await asker.put("/v1/agent/leave?force")).status == 200
    agent.see_leader(me, (me, *others))
    assert (await asker.put("/v1/agent/leave")).status == 200


async def test_force_leave_of_the_unknown_is_refused_and_of_the_living_changes_nothing(asker: Asker) -> None:
    assert refused(await asker.put("/v1/agent/force-leave/zz")) == (
        500,
        "agent: No node found with name 'zz'",
    )
    assert (await asker.put("/v1/agent/force-leave/N1?prune")).status == 200
    assert asker.agent.view.node("n1") is not None


async def test_a_failed_member_is_declared_gone_and_pruned_off_the_list(asker: Asker) -> None:
    web, other = asker.agent.meet("web"), asker.agent.meet("other", "127.0.0.3")
    asker.agent.fail(web, other)
    assert await statuses(asker) == {"n1": 1, "other": 1, "web": 4}
    assert (await asker.put("/v1/agent/force-leave/WEB")).status == 200
    assert await statuses(asker) == {"n1": 1, "other": 1, "web": 3}
    assert asker.agent.view.node("web") is None
    assert (await asker.put("/v1/agent/force-leave/web?prune")).status == 200
    assert await statuses(asker) == {"n1": 1, "other": 1}
    assert (await asker.put("/v1/agent/force-leave/web?prune")).status == 500


@pytest.mark.parametrize("query", ["", "?prune"])
async def test_a_node_that_only_the_saved_copy_knows_is_taken_off_here_and_that_is_said(
    asker: Asker, query: str
) -> None:
    agent = asker.agent
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301), b"")
    agent.cluster.restore(agent.now(), SavedCopy(agent.wall_ms, (SavedOwner(profile, ()),)))
    response = await asker.put(f"/v1/agent/force-leave/M7{query}")
    assert (response.status, response.body.plain.decode()) == (200, TAKEN_OFF_HERE.format("m7"))
    assert agent.view.node("m7") is None
    assert (await asker.put("/v1/agent/force-leave/m7")).status == 500


async def statuses(asker: Asker) -> dict[object, object]:
    members = await asker.json("/v1/agent/members")
    assert isinstance(members, list)
    return {member["Name"]: member["Status"] for member in members}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/acl/bootstrap"),
        ("GET", "/v1/acl/tokens"),
        ("POST", "/v1/acl/login"),
        ("DELETE", "/v1/acl/token/x"),
        ("PUT", "/v1/agent/token/default"),
        ("PUT", "/v1/agent/token/zz"),
    ],
)
async def test_access_control_is_off(asker: Asker, method: str, path: str) -> None:
    assert refused(await asker.ask(path, method, {"Token": "x"})) == (401, "ACL support disabled")


async def test_front_page_names_what_answers(asker: Asker) -> None:
    response = await asker.ask("/")
    assert (response.status, response.body.plain) == (200, b"Consul Agent")


async def test_metrics_come_in_both_forms(asker: Asker) -> None:
    shown = decoded(await asker.ask("/v1/agent/metrics"))
    assert isinstance(shown, dict)
    assert list(shown) == ["Timestamp", "Gauges", "Points", "Counters", "Samples"]
    scrapes = [
        await asker.ask("/metrics"),
        await asker.ask("/v1/agent/metrics?format=prometheus"),
        await asker.ask("/v1/agent/metrics", headers={"Accept": "application/openmetrics-text; version=1"}),
    ]
    for scrape in scrapes:
        assert scrape.status == 200
        assert scrape.content_type.startswith("text/plain; version=0.0.4")
        assert b"adsum_build_info" in scrape.body.plain


async def test_host_tells_of_memory_and_disk(asker: Asker) -> None:
    shown = decoded(await asker.ask("/v1/agent/host"))
    assert isinstance(shown, dict)
    assert list(shown) == ["Memory", "CPU", "Host", "Disk", "CollectionTime", "Errors"]
    assert shown["Errors"] is None
    assert 0 < shown["Memory"]["free"] <= shown["Memory"]["total"]
    assert 0 < shown["Disk"]["used"] < shown["Disk"]["total"]


def test_host_that_tells_nothing_says_why() -> None:
    shown = describe_host("/nowhere/at/all")
    assert shown["Disk"] is None
    assert isinstance(shown["Errors"], list)
    assert "/nowhere/at/all" in shown["Errors"][0]


async def test_monitor_streams_the_log_until_the_client_goes(asker: Asker) -> None:
    root = logging.getLogger()
    level = root.level
    root.addHandler(asker.log_stream)
    try:
        response = await asker.ask("/v1/agent/monitor?loglevel=debug")
        assert response.content_type == "text/plain"
        assert response.chunks is not None
        lines: list[bytes] = []
        async with trio.open_nursery() as nursery:

            async def follow() -> None:
                assert response.chunks is not None
                lines.append(await anext(response.chunks))

            nursery.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            logging.getLogger("agent").debug("a small thing happened")
        await response.chunks.aclose()
    finally:
        root.removeHandler(asker.log_stream)
        root.setLevel(level)
    assert b"[DEBUG] agent: a small thing happened\n" in lines[0]


async def test_unknown_log_level_is_refused(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/agent/monitor?loglevel=bogus")) == (
        400,
        "Bad request: Unknown log level: bogus",
    )


async def test_too_many_followers_of_the_log_are_told(asker: Asker) -> None:
    level = logging.getLogger().level
    try:
        streams = []
        async with trio.open_nursery() as nursery:
            for _ in range(FOLLOWERS_MAX):
                chunks = (await asker.ask("/v1/agent/monitor")).chunks
                assert chunks is not None
                streams.append(chunks)
                nursery.start_soon(chunks.__anext__)
            await trio.testing.wait_all_tasks_blocked()
            one_more = (await asker.ask("/v1/agent/monitor")).chunks
            assert one_more is not None
            assert b"try again later" in await anext(one_more)
            await one_more.aclose()
            nursery.cancel_scope.cancel()
    finally:
        logging.getLogger().setLevel(level)
