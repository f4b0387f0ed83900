"""Keys that sessions hold: `?acquire=`, `?release=`, fencing tokens and why something was not done."""

from __future__ import annotations

import pytest

from tests.api.agents import Asker, decoded, header, refused

UNKNOWN = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def session(asker: Asker, **fields: object) -> str:
    answer = decoded(await asker.put("/v1/session/create", fields))
    assert isinstance(answer, dict)
    return str(answer["ID"])


async def put(asker: Asker, target: str, value: bytes = b"v") -> object:
    return decoded(await asker.put(target, value))


async def entry(asker: Asker, key: str) -> dict[str, object]:
    answer = await asker.json(f"/v1/kv/{key}")
    assert isinstance(answer, list)
    return dict(answer[0])


async def test_a_key_is_acquired_and_released_and_shown_as_consul_shows_it(asker: Asker) -> None:
    mine, other = await session(asker), await session(asker)
    assert await put(asker, f"/v1/kv/l?acquire={mine}") is True
    assert await entry(asker, "l") == {
        "LockIndex": 1,
        "Key": "l",
        "Flags": 0,
        "Value": "dg==",
        "Session": mine,
        "CreateIndex": 3,
        "ModifyIndex": 3,
        "FencingToken": 3,
    }
    assert await put(asker, f"/v1/kv/l?acquire={mine}", b"w") is True
    assert (await entry(asker, "l"))["LockIndex"] == 1
    assert await put(asker, f"/v1/kv/l?acquire={other}") is False
    assert await put(asker, f"/v1/kv/l?release={other}") is False
    assert await put(asker, f"/v1/kv/l?release={mine}", b"x") is True
    released = await entry(asker, "l")
    assert (released["Value"], released["LockIndex"]) == ("eA==", 1)
    assert "Session" not in released
    assert "FencingToken" not in released
    assert await put(asker, f"/v1/kv/l?acquire={other}") is True
    assert (await entry(asker, "l"))["LockIndex"] == 2


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("acquire=", 500, "missing session"),
        ("release=", 500, "missing session"),
        ("acquire=foo", 500, "failed session lookup: index error: UUID must be 36 characters"),
        (f"acquire={UNKNOWN}", 500, f'invalid session "{UNKNOWN}"'),
        (
            f"acquire=z{UNKNOWN[1:]}",
            500,
            "failed session lookup: index error: Invalid UUID: encoding/hex: invalid byte: U+007A 'z'",
        ),
        ("acquire=x&release=y", 400, "Conflicting flags: acquire=x&release=y"),
        ("acquire=x&cas=1", 400, "Conflicting flags: acquire=x&cas=1"),
    ],
)
async def test_what_names_no_session_is_refused_in_consul_s_words(
    asker: Asker, query: str, status: int, sentence: str
) -> None:
    assert refused(await asker.put(f"/v1/kv/l?{query}", b"v")) == (status, sentence)
    assert (await asker.ask("/v1/kv/l")).status == 404


@pytest.mark.parametrize("named", ["foo", UNKNOWN])
async def test_a_release_by_nobody_is_false_and_no_error(asker: Asker, named: str) -> None:
    assert await put(asker, f"/v1/kv/l?release={named}") is False


async def test_a_grant_has_a_token_that_only_grows_and_writing_the_value_leaves_it(asker: Asker) -> None:
    first, second = await session(asker), await session(asker)
    granted = await asker.put(f"/v1/kv/l?acquire={first}", b"v")
    assert header(granted, "X-Adsum-Fencing-Token") == "3"
    assert header(await asker.put(f"/v1/kv/l?acquire={first}", b"w"), "X-Adsum-Fencing-Token") == "3"
    await put(asker, "/v1/kv/l", b"by another")
    assert (await entry(asker, "l"))["FencingToken"] == 3
    assert header(await asker.ask("/v1/kv/l"), "X-Adsum-Fencing-Token") == "3"
    assert header(await asker.ask("/v1/kv/l?raw"), "X-Adsum-Fencing-Token") == "3"
    await put(asker, f"/v1/kv/l?release={first}")
    granted = await asker.put(f"/v1/kv/l?acquire={second}", b"v")
    assert header(granted, "X-Adsum-Fencing-Token") == "7"


async def test_a_write_under_a_token_that_was_overtaken_is_refused(asker: Asker) -> None:
    for number in range(6):
        await put(asker, "/v1/kv/other", b"%d" % number)
    assert await put(asker, "/v1/kv/data?if-token=7", b"first") is True
    sentence = (
        "the fencing token 6 is lower than 7, which was shown under this key already: somebody else held the "
        "lock since, and nothing was written"
    )
    assert refused(await asker.put("/v1/kv/data?if-token=6", b"late")) == (409, sentence)
    assert (await asker.ask("/v1/kv/data?if-token=6", "DELETE")).status == 409
    assert (await asker.ask("/v1/kv/data?raw")).body.plain == b"first"
    assert decoded(await asker.ask("/v1/kv/data?if-token=7", "DELETE")) is True
    assert (await asker.put("/v1/kv/data?if-token=6", b"late")).status == 409
    assert await put(asker, "/v1/kv/data", b"without a token") is True


async def test_a_write_that_only_the_floor_of_forgotten_keys_refuses_is_told_so(asker: Asker) -> None:
    """Nobody held a lock under this key, and a client that is told so would look for that in vain."""
    for number in range(6):
        await put(asker, "/v1/kv/other", b"%d" % number)
    asker.agent.consensus.machine.keyspaces[0].fence_floor = 6
    sentence = (
        "nobody remembers this key, and under one that is forgotten the fencing token 6 was shown: one that "
        "is not there takes no lower ones, and nothing was written; a new grant has a higher one"
    )
    assert refused(await asker.put("/v1/kv/data?if-token=5", b"late")) == (409, sentence)
    mine = await session(asker)
    assert refused(await asker.put(f"/v1/kv/l?acquire={mine}&if-token=5", b"")) == (409, sentence)
    token = header(await asker.put(f"/v1/kv/l?acquire={mine}", b""), "X-Adsum-Fencing-Token")
    assert await put(asker, f"/v1/kv/data?if-token={token}") is True


async def test_a_token_that_is_no_number_is_refused_and_a_tree_is_not_fenced(asker: Asker) -> None:
    sentence = 'strconv.ParseUint: parsing "x": invalid syntax'
    assert refused(await asker.put("/v1/kv/k?if-token=x", b"v")) == (500, sentence)
    response = await asker.ask("/v1/kv/k?if-token=1&recurse", "DELETE")
    assert refused(response) == (400, "Conflicting flags: if-token=1&recurse=")


async def test_a_false_says_who_holds_it(asker: Asker) -> None:
    mine, other = await session(asker), await session(asker)
    await put(asker, f"/v1/kv/l?acquire={mine}")
    response = await asker.put(f"/v1/kv/l?acquire={other}", b"v")
    assert decoded(response) is False
    assert header(response, "X-Adsum-Reason") == f"session {mine} holds it"
    assert header(response, "X-Adsum-Holder") == mine


async def test_a_false_says_how_much_of_a_lock_delay_is_left(asker: Asker) -> None:
    mine, other = await session(asker, LockDelay="20s"), await session(asker)
    await put(asker, f"/v1/kv/l?acquire={mine}")
    await asker.put(f"/v1/session/destroy/{mine}")
    response = await asker.put(f"/v1/kv/l?acquire={other}", b"v")
    assert decoded(response) is False
    assert header(response, "X-Adsum-Lock-Delay-Remaining") == "20s"
    reason = "its last holder's session has ended, and a lock-delay runs for another 20s"
    assert header(response, "X-Adsum-Reason") == reason


async def test_a_plain_write_of_a_held_key_leaves_it_held_as_it_was(asker: Asker) -> None:
    mine = await session(asker)
    await put(asker, f"/v1/kv/l?acquire={mine}")
    assert await put(asker, "/v1/kv/l", b"advisory") is True
    held = await entry(asker, "l")
    assert (held["Session"], held["LockIndex"], held["FencingToken"]) == (mine, 1, 2)


async def test_keys_of_a_session_whose_behavior_is_delete_go_with_it(asker: Asker) -> None:
    mine = await session(asker, Behavior="delete")
    await put(asker, f"/v1/kv/l?acquire={mine}")
    await asker.put(f"/v1/session/destroy/{mine}")
    assert (await asker.ask("/v1/kv/l")).status == 404


async def test_a_lock_on_a_key_that_somebody_deletes_is_free(asker: Asker) -> None:
    mine, other = await session(asker), await session(asker)
    await put(asker, f"/v1/kv/l?acquire={mine}")
    assert decoded(await asker.ask("/v1/kv/l", "DELETE")) is True
    assert await put(asker, f"/v1/kv/l?acquire={other}") is True
    assert (await entry(asker, "l"))["LockIndex"] == 2
