"""Why a key is as it is, on the shipped store."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.consensus.commands import SubmitProposal
from adsum.dedup import DedupKey
from adsum.http.response import Response
from adsum.store.commands import Put, StoreRequest, encode_request
from tests.api.agents import CONFIG, NODE_ID, Asker, FakeAgent, refused
from tests.api.memory_keys import WALL_MS

AT = "2027-01-15T08:00:00.000Z"


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def explained(asker: Asker, key: str) -> dict[str, object]:
    found = await asker.json(f"/v1/explain/kv/{key}")
    assert isinstance(found, dict)
    return found


async def sentences(asker: Asker, key: str) -> list[tuple[object, object, object]]:
    story = (await explained(asker, key))["Story"]
    assert isinstance(story, list)
    return [(step["Revision"], step["Kind"], step["Sentence"]) for step in story]


async def test_a_key_tells_each_of_its_changes_and_never_its_value(asker: Asker) -> None:
    await asker.put("/v1/kv/a/b", b"secret")
    await asker.put("/v1/kv/other", b"1")
    await asker.put("/v1/kv/a/b?flags=3", b"secret")
    asker.agent.wall_ms = WALL_MS + 90_000
    assert await explained(asker, "a/b") == {
        "Observer": "n1",
        "Key": "a/b",
        "Exists": True,
        "Revision": 3,
        "Version": 2,
        "Waiting": 0,
        "Summary": "a/b exists, at revision 3: changed through n1, 1 min ago.",
        "Story": [
            step(1, "created", "created through n1"),
            step(3, "changed", "changed through n1"),
        ],
        "IsCut": False,
        "Floor": 0,
    }


def step(revision: int, kind: str, sentence: str) -> dict[str, object]:
    return {
        "Time": AT,
        "Revision": revision,
        "Kind": kind,
        "Via": "n1",
        "ViaID": "n1",
        "Sentence": sentence,
    }


async def test_a_deleted_key_says_whether_it_was_alone(asker: Asker) -> None:
    await asker.put("/v1/kv/a/b", b"1")
    await asker.ask("/v1/kv/a/b", "DELETE")
    await asker.put("/v1/kv/a/b", b"1")
    await asker.ask("/v1/kv/a?recurse", "DELETE")
    assert await sentences(asker, "a/b") == [
        (1, "created", "created through n1"),
        (2, "deleted", "deleted through n1"),
        (3, "created", "created through n1"),
        (4, "tree-deleted", "deleted with all keys that begin like it through n1"),
    ]
    found = await explained(asker, "a/b")
    assert (found["Exists"], found["Revision"], found["Version"]) == (False, 4, 0)


async def test_the_agent_through_which_a_change_came_is_named(asker: Asker) -> None:
    web = asker.agent.meet("web")
    submit(asker, web.profile.node_id.hex(), Put(b"a", b"1"))
    submit(asker, NODE_ID, Put(b"a", b"1"))
    submit(asker, "00000000-0000-4000-8000-000000000000", Put(b"a", b"2"))
    assert [sentence for _, _, sentence in await sentences(asker, "a")] == [
        "created through web",
        "written with the same value through n1",
        "changed through 00000000-0000-4000-8000-000000000000",
    ]


def submit(asker: Asker, via: str, put: Put) -> None:
    request = encode_request(StoreRequest(put, WALL_MS))
    asker.agent.consensus.submit(SubmitProposal(request, lambda _answer: None, DedupKey(via, 1, 1, 1)))


async def test_only_the_newest_changes_are_told(asker: Asker) -> None:
    for number in range(21):
        await asker.put("/v1/kv/a", b"%d" % number)
    found = await explained(asker, "a")
    assert found["IsCut"] is True
    assert [revision for revision, _, _ in await sentences(asker, "a")] == list(range(2, 22))


async def test_who_waits_for_a_key_is_counted(asker: Asker, autojump_clock: trio.testing.MockClock) -> None:
    await asker.put("/v1/kv/a/b", b"1")
    answers: list[Response] = []

    async def wait(path: str) -> None:
        answers.append(await asker.ask(path))

    async with trio.open_nursery() as nursery:
        for path in ("/v1/kv/a/b?index=1&wait=9s", "/v1/kv/a/?recurse&index=1&wait=9s"):
            nursery.start_soon(wait, path)
        nursery.start_soon(wait, "/v1/kv/x?index=1&wait=9s")
        await trio.testing.wait_all_tasks_blocked()
        assert (await explained(asker, "a/b"))["Waiting"] == 2
        found = await explained(asker, "x")
        assert (found["Exists"], found["Waiting"]) == (False, 1)
        assert found["Summary"] == "x does not exist, and nothing is remembered of it."
    assert (await explained(asker, "a/b"))["Waiting"] == 0


async def test_a_key_of_which_nothing_is_known_is_not_found(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/explain/kv/none")) == (
        404,
        "There is no key none, and nothing is remembered of one; `adsum kv list` shows which keys there are",
    )
    assert refused(await asker.ask("/v1/explain/kv/")) == (400, "Missing key name")


async def test_a_key_is_explained_without_a_leader(asker: Asker) -> None:
    await asker.put("/v1/kv/a", b"1")
    asker.agent.consensus.holds = True
    assert (await explained(asker, "a"))["Exists"] is True


async def test_a_client_tells_what_a_server_has(asker: Asker) -> None:
    await asker.put("/v1/kv/a", b"secret")
    client = FakeAgent(replace(CONFIG, is_server=False, bootstrap=False))
    client.keys = asker.agent.keys
    told = await explained(Asker(client), "a")
    assert (told["Exists"], told["Revision"]) == (True, 1)
    assert "secret" not in str(told)
