"""/v1/event: what is fired, what is listed, and how one waits for the next."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from adsum.agent import user_events
from adsum.agent.user_events import TOPIC, Event
from adsum.gossip.claims import user_event
from adsum.topics import Watching
from tests.api.agents import Asker, decoded, index_of, refused

# The first id that the injected source gives, in Consul's form.
FIRST_ID = Random(0).randbytes(16)
TOO_LARGE = (
    '1 error occurred:\n\t* error broadcasting event to segment "": '
    "user event exceeds configured limit of 512 bytes before encoding\n\n"
)


@pytest.fixture
def asker() -> Asker:
    return Asker()


def folded(event_id: str) -> int:
    digits = event_id.replace("-", "")
    return int(digits[:16], 16) ^ int(digits[16:], 16)


async def fired(asker: Asker, target: str, body: bytes = b"") -> dict[str, object]:
    shown = decoded(await asker.put(f"/v1/event/fire/{target}", body))
    assert isinstance(shown, dict)
    return shown


async def listed(asker: Asker, query: str = "") -> list[dict[str, object]]:
    shown = await asker.json(f"/v1/event/list{query}")
    assert isinstance(shown, list)
    return shown


async def test_an_event_has_its_id_at_once_and_its_time_in_the_list(asker: Asker) -> None:
    """Literal but for the id: Consul's fields in Consul's order."""
    shown = await fired(asker, "deploy?node=n1&service=&tag=", b"v7")
    assert shown["ID"] == str(shown["ID"]).lower()
    assert str(shown["ID"]).replace("-", "") == FIRST_ID.hex()
    assert {name: value for name, value in shown.items() if name != "ID"} == {
        "Name": "deploy",
        "Payload": "djc=",
        "NodeFilter": "n1",
        "ServiceFilter": "",
        "TagFilter": "",
        "Version": 1,
        "LTime": 0,
    }
    assert await listed(asker) == [{**shown, "LTime": 1}]


async def test_without_a_body_the_payload_is_null_and_names_may_contain_slashes(asker: Asker) -> None:
    shown = await fired(asker, "a%2Fb")
    assert (shown["Name"], shown["Payload"]) == ("a/b", None)


async def test_post_stands_in_for_put(asker: Asker) -> None:
    """Spring posts."""
    assert (await asker.ask("/v1/event/fire/x", "POST")).status == 200
    assert (await asker.ask("/v1/event/fire/x")).status == 405


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        ("", b"", (400, "Missing name")),
        ("x?tag=y", b"", (500, "Cannot provide tag filter without service filter")),
        ("x?dc=zz", b"", (500, "No path to datacenter")),
        ("x", b"p" * 600, (500, TOO_LARGE)),
    ],
)
async def test_what_cannot_be_fired_is_refused_and_not_listed(
    asker: Asker, target: str, body: bytes, expected: tuple[int, str]
) -> None:
    assert refused(await asker.put(f"/v1/event/fire/{target}", body)) == expected
    assert await listed(asker) == []


async def test_a_filter_that_is_no_regular_expression_is_refused(asker: Asker) -> None:
    status, sentence = refused(await asker.put("/v1/event/fire/x?node=("))
    assert (status, sentence.partition(":")[0]) == (500, "Invalid node filter")


async def test_an_event_for_others_is_fired_and_not_listed_here(asker: Asker) -> None:
    await fired(asker, "deploy?node=other")
    await fired(asker, "deploy?service=web")
    assert await listed(asker) == []
    asker.agent.put_service("web1", "web")
    await fired(asker, "deploy?service=web")
    assert [event["ServiceFilter"] for event in await listed(asker)] == ["web"]


async def test_an_event_that_is_heard_twice_is_listed_once(asker: Asker) -> None:
    sender = asker.agent.meet("web")
    event = Event(event_id=bytes(16), name="deploy", payload=b"v7")
    claim = user_event(sender.subject, 1, 1, "deploy", user_events.encode(event))
    asker.agent.judge(sender, claim.encoded)
    asker.agent.judge(sender, claim.encoded)
    assert [event["Payload"] for event in await listed(asker)] == ["djc="]


async def test_the_list_is_chosen_by_name(asker: Asker) -> None:
    for name in ("a", "b", "a"):
        await fired(asker, name)
    assert [event["Name"] for event in await listed(asker, "?name=a")] == ["a", "a"]
    assert [event["Name"] for event in await listed(asker)] == ["a", "b", "a"]
    assert await listed(asker, "?name=c") == []


async def test_the_index_is_the_newest_event_of_that_name(asker: Asker) -> None:
    assert index_of(await asker.ask("/v1/event/list")) == 1
    ids = [str((await fired(asker, name))["ID"]) for name in ("a", "b")]
    assert index_of(await asker.ask("/v1/event/list?name=a")) == folded(ids[0])
    assert index_of(await asker.ask("/v1/event/list")) == folded(ids[1])


async def test_a_client_waits_until_there_is_another_of_that_name(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    index = folded(str((await fired(asker, "a"))["ID"]))
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fire_later, asker, "b", 5)
        nursery.start_soon(fire_later, asker, "a", 20)
        response = await asker.ask(f"/v1/event/list?name=a&index={index}&wait=60s")
    assert trio.current_time() - begun == pytest.approx(20)
    assert index_of(response) != index
    assert len(listed_in(decoded(response))) == 2


def listed_in(shown: object) -> list[object]:
    assert isinstance(shown, list)
    return shown


async def fire_later(asker: Asker, name: str, after_s: float) -> None:
    await trio.sleep(after_s)
    await fired(asker, name)


@pytest.mark.parametrize(("index", "took_s"), [(1, (10, 10.7)), (4711, (0, 0)), (0, (0, 0))])
async def test_only_the_index_of_now_waits(
    asker: Asker, autojump_clock: trio.testing.MockClock, index: int, took_s: tuple[float, float]
) -> None:
    begun = trio.current_time()
    response = await asker.ask(f"/v1/event/list?index={index}&wait=10s")
    assert index_of(response) == 1
    assert took_s[0] <= trio.current_time() - begun <= took_s[1]


async def test_an_index_below_that_of_now_is_another_one_and_does_not_wait(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    """Ids are random, so a later event may well have a lower index."""
    index = folded(str((await fired(asker, "a"))["ID"]))
    begun = trio.current_time()
    for known in (index - 1, index + 1):
        assert index_of(await asker.ask(f"/v1/event/list?index={known}&wait=10s")) == index
    assert trio.current_time() == begun


async def test_who_waited_is_forgotten(asker: Asker, autojump_clock: trio.testing.MockClock) -> None:
    await asker.ask("/v1/event/list?index=1&wait=1s")
    assert asker.agent.watches.waiting == 0


async def test_an_event_wakes_who_waits_for_events_and_is_no_change_of_the_catalog(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before, woken = asker.agent.view.index, trio.Event()
    with Watching(asker.agent.watches, (TOPIC,), woken.set):
        await fired(asker, "a")
    assert woken.is_set()
    assert asker.agent.view.index == before
