"""Transactions: all or nothing, with Consul's texts and places."""

from __future__ import annotations

import pytest

from adsum.api.transaction import DONE_UNSEEN, NOT_DONE_UNSEEN, answer_in
from adsum.http.router import HttpRefusal
from adsum.kv import StoreAnswer, StoreOutcome
from tests.api.agents import Asker, decoded, header, refused

TXN = "/v1/txn"


@pytest.fixture
def asker() -> Asker:
    return Asker()


def kv(verb: str, key: str, **fields: object) -> dict[str, object]:
    return {"KV": {"Verb": verb, "Key": key, **fields}}


async def done(asker: Asker, *operations: object) -> list[dict[str, object]]:
    response = await asker.put(TXN, list(operations))
    assert response.status == 200, response.body.plain
    answer = decoded(response)
    assert isinstance(answer, dict)
    assert answer["Errors"] is None
    return list(answer["Results"])


async def failed(asker: Asker, *operations: object) -> list[tuple[int, str]]:
    response = await asker.put(TXN, list(operations))
    assert response.status == 409, response.body.plain
    answer = decoded(response)
    assert isinstance(answer, dict)
    assert answer["Results"] is None
    return [(each["OpIndex"], each["What"]) for each in answer["Errors"]]


async def test_each_operation_sees_those_before_it_and_writes_do_not_repeat_their_values(
    asker: Asker,
) -> None:
    session = decoded(await asker.put("/v1/session/create"))
    assert isinstance(session, dict)
    results = await done(
        asker,
        kv("set", "a", Value="YQ==", Flags=3),
        kv("get", "a"),
        kv("check-not-exists", "b"),
        kv("lock", "a", Value="Yg==", Session=session["ID"]),
        kv("check-session", "a", Session=session["ID"]),
        kv("unlock", "a", Session=session["ID"]),
        kv("get-or-empty", "none"),
        kv("delete", "a"),
        kv("delete-tree", "a"),
    )
    shown = [entry["KV"] for entry in results]
    about = [(each["Key"], each["Value"], each["Flags"], each["LockIndex"]) for each in shown]  # type: ignore[index]
    assert about == [
        ("a", None, 3, 0),
        ("a", "YQ==", 3, 0),
        ("a", None, 0, 1),
        ("a", None, 0, 1),
        ("a", None, 0, 1),
        ("none", None, 0, 0),
    ]
    assert (await asker.ask("/v1/kv/a")).status == 404


async def test_all_that_fail_are_told_with_their_places_and_nothing_is_done(asker: Asker) -> None:
    await asker.put("/v1/kv/t", b"x")
    assert await failed(
        asker,
        kv("set", "new", Value="YQ=="),
        kv("get", "none"),
        kv("check-index", "t", Index=9),
        kv("cas", "t", Index=9),
        kv("check-not-exists", "t"),
        kv("lock", "t", Session=""),
        kv("unlock", "t", Session="foo"),
        kv("delete-cas", "t", Index=9),
    ) == [
        (1, 'key "none" doesn\'t exist'),
        (2, 'failed index check for key "t", current modify index 1 != 9'),
        (3, 'failed to set key "t", index is stale'),
        (4, 'key "t" exists'),
        (5, "missing session"),
        (6, 'failed to unlock key "t", lock isn\'t held, or is held by another session'),
        (7, 'failed to delete key "t", index is stale'),
    ]
    assert (await asker.ask("/v1/kv/new")).status == 404


async def test_one_that_changes_nothing_is_not_in_the_log_and_says_how_old_it_may_be(asker: Asker) -> None:
    await asker.put("/v1/kv/t", b"x")
    consensus = asker.agent.consensus
    consensus.leader, consensus.behind_ms = None, 1_200
    response = await asker.ask(f"{TXN}?stale", "PUT", [kv("get", "t"), kv("get-tree", "none")])
    assert consensus.machine.applied == 1
    assert header(response, "X-Consul-Knownleader") == "false"
    assert header(response, "X-Consul-Lastcontact") == "1200"
    assert header(response, "X-Consul-Index") is None
    answer = decoded(response)
    assert isinstance(answer, dict)
    about = {name: value for name, value in answer.items() if name != "Results"}
    assert about == {
        "Errors": None,
        "Index": 0,
        "LastContact": 1_200_000_000,
        "KnownLeader": False,
        "ConsistencyLevel": "",
    }
    assert [entry["KV"]["Value"] for entry in answer["Results"]] == ["eA=="]


@pytest.mark.parametrize("body", [[], None, [{}], [{"KV": None}]])
async def test_one_without_operations_is_done(asker: Asker, body: object) -> None:
    answer = decoded(await asker.put(TXN, body))
    assert isinstance(answer, dict)
    assert (answer["Results"], answer["Errors"]) == ([], None)
    assert asker.agent.consensus.machine.applied == 0


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "EOF"),
        (b"nojson", "invalid character 'o' in literal null (expecting 'u')"),
        ({}, "json: cannot unmarshal object into Go value of type api.TxnOps"),
        ([kv("set", "a", Value="!!")], "illegal base64 data at input byte 0"),
        (
            [kv("set", "a", Value=5)],
            "json: cannot unmarshal number into Go struct field KVTxnOp.KV.Value of type []uint8",
        ),
        ([{"Session": {"Verb": "delete"}}], 'json: unknown field "Session"'),
    ],
)
async def test_what_cannot_be_read_is_refused_in_go_s_words(
    asker: Asker, body: object, sentence: str
) -> None:
    assert refused(await asker.put(TXN, body)) == (400, f"Failed to parse body: {sentence}")


async def test_too_many_operations_and_too_long_a_body_are_refused(asker: Asker) -> None:
    many = [kv("get-or-empty", "a")] * 129
    sentence = "Transaction contains too many operations (129 > 128)"
    assert refused(await asker.put(TXN, many)) == (413, sentence)
    assert len(await done(asker, *many[:128])) == 128
    status, told = refused(await asker.put(TXN, b" " * (512 * 1024 + 1)))
    assert status == 413
    assert "Request body(524289 bytes) too large" in told


async def test_unknown_verbs_and_missing_names_are_told_before_anything_is_proposed(asker: Asker) -> None:
    assert await failed(
        asker,
        kv("bogus", "a"),
        kv("set", ""),
        {"Node": {"Verb": "bogus", "Node": {"Node": "x"}}},
        {"Service": {"Verb": "set", "Node": "x", "Service": {"ID": "s"}}},
        {"Node": {"Verb": "set", "Node": {}}},
    ) == [
        (0, 'unknown KV verb "bogus"'),
        (1, "Must provide key"),
        (2, 'unknown Node verb "bogus"'),
        (3, "Must provide service name with ID"),
        (4, "Must provide node"),
    ]
    assert asker.agent.consensus.machine.applied == 0


async def test_nodes_services_and_checks_without_an_agent_are_part_of_it(asker: Asker) -> None:
    results = await done(
        asker,
        {"Node": {"Verb": "set", "Node": {"Node": "ext", "Address": "10.0.0.9", "Meta": {"a": "b"}}}},
        {"Service": {"Verb": "set", "Node": "ext", "Service": {"ID": "s1", "Service": "web", "Port": 80}}},
        {"Check": {"Verb": "set", "Check": {"Node": "ext", "CheckID": "c", "ServiceID": "s1"}}},
        {"Check": {"Verb": "get", "Check": {"Node": "ext", "CheckID": "c"}}},
    )
    assert [next(iter(result)) for result in results] == ["Node", "Service", "Check", "Check"]
    check = results[3]["Check"]
    assert isinstance(check, dict)
    assert (check["ServiceName"], check["Status"]) == ("web", "critical")


async def test_what_belongs_to_an_agent_is_its_own_to_change(asker: Asker) -> None:
    [(place, sentence)] = await failed(
        asker, kv("set", "a"), {"Service": {"Verb": "set", "Node": "n1", "Service": {"Service": "web"}}}
    )
    assert place == 1
    assert sentence.startswith('the node "n1" belongs to its agent')
    assert (await asker.ask("/v1/kv/a")).status == 404


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [(StoreOutcome.DONE, DONE_UNSEEN.format(7)), (StoreOutcome.CONFLICT, NOT_DONE_UNSEEN)],
)
async def test_a_repeated_transaction_of_which_only_the_outcome_is_remembered_tells_that(
    outcome: StoreOutcome, sentence: str
) -> None:
    """Answers above some KB are kept without what was told."""
    with pytest.raises(HttpRefusal) as caught:
        answer_in(StoreAnswer(outcome, 7, 7))
    assert (caught.value.status, caught.value.sentence) == (500, sentence)
