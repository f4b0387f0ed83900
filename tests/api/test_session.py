"""Sessions: Consul's statuses, texts and shapes, on the shipped store."""

from __future__ import annotations

import re

import pytest
import trio
import trio.testing

from adsum.catalog.replication.deltas import push
from adsum.catalog.replication.items import Item, term
from adsum.gossip.claims import Alive, alive
from adsum.http.response import Response
from adsum.kv import KeyCause, KeyRefusal
from adsum.session import Session, SessionCreate
from tests.api.agents import Asker, FakeAgent, decoded, header, index_of, refused
from tests.api.test_kv import begun

UNKNOWN = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
CREATE = "/v1/session/create"


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def created(asker: Asker, body: object = b"") -> str:
    answer = decoded(await asker.put(CREATE, body))
    assert isinstance(answer, dict)
    assert list(answer) == ["ID"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", answer["ID"])
    return str(answer["ID"])


async def info(asker: Asker, session_id: str) -> dict[str, object]:
    answer = await asker.json(f"/v1/session/info/{session_id}")
    assert isinstance(answer, list)
    assert len(answer) == 1
    return dict(answer[0])


async def test_without_a_body_it_has_consul_s_defaults(asker: Asker) -> None:
    session_id = await created(asker)
    assert await info(asker, session_id) == {
        "ID": session_id,
        "Name": "",
        "Node": "n1",
        "LockDelay": 15_000_000_000,
        "Behavior": "release",
        "TTL": "",
        "NodeChecks": ["serfHealth"],
        "ServiceChecks": None,
        "CreateIndex": 1,
        "ModifyIndex": 1,
    }


async def test_what_patroni_asks_for_is_what_it_gets(asker: Asker) -> None:
    body = {"name": "pg", "checks": [], "lockdelay": "0.001s", "behavior": "delete", "ttl": "15.0s"}
    session = await info(asker, await created(asker, body))
    assert (session["Name"], session["LockDelay"], session["Behavior"]) == ("pg", 1_000_000, "delete")
    assert (session["TTL"], session["NodeChecks"]) == ("15.0s", [])


@pytest.mark.parametrize(
    ("body", "checks"),
    [
        ({"NodeChecks": []}, []),
        ({"NodeChecks": None}, []),
        ({"Checks": []}, []),
        ({"Checks": None}, ["serfHealth"]),
        ({"Checks": ["mine"]}, ["serfHealth", "mine"]),
        ({"NodeChecks": ["mine"], "Checks": ["mine"]}, ["mine"]),
        ({"node_checks": ["mine"]}, ["mine"]),
        (None, ["serfHealth"]),
        ({"Bogus": 1, "ID": UNKNOWN}, ["serfHealth"]),
    ],
)
async def test_which_checks_of_the_node_it_hangs_on(asker: Asker, body: object, checks: list[str]) -> None:
    asker.agent.put_service("web")
    await asker.put("/v1/agent/check/register", {"Name": "mine", "TTL": "10s", "Status": "passing"})
    assert (await info(asker, await created(asker, body)))["NodeChecks"] == checks


async def test_checks_of_services_are_shown_as_consul_shows_them(asker: Asker) -> None:
    asker.agent.put_service("web")
    session = await info(asker, await created(asker, {"ServiceChecks": [{"ID": "service:web"}]}))
    assert session["ServiceChecks"] == [{"ID": "service:web", "Namespace": ""}]


@pytest.mark.parametrize(
    ("given", "ns"),
    [
        (5, 5_000_000_000),
        (999, 999_000_000_000),
        (1_000, 1_000),
        (5_000_000_000, 5_000_000_000),
        ("20s", 20_000_000_000),
        ("99h", 356_400_000_000_000),
        (None, 15_000_000_000),
        (True, 0),
        (-1e308, -(2**63)),
        (1e308, 2**63 - 1),
    ],
)
async def test_a_lock_delay_is_a_duration_or_a_number_and_a_small_number_is_one_of_seconds(
    asker: Asker, given: object, ns: int
) -> None:
    assert (await info(asker, await created(asker, {"LockDelay": given})))["LockDelay"] == ns


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"Node": "nope"}, "Missing node registration"),
        ({"Node": ""}, "Must provide Node"),
        ({"NodeChecks": ["x"]}, "Missing check 'x' registration"),
        ({"ServiceChecks": [{"ID": "x"}]}, "Missing check 'x' registration"),
        ({"TTL": "5s"}, "Invalid Session TTL '5000000000', must be between [10s=24h0m0s]"),
        ({"TTL": "-10s"}, "Invalid Session TTL '-10000000000', must be between [10s=24h0m0s]"),
        ({"TTL": "25h"}, "Invalid Session TTL '90000000000000', must be between [10s=24h0m0s]"),
        ({"TTL": "abc"}, "Session TTL 'abc' invalid: time: invalid duration \"abc\""),
        ({"Behavior": "zz"}, "Invalid Behavior setting 'zz'"),
    ],
)
async def test_what_cannot_be_is_refused_in_consul_s_words(asker: Asker, body: object, sentence: str) -> None:
    assert refused(await asker.put(CREATE, body)) == (500, sentence)
    assert await asker.json("/v1/session/list") == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{nojson", "invalid character 'n' looking for beginning of object key string"),
        ({"TTL": 10}, "json: cannot unmarshal number into Go struct field .TTL of type string"),
        ({"LockDelay": "abc"}, 'time: invalid duration "abc"'),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_in_go_s_words(
    asker: Asker, body: object, sentence: str
) -> None:
    assert refused(await asker.put(CREATE, body)) == (400, f"Request decode failed: {sentence}")


async def test_a_check_that_is_critical_is_refused_unless_it_is_a_session_s_own(asker: Asker) -> None:
    asker.agent.put_service("web", status="critical")
    body = {"NodeChecks": [], "ServiceChecks": [{"ID": "service:web"}]}
    assert refused(await asker.put(CREATE, body)) == (500, "Check 'service:web' is in critical state")


async def test_what_was_seen_goes_along_so_that_nobody_ends_it_for_knowing_less(asker: Asker) -> None:
    asker.agent.meet("b")
    for _ in range(2_000):
        asker.agent._perform(asker.agent.core.tick(asker.agent.now()))
    session_id = await created(asker)
    session = asker.agent.consensus.machine.sessions.get(session_id)
    assert session is not None
    me = asker.agent.cluster.membership.me.node_id
    state = asker.agent.cluster.sharing.replication.state(me[:8])
    assert state is not None
    assert (session.node_id, session.generation) == (me, 1)
    assert session.records_version == state.low_water > 0


def hear_push(agent: FakeAgent, member: Alive, generation: int, item: Item, digest: int) -> None:
    """Of a member's records, in gossip."""
    payload = push(member.subject, generation, item.version, digest, [item])
    agent.cluster.sharing.replication.hear(agent.now(), member.subject, (payload,))
    agent.cluster.sharing.settled(agent.now())


async def test_what_came_past_a_gap_was_seen_as_well(asker: Asker) -> None:
    """A check on which a session hangs may have come with it, and whoever has less cannot know of it."""
    b = asker.agent.meet("b")
    first, fifth = Item(0, 1, b"x"), Item(1, 5, b"y")
    hear_push(asker.agent, b, 1, first, term(first))
    hear_push(asker.agent, b, 1, fifth, 1)
    state = asker.agent.cluster.sharing.replication.state(b.subject)
    assert state is not None
    assert (state.low_water, state.version) == (1, 5)
    session_id = await created(asker, {"Node": "b", "NodeChecks": []})
    session = asker.agent.consensus.machine.sessions.get(session_id)
    assert session is not None
    assert (session.generation, session.records_version) == (1, 5)


async def test_records_of_another_life_than_that_of_the_member_are_none_that_were_seen(asker: Asker) -> None:
    b = asker.agent.meet("b")
    first = Item(0, 1, b"x")
    hear_push(asker.agent, b, 1, first, term(first))
    asker.agent.hear(alive(b.profile, 2, 0).encoded)
    session_id = await created(asker, {"Node": "b", "NodeChecks": []})
    session = asker.agent.consensus.machine.sessions.get(session_id)
    assert session is not None
    assert (session.generation, session.records_version) == (2, 0)


async def test_an_agent_that_has_compared_its_copy_with_nobody_holds_a_create_for_what_it_does_not_know(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    asker = Asker()
    asker.agent.cluster.absence.expects_others = True
    answers: list[Response] = []

    async def create() -> None:
        answers.append(await asker.put(CREATE, {"Node": "b", "NodeChecks": []}))

    nursery.start_soon(create)
    await trio.sleep(2)
    assert answers == []
    asker.agent.meet("b")
    await trio.sleep(1)
    assert [response.status for response in answers] == [200]


async def test_such_a_create_is_held_for_so_long_and_then_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asker = Asker()
    asker.agent.cluster.absence.expects_others = True
    assert refused(await asker.put(CREATE, {"Node": "b"})) == (500, "Missing node registration")
    assert trio.current_time() == pytest.approx(7)


# Renewed, destroyed.


async def test_renewing_shows_it_and_of_one_that_is_gone_says_so(asker: Asker) -> None:
    session_id = await created(asker, {"TTL": "10s"})
    assert decoded(await asker.put(f"/v1/session/renew/{session_id}")) == [await info(asker, session_id)]
    response = await asker.put(f"/v1/session/renew/{UNKNOWN}")
    assert refused(response) == (404, f"Session id '{UNKNOWN}' not found")


async def test_a_renewal_that_no_leader_has_confirmed_is_not_acknowledged(asker: Asker) -> None:
    session_id = await created(asker)
    asker.agent.consensus.renewals.refuses = KeyRefusal(KeyCause.NO_LEADER, "an election is on")
    response = await asker.put(f"/v1/session/renew/{session_id}")
    assert refused(response) == (500, "No cluster leader")
    assert header(response, "X-Adsum-Reason") == "an election is on"


async def test_destroying_is_done_however_often_it_is_asked_for(asker: Asker) -> None:
    session_id = await created(asker)
    for _ in range(2):
        assert decoded(await asker.put(f"/v1/session/destroy/{session_id}")) is True
    assert await asker.json(f"/v1/session/info/{session_id}") == []


@pytest.mark.parametrize("path", ["destroy", "renew"])
async def test_who_names_no_session_is_told_so(asker: Asker, path: str) -> None:
    assert refused(await asker.put(f"/v1/session/{path}/")) == (400, "Missing session")
    sentence = "failed session lookup: index error: UUID must be 36 characters"
    assert refused(await asker.put(f"/v1/session/{path}/foo")) == (500, sentence)


async def test_what_is_no_id_is_refused_where_sessions_are_shown(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/session/info/")) == (400, "Missing session")
    assert refused(await asker.ask("/v1/session/node/")) == (400, "Missing node name")
    response = await asker.ask("/v1/session/info/foo")
    assert refused(response) == (500, "failed session lookup: index error: UUID must be 36 characters")
    assert header(response, "X-Consul-Index") == "1"


async def test_other_datacenters_are_refused_wherever_they_are_named(asker: Asker) -> None:
    for method, path in (("PUT", CREATE), ("GET", "/v1/session/list")):
        assert refused(await asker.ask(f"{path}?dc=zz", method)) == (500, "No path to datacenter")


# Shown.


async def test_lists_are_by_id_and_those_of_a_node_by_its_name_in_any_case(asker: Asker) -> None:
    asker.agent.meet("b")
    mine = sorted([await created(asker), await created(asker)])
    others = await created(asker, {"Node": "b"})
    assert await ids(asker, "list") == sorted([*mine, others])
    assert await ids(asker, "node/N1") == mine
    assert await ids(asker, "node/b") == [others]
    assert await ids(asker, "node/nope") == []


async def test_an_answer_has_an_index_and_whoever_waits_with_it_is_woken_by_the_next_session(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    asker = Asker()
    await created(asker)
    response = await asker.ask("/v1/session/list")
    meta = ("X-Consul-Index", "X-Consul-Knownleader", "X-Consul-Lastcontact")
    assert [header(response, name) for name in meta] == ["1", "true", "0"]
    answers: list[Response] = []

    async def wait() -> None:
        answers.append(await asker.ask("/v1/session/list?index=1&wait=60s"))

    nursery.start_soon(wait)
    await trio.sleep(1)
    await asker.put("/v1/kv/k", b"v")
    await trio.sleep(1)
    assert answers == []
    await created(asker)
    await trio.sleep(1)
    assert [index_of(answer) for answer in answers] == [3]


async def test_a_wait_that_runs_out_shows_what_there_is_under_the_same_index(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asker = Asker()
    session_id = await created(asker)
    response = await asker.ask(f"/v1/session/info/{session_id}?index=1&wait=2s")
    assert 2 <= trio.current_time() <= 2.125
    assert index_of(response) == 1


async def test_a_stale_answer_says_how_stale_it_may_be_and_a_default_one_needs_a_leader(
    asker: Asker,
) -> None:
    await created(asker)
    consensus = asker.agent.consensus
    consensus.leader, consensus.behind_ms = None, 1_200
    response = await asker.ask("/v1/session/list?stale")
    assert header(response, "X-Consul-Knownleader") == "false"
    assert header(response, "X-Consul-Lastcontact") == "1200"


async def test_ten_thousand_sessions_are_one_answer(asker: Asker) -> None:
    for number in range(10_000):
        session = Session(f"00000000-0000-0000-0000-{number:012}", "n1", b"n" * 16, 1, 0)
        asker.agent.keys.write(SessionCreate(session), lambda _answer: None)
    listed = await asker.json("/v1/session/list")
    assert isinstance(listed, list)
    assert len(listed) == 10_000


async def ids(asker: Asker, path: str) -> list[str]:
    listed = await asker.json(f"/v1/session/{path}")
    assert isinstance(listed, list)
    return [each["ID"] for each in listed]


# Explained.


async def explained(asker: Asker, session_id: str) -> dict[str, object]:
    answer = await asker.json(f"/v1/explain/session/{session_id}")
    assert isinstance(answer, dict)
    return answer


async def test_one_that_lives_is_explained_by_what_it_holds_and_what_would_end_it(asker: Asker) -> None:
    session_id = await created(asker, {"Name": "db", "TTL": "10s"})
    await asker.put(f"/v1/kv/l?acquire={session_id}", b"secret")
    told = await explained(asker, session_id)
    assert (told["Status"], told["Keys"], told["KeysTotal"], told["Ended"]) == ("alive", ["l"], 1, None)
    assert str(told["Summary"]).startswith(f"Session {session_id} (db) of node n1 has been alive for ")
    assert told["Ends"] == [
        "somebody destroys it",
        "nobody renews it for twice its TTL of 10s",
        "node n1 leaves or is deregistered",
        "check serfHealth is critical or is deregistered",
    ]


async def test_one_that_ended_is_explained_by_its_cause_and_evidence(asker: Asker) -> None:
    session_id = await created(asker)
    await asker.put(f"/v1/kv/l?acquire={session_id}", b"secret")
    await asker.put(f"/v1/session/destroy/{session_id}")
    told = await explained(asker, session_id)
    assert (told["Status"], told["KeysTotal"], told["Ends"]) == ("ended", 0, [])
    ended = told["Ended"]
    assert isinstance(ended, dict)
    assert (ended["Cause"], ended["Keys"], ended["Index"]) == ("destroyed", 1, 3)
    assert " ago: a client destroyed it. " in str(told["Summary"])
    assert str(told["Summary"]).endswith("It let go of one key.")


async def test_one_that_nobody_remembers_is_not_found(asker: Asker) -> None:
    status, sentence = refused(await asker.ask(f"/v1/explain/session/{UNKNOWN}"))
    assert status == 404
    assert sentence.startswith(f"There is no session {UNKNOWN}, and nobody remembers one")


# Without a task.


async def test_what_waits_for_nothing_but_the_store_is_answered_as_by_a_task(asker: Asker) -> None:
    await asker.put("/v1/session/list")
    (answer,) = begun(asker, "PUT", CREATE, b'{"TTL": "10s"}') or []
    told = decoded(answer)
    assert isinstance(told, dict)
    (renewed,) = begun(asker, "PUT", f"/v1/session/renew/{told['ID']}?pretty") or []
    other = await asker.put(f"/v1/session/renew/{told['ID']}?pretty")
    assert (renewed.status, renewed.body.plain) == (200, other.body.plain)
    (ended,) = begun(asker, "PUT", f"/v1/session/destroy/{told['ID']}") or []
    assert (ended.status, ended.body.plain) == (200, b"true")
    (gone,) = begun(asker, "PUT", f"/v1/session/renew/{told['ID']}") or []
    assert refused(gone) == (404, f"Session id '{told['ID']}' not found")
    assert refused(gone) == refused(await asker.put(f"/v1/session/renew/{told['ID']}"))
    (unfit,) = begun(asker, "PUT", "/v1/session/destroy/x?dc=dc1") or []
    assert refused(unfit) == refused(await asker.put("/v1/session/destroy/x?dc=dc1"))


async def test_a_session_on_what_is_not_there_is_judged_in_a_task(asker: Asker) -> None:
    await asker.put("/v1/session/list")
    assert begun(asker, "PUT", CREATE, b'{"Node": "nowhere"}') is None
    assert begun(asker, "PUT", CREATE, b'{"NodeChecks": ["none"]}') is None
