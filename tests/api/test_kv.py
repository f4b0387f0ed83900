"""Keys: Consul's statuses and texts, on the shipped store."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.api import kv
from adsum.consensus.errors import DiskIsFull, NoLeader, OutcomeUnknown
from adsum.http.request import Request
from adsum.http.response import Response
from tests.api.agents import Asker, decoded, header, index_of, refused
from tests.http.http_support import Nobody, request_of

VALUE_BYTES_MAX = 512 * 1024


@pytest.fixture
def asker() -> Asker:
    return Asker()


async def put(asker: Asker, path: str, value: bytes = b"1") -> object:
    return decoded(await asker.put(path, value))


async def delete(asker: Asker, path: str) -> object:
    return decoded(await asker.ask(path, "DELETE"))


def shown(key: str, value: str | None, create: int, modify: int, flags: int = 0) -> dict[str, object]:
    return {
        "LockIndex": 0,
        "Key": key,
        "Flags": flags,
        "Value": value,
        "CreateIndex": create,
        "ModifyIndex": modify,
    }


async def test_a_key_is_put_and_got_as_consul_shows_it(asker: Asker) -> None:
    assert await put(asker, "/v1/kv/a/b", b"bar") is True
    response = await asker.ask("/v1/kv/a/b")
    assert decoded(response) == [shown("a/b", "YmFy", 1, 1)]
    meta = ("X-Consul-Index", "X-Consul-Knownleader", "X-Consul-Lastcontact")
    assert [header(response, name) for name in meta] == ["1", "true", "0"]


async def test_flags_have_64_bits_and_a_put_without_them_resets_them(asker: Asker) -> None:
    largest = 2**64 - 1
    await put(asker, f"/v1/kv/a?flags={largest}", b"bar")
    assert await asker.json("/v1/kv/a") == [shown("a", "YmFy", 1, 1, largest)]
    await put(asker, "/v1/kv/a", b"bar")
    assert await asker.json("/v1/kv/a") == [shown("a", "YmFy", 1, 2)]


async def test_an_identical_put_moves_no_index_and_an_empty_value_is_null(asker: Asker) -> None:
    for _ in range(2):
        assert await put(asker, "/v1/kv/a", b"") is True
    assert await asker.json("/v1/kv/a") == [shown("a", None, 1, 1)]


async def test_a_missing_key_is_404_with_an_index_to_wait_with(asker: Asker) -> None:
    response = await asker.ask("/v1/kv/none")
    assert (response.status, response.body.plain, index_of(response)) == (404, b"", 1)


async def test_check_and_set(asker: Asker) -> None:
    assert await put(asker, "/v1/kv/a?cas=0", b"1") is True
    assert await put(asker, "/v1/kv/a?cas=0", b"2") is False
    assert await put(asker, "/v1/kv/a?cas=1", b"3") is True
    assert await put(asker, "/v1/kv/a?cas=1", b"4") is False
    assert await delete(asker, "/v1/kv/a?cas=1") is False
    assert await delete(asker, "/v1/kv/a?cas=0") is False
    assert await delete(asker, "/v1/kv/none?cas=7") is True
    assert await delete(asker, "/v1/kv/a?cas=3") is True
    assert (await asker.ask("/v1/kv/a")).status == 404


async def test_a_tree_is_listed_named_and_deleted(asker: Asker) -> None:
    for key in ("a/", "a/b/c", "a/b/d", "a/e", "z"):
        await put(asker, f"/v1/kv/{key}")
    assert await asker.json("/v1/kv/a/?keys&separator=/") == ["a/", "a/b/", "a/e"]
    assert await asker.json("/v1/kv/a/?keys&seperator=/") == ["a/", "a/b/", "a/e"]
    assert await asker.json("/v1/kv/a?keys&separator=/") == ["a/"]
    assert await asker.json("/v1/kv/?keys") == ["a/", "a/b/c", "a/b/d", "a/e", "z"]
    assert await asker.json("/v1/kv?keys") == ["a/", "a/b/c", "a/b/d", "a/e", "z"]
    listed = await asker.json("/v1/kv/a/b?recurse")
    assert listed == [shown("a/b/c", "MQ==", 2, 2), shown("a/b/d", "MQ==", 3, 3)]
    assert await delete(asker, "/v1/kv/a/?recurse") is True
    assert await asker.json("/v1/kv/?keys") == ["z"]
    assert (await asker.ask("/v1/kv/a/?keys")).status == 404
    assert (await asker.ask("/v1/kv/a/?recurse")).status == 404


async def test_the_names_of_an_empty_store_are_a_list(asker: Asker) -> None:
    assert await asker.json("/v1/kv/?keys") == []


@pytest.mark.parametrize(
    ("path", "shown_as"),
    [
        ("a//b", "a//b"),
        ("/a", "/a"),
        ("//", "//"),
        ("a/../b/.", "a/../b/."),
        ("../agent/self", "../agent/self"),
        ("%2E%2E", ".."),
        ("a%2Fb%2525+c%20", "a/b%25+c "),
        ("a%00%01%0A%7F", "a\x00\x01\n\x7f"),
        ("%C3%A9%E2%80%8B", "é\u200b"),
    ],
)
async def test_a_key_is_the_bytes_of_the_path_and_none_is_cleaned_or_refused(
    asker: Asker, path: str, shown_as: str
) -> None:
    assert await put(asker, f"/v1/kv/{path}", b"it") is True
    assert (await asker.ask(f"/v1/kv/{path}?raw")).body.plain == b"it"
    assert await asker.json("/v1/kv/?keys") == [shown_as]
    assert await delete(asker, f"/v1/kv/{path}") is True
    assert await asker.json("/v1/kv/?keys") == []


async def test_keys_that_are_no_utf_8_are_two_and_look_alike(asker: Asker) -> None:
    await put(asker, "/v1/kv/a%FE", b"1")
    await put(asker, "/v1/kv/a%FF", b"2")
    assert (await asker.ask("/v1/kv/a%FE?raw")).body.plain == b"1"
    assert await asker.json("/v1/kv/?keys") == ["a\ufffd", "a\ufffd"]


async def test_the_way_to_the_keys_is_cleaned_as_that_to_all_else(asker: Asker) -> None:
    await put(asker, "/v1//kv/a", b"1")
    assert await asker.json("/v1/x/../kv/?keys") == ["a"]


async def test_raw_is_the_value_and_nothing_that_a_browser_runs(asker: Asker) -> None:
    await put(asker, "/v1/kv/a", b"<script>\x00\xff")
    response = await asker.ask("/v1/kv/a?raw")
    assert (response.status, response.body.plain) == (200, b"<script>\x00\xff")
    assert response.content_type == "text/plain"
    assert header(response, "X-Content-Type-Options") == "nosniff"
    assert header(response, "Content-Security-Policy") == "sandbox"


@pytest.mark.parametrize(
    ("method", "target", "status", "sentence"),
    [
        ("GET", "/v1/kv/", 400, "Missing key name"),
        ("PUT", "/v1/kv/", 400, "Missing key name"),
        ("DELETE", "/v1/kv/", 400, "Missing key name"),
        ("PUT", "/v1/kv/a?cas=1&acquire=2", 400, "Conflicting flags: acquire=2&cas=1"),
        ("DELETE", "/v1/kv/a?recurse&cas=1", 400, "Conflicting flags: cas=1&recurse="),
        ("PUT", "/v1/kv/a?flags=x", 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        ("PUT", "/v1/kv/a?cas=-1", 500, 'strconv.ParseUint: parsing "-1": invalid syntax'),
        (
            *("PUT", "/v1/kv/a?flags=18446744073709551616", 500),
            'strconv.ParseUint: parsing "18446744073709551616": value out of range',
        ),
        (
            *("PUT", f"/v1/kv/a?flags={'9' * 5_000}", 500),
            f'strconv.ParseUint: parsing "{"9" * 5_000}": value out of range',
        ),
        ("GET", "/v1/kv/a?index=zz", 400, "Invalid index"),
        ("GET", "/v1/kv/a?wait=zz", 400, "Invalid wait time"),
        (
            *("GET", "/v1/kv/a?stale&consistent", 400),
            "Cannot specify ?stale with ?consistent, conflicting semantics.",
        ),
        ("GET", "/v1/kv/a?dc=dc9", 500, "No path to datacenter"),
        ("PUT", "/v1/kv/a?dc=dc9", 500, "No path to datacenter"),
        ("PUT", "/v1/kv/a?index=zz", 400, "Invalid index"),
        ("DELETE", "/v1/kv/a?wait=zz", 400, "Invalid wait time"),
        ("GET", "/v1/kv/a?max_stale=zz", 400, 'Invalid max_stale value "zz"'),
        (
            *("DELETE", "/v1/kv/a?stale&consistent", 400),
            "Cannot specify ?stale with ?consistent, conflicting semantics.",
        ),
        (
            *("GET", "/v1/kv/a?cached&consistent", 400),
            "Cannot specify ?cached with ?consistent, conflicting semantics.",
        ),
    ],
)
async def test_what_cannot_be_is_refused_in_consul_s_words(
    asker: Asker, method: str, target: str, status: int, sentence: str
) -> None:
    response = await asker.ask(target, method)
    assert refused(response) == (status, sentence)
    assert header(response, "X-Consul-Index") is None


async def test_flags_are_read_before_the_value_is_measured(asker: Asker) -> None:
    response = await asker.put("/v1/kv/a?flags=x", b"x" * (VALUE_BYTES_MAX + 1))
    assert refused(response) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')


async def test_the_name_of_the_datacenter_may_be_in_any_case(asker: Asker) -> None:
    assert await put(asker, "/v1/kv/a?dc=DC1") is True


async def test_who_asks_for_a_pretty_answer_gets_a_line(asker: Asker) -> None:
    assert (await asker.put("/v1/kv/a?pretty", b"1")).body.plain == b"true\n"
    assert (await asker.put("/v1/kv/a?cas=0&pretty", b"1")).body.plain == b"false\n"
    assert (await asker.ask("/v1/kv/a", "DELETE")).body.plain == b"true"


async def test_the_largest_value_is_taken_and_a_byte_more_is_not(asker: Asker) -> None:
    assert await put(asker, "/v1/kv/a", b"x" * VALUE_BYTES_MAX) is True
    status, sentence = refused(await asker.put("/v1/kv/a", b"x" * (VALUE_BYTES_MAX + 1)))
    assert status == 413
    assert " too large" in sentence


@pytest.mark.parametrize(
    ("error", "status", "sentence", "reason"),
    [
        (NoLeader("it was held for 7 s"), 500, "No cluster leader", "it was held for 7 s"),
        (DiskIsFull("the disk is full"), 507, "the disk is full", None),
        (
            *(OutcomeUnknown("it was overtaken"), 500),
            *("it may have been done: it was overtaken; read the key to find out", None),
        ),
    ],
)
async def test_what_consensus_refuses_is_told_with_its_reason(
    asker: Asker, error: Exception, status: int, sentence: str, reason: str | None
) -> None:
    asker.agent.consensus.refuses = error
    response = await asker.put("/v1/kv/a", b"1")
    assert refused(response) == (status, sentence)
    assert header(response, "X-Adsum-Reason") == reason


async def test_stale_reads_tell_how_old_they_are(asker: Asker) -> None:
    await put(asker, "/v1/kv/a")
    asker.agent.consensus.behind_ms = 1_234
    asker.agent.consensus.leader = None
    response = await asker.ask("/v1/kv/a?stale")
    assert response.status == 200
    assert header(response, "X-Consul-Lastcontact") == "1234"
    assert header(response, "X-Consul-Knownleader") == "false"


async def test_until_a_leader_was_heard_stale_reads_wait_for_one_as_all_others_do(asker: Asker) -> None:
    await put(asker, "/v1/kv/a")
    asker.agent.consensus.keys.has_heard_leader = False  # as after a start
    assert (await asker.ask("/v1/kv/a?stale")).status == 200
    asker.agent.consensus.refuses = NoLeader("it was held for 7 s")
    response = await asker.ask("/v1/kv/a?stale")
    assert refused(response) == (500, "No cluster leader")
    assert header(response, "X-Adsum-Reason") == "it was held for 7 s"


async def test_what_is_too_stale_is_asked_for_anew(asker: Asker) -> None:
    await put(asker, "/v1/kv/a")
    asker.agent.consensus.behind_ms = 1_234
    for max_stale, behind in (("2s", "1234"), ("1s", "0"), ("0s", "1234")):
        response = await asker.ask(f"/v1/kv/a?stale&max_stale={max_stale}")
        assert (response.status, header(response, "X-Consul-Lastcontact")) == (200, behind)


# Without a task.


LARGE_VALUE = b"x" * 600  # more than is kept


class Recorder(Nobody):
    """Keeps the answer to a request that was taken without a task."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Response] = []

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        lines = [line.partition(": ") for line in varying.decode().splitlines()]
        varying_headers = tuple((name, value) for name, _, value in lines)
        headers = (*response.headers, *varying_headers)
        answer = Response(response.status, response.body, content_type=response.content_type, headers=headers)
        self.answers.append(answer)


def begun(asker: Asker, method: str, target: str, body: bytes = b"") -> list[Response] | None:
    """The answers so far; None if it takes a task."""
    client = Recorder()
    request = request_of(method, target.encode(), body=body, client=client)
    return client.answers if asker.router.begin(request) else None


@pytest.fixture
async def warm() -> Asker:
    """Endpoints that are loaded when they are asked first."""
    asker = Asker()
    await asker.ask("/v1/kv/none")
    return asker


async def test_writes_and_reads_of_one_key_are_answered_as_by_a_task(warm: Asker) -> None:
    for target, body in (("/v1/kv/a", b"1"), ("/v1/kv/b?flags=7", b"2"), ("/v1/kv/a?cas=9", b"3")):
        (answer,) = begun(warm, "PUT", target, body) or []
        assert decoded(answer) is (body != b"3")
    for target in (
        "/v1/kv/a",
        "/v1/kv/b",
        "/v1/kv/a?raw",
        "/v1/kv/none",
        "/v1/kv/a?stale",
        "/v1/kv/a?pretty",
    ):
        (answer,) = begun(warm, "GET", target) or []
        other = await warm.ask(target)
        assert (answer.status, answer.body.plain, sorted(answer.headers)) == (
            other.status,
            other.body.plain,
            sorted(other.headers),
        )


async def test_an_answer_that_was_kept_is_that_of_the_record_as_it_is_now(warm: Asker) -> None:
    begun(warm, "PUT", "/v1/kv/a", b"1")
    for _ in range(2):
        (answer,) = begun(warm, "GET", "/v1/kv/a") or []
        assert decoded(answer) == [shown("a", "MQ==", 1, 1)]
    begun(warm, "PUT", "/v1/kv/a", b"2")
    (answer,) = begun(warm, "GET", "/v1/kv/a") or []
    assert decoded(answer) == [shown("a", "Mg==", 1, 2)]
    assert header(answer, "X-Consul-Index") == "2"
    begun(warm, "DELETE", "/v1/kv/a")
    (answer,) = begun(warm, "GET", "/v1/kv/a") or []
    assert answer.status == 404


async def test_a_read_that_is_begun_again_shows_the_record_and_the_server_as_they_are_then(
    warm: Asker,
) -> None:
    begun(warm, "PUT", "/v1/kv/a", b"1")
    client = Recorder()
    first = request_of("GET", b"/v1/kv/a?stale", client=client)
    assert warm.router.begin(first)
    assert first.begins_again is not None

    def again(response: Response, varying: bytes = b"", /) -> None:
        client.answer(first, response, varying)

    warm.agent.consensus.behind_ms = 1_234
    first.begins_again(again)
    begun(warm, "PUT", "/v1/kv/a", LARGE_VALUE)
    first.begins_again(again)
    begun(warm, "DELETE", "/v1/kv/a")
    first.begins_again(again)
    seen = [
        (each.status, header(each, "X-Consul-Index"), header(each, "X-Consul-Lastcontact"))
        for each in client.answers
    ]
    assert seen == [(200, "1", "0"), (200, "1", "1234"), (200, "2", "1234"), (404, "3", "1234")]
    assert [header(each, "X-Consul-Knownleader") for each in client.answers] == ["true"] * 4


async def test_a_key_that_never_was_is_none_each_time_it_is_read() -> None:
    asker = Asker()
    await asker.ask("/v1/kv/none")
    request = request_of("GET", b"/v1/kv/a", client=(client := Recorder()))
    assert asker.router.begin(request)
    assert request.begins_again is not None
    request.begins_again(lambda response, varying=b"": client.answer(request, response, varying))
    assert [(each.status, header(each, "X-Consul-Index")) for each in client.answers] == [
        (404, "1"),
        (404, "1"),
    ]


async def test_what_may_wait_or_be_long_takes_a_task(warm: Asker) -> None:
    for target in ("/v1/kv/a?index=1", "/v1/kv/?keys", "/v1/kv/a?recurse"):
        assert begun(warm, "GET", target) is None


async def test_refusals_come_without_a_task_too(warm: Asker) -> None:
    (answer,) = begun(warm, "PUT", "/v1/kv/a?flags=x") or []
    assert refused(answer) == (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    warm.agent.consensus.refuses = NoLeader("it was held for 7 s")
    for method in ("PUT", "GET"):
        (answer,) = begun(warm, method, "/v1/kv/a") or []
        assert refused(answer) == (500, "No cluster leader")


# Waiting.


async def waiting(asker: Asker, target: str, nursery: trio.Nursery) -> list[Response]:
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await asker.ask(target))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    return answers


async def test_who_waits_for_a_key_is_woken_by_that_key_alone(asker: Asker, nursery: trio.Nursery) -> None:
    await put(asker, "/v1/kv/a")
    answers = await waiting(asker, "/v1/kv/a?index=1", nursery)
    await put(asker, "/v1/kv/b")
    await trio.testing.wait_all_tasks_blocked()
    assert answers == []
    await put(asker, "/v1/kv/a", b"2")
    await trio.testing.wait_all_tasks_blocked()
    assert [decoded(answer) for answer in answers] == [[shown("a", "Mg==", 1, 3)]]
    assert len(asker.agent.consensus.keys.waiters) == 0


async def test_who_waits_for_what_is_not_there_is_woken_by_its_creation_alone(
    asker: Asker, nursery: trio.Nursery
) -> None:
    await put(asker, "/v1/kv/other")
    key = await waiting(asker, "/v1/kv/a/none?index=1", nursery)
    tree = await waiting(asker, "/v1/kv/a/?recurse&index=1", nursery)
    await put(asker, "/v1/kv/other", b"2")
    await delete(asker, "/v1/kv/other")
    await trio.testing.wait_all_tasks_blocked()
    assert key == tree == []
    await put(asker, "/v1/kv/a/none")
    await trio.testing.wait_all_tasks_blocked()
    assert [(answer.status, index_of(answer)) for answer in key + tree] == [(200, 4), (200, 4)]


async def test_who_waits_for_a_prefix_hears_of_deletions_below_it(
    asker: Asker, nursery: trio.Nursery
) -> None:
    await put(asker, "/v1/kv/a/b")
    answers = await waiting(asker, "/v1/kv/a/?recurse&index=1", nursery)
    await delete(asker, "/v1/kv/a/b")
    await trio.testing.wait_all_tasks_blocked()
    assert [(answer.status, index_of(answer)) for answer in answers] == [(404, 2)]


async def test_a_wait_that_runs_out_answers_what_is_there_with_the_same_index(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await put(asker, "/v1/kv/a")
    begun_s = trio.current_time()
    response = await asker.ask("/v1/kv/a?index=1&wait=60s")
    assert (response.status, index_of(response)) == (200, 1)
    assert 60 <= trio.current_time() - begun_s <= 60 * 17 / 16
    assert len(asker.agent.consensus.keys.waiters) == 0


async def test_the_index_of_another_store_is_held_for_a_second_and_answered_with_ours(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await put(asker, "/v1/kv/a")
    begun_s = trio.current_time()
    response = await asker.ask("/v1/kv/a?index=4711&wait=60s")
    assert (response.status, index_of(response)) == (200, 1)
    assert trio.current_time() - begun_s == pytest.approx(1.0)


async def test_a_list_is_the_same_in_however_many_turns_it_is_made(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third value alone fills a turn."""
    monkeypatch.setattr(kv, "NAMES_PER_TURN", 2)
    monkeypatch.setattr(kv, "ENTRIES_PER_TURN", 3)
    monkeypatch.setattr(kv, "VALUE_BYTES_PER_TURN", 4)
    monkeypatch.setattr(kv, "JOINED_HERE_BYTES_MAX", 40)
    values = {"a": "MQ==", "b": "MjI=", "c": "NTU1NTU=", "d": "Mw==", "e": "NA=="}
    for key, value in zip(values, (b"1", b"22", b"55555", b"3", b"4"), strict=True):
        await put(asker, f"/v1/kv/{key}", value)
    entries = [shown(key, value, number, number) for number, (key, value) in enumerate(values.items(), 1)]
    assert await asker.json("/v1/kv/?recurse") == entries
    names = await asker.ask("/v1/kv/?keys")
    assert names.body.plain == b'["a","b","c","d","e"]'
    names = await asker.ask("/v1/kv/?keys&pretty")
    lines = b'[\n    "a",\n    "b",\n    "c",\n    "d",\n    "e"\n]\n'
    assert names.body.plain == lines
    assert await asker.json("/v1/kv/?recurse&pretty") == entries
    assert (await asker.ask("/v1/kv/none?keys&separator=/")).status == 404
