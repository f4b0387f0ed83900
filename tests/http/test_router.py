"""Which handler is asked, and what is answered when none is."""

from __future__ import annotations

import errno
import ipaddress
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.http.limits import HttpCounters
from adsum.http.request import ClientGone, Request
from adsum.http.response import Response, empty, text
from adsum.http.router import HttpRefusal, HttpRules, Route, Router
from adsum.storage.failures import StorageFailed
from tests.http.http_support import request_of


async def echo(request: Request, rest: str) -> Response:
    return text(200, f"{request.method} {rest}")


async def refuse(request: Request, rest: str) -> Response:
    raise HttpRefusal(404, f"unknown service ID: {rest}", (("X-Consul-Index", "1"),))


async def fail(request: Request, rest: str) -> Response:
    raise ZeroDivisionError("a bug")


async def lose_disk(request: Request, rest: str) -> Response:
    raise StorageFailed("could not sync a file")


async def lose_client(request: Request, rest: str) -> Response:
    raise ClientGone


ROUTES = [
    Route(("GET",), "/v1/status/leader", echo),
    Route(("PUT",), "/v1/agent/service/register", echo, body_bytes_max=10),
    Route(("PUT",), "/v1/agent/service/deregister/", echo, rest=True),
    Route(("GET",), "/v1/agent/service/", refuse, rest=True),
    Route(("GET", "PUT", "DELETE"), "/v1/kv/", echo, rest=True),
    Route(("PUT",), "/v1/catalog/register", echo),
    Route(("GET",), "/v1/fail", fail),
    Route(("GET",), "/v1/gone", lose_client),
    Route(("PUT",), "/v1/lost", lose_disk),
]


async def ask(method: str, target: str, rules: HttpRules | None = None, peer: str = "127.0.0.1") -> Response:
    return await Router(ROUTES, rules).answer(request_of(method, target.encode(), peer=peer))


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v1/status/leader", b"GET "),
        ("GET", "//v1/x/../status/leader?pretty", b"GET "),
        ("PUT", "/v1/agent/service/deregister/batman/pg0", b"PUT batman/pg0"),
        ("PUT", "/v1/agent/service/deregister/batman%2Fpg0?a=/b", b"PUT batman/pg0"),
        ("PUT", "/v1/agent/service/deregister/http:%2F%2Fa%20b", b"PUT http://a b"),
        ("PUT", "/v1/agent/service/deregister/", b"PUT "),
        ("PUT", "/v1/agent/service/deregister", b"PUT "),
        ("GET", "/v1/kv?keys", b"GET "),
        ("GET", "/v1/kv/", b"GET "),
        ("GET", "/v1/kv//a/../%2Fb%3F/.", b"GET /a/..//b?/."),
        ("GET", "http://localhost/v1/kv/a", b"GET a"),
        ("DELETE", "/v1/kv/a/b/c/d/e/f/g", b"DELETE a/b/c/d/e/f/g"),
        ("POST", "/v1/agent/service/deregister/a", b"PUT a"),
    ],
)
async def test_paths_reach_their_handlers(method: str, target: str, body: bytes) -> None:
    answer = await ask(method, target)
    assert (answer.status, answer.body.plain) == (200, body)


@pytest.mark.parametrize("target", ["/", "/v1", "/v1/nope", "/v1/status/leader/", "/v1/Status/leader", "*"])
async def test_unknown_paths_are_not_found_and_nothing_is_said(target: str) -> None:
    answer = await ask("GET", target)
    assert (answer.status, answer.body.plain, answer.content_type) == (404, b"", "")


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("DELETE", "/v1/status/leader", "OPTIONS,GET"),
        ("HEAD", "/v1/status/leader", "OPTIONS,GET"),
        ("POST", "/v1/status/leader", "OPTIONS,GET"),
        ("POST", "/v1/kv/a", "OPTIONS,GET,PUT,DELETE"),
        ("POST", "/v1/catalog/register", "OPTIONS,PUT"),
        ("GET", "/v1/agent/service/register", "OPTIONS,PUT"),
        ("BREW", "/v1/kv/a", "OPTIONS,GET,PUT,DELETE"),
    ],
)
async def test_a_wrong_method_hears_which_are_right(method: str, target: str, allow: str) -> None:
    answer = await ask(method, target)
    assert answer.status == 405
    assert answer.headers == (("Allow", allow),)
    assert answer.body.plain == f"method {method} not allowed".encode()


async def test_options_are_told() -> None:
    answer = await ask("OPTIONS", "/v1/kv/a")
    assert (answer.status, answer.headers, answer.body.plain) == (
        200,
        (("Allow", "OPTIONS,GET,PUT,DELETE"),),
        b"",
    )


async def test_a_path_that_does_not_print_is_a_bad_request_without_a_word() -> None:
    answer = await ask("GET", "/v1/agent/%01")
    assert (answer.status, answer.body.plain) == (400, b"")
    assert (await ask("GET", "/v1/agent/%zz")).body.plain != b""


async def test_a_refusal_becomes_its_status_sentence_and_headers() -> None:
    answer = await ask("GET", "/v1/agent/service/zz")
    assert (answer.status, answer.body.plain) == (404, b"unknown service ID: zz")
    assert answer.headers == (("X-Consul-Index", "1"),)


async def test_a_bug_is_owned_up_to_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    counters = HttpCounters()
    with caplog.at_level(logging.ERROR):
        answer = await Router(ROUTES, counters=counters).answer(request_of("GET", b"/v1/fail"))
    assert answer.status == 500
    assert b"bug" in answer.body.plain
    assert counters.handler_errors == 1
    assert "ZeroDivisionError" in caplog.text


async def test_a_failed_sync_that_a_request_met_is_answered_by_nobody() -> None:
    with pytest.raises(StorageFailed):
        await ask("PUT", "/v1/lost")


async def test_a_client_that_hung_up_is_no_bug() -> None:
    counters = HttpCounters()
    with pytest.raises(ClientGone):
        await Router(ROUTES, counters=counters).answer(request_of("GET", b"/v1/gone"))
    assert counters.handler_errors == 0


async def test_blocked_endpoints_are_blocked_by_prefix() -> None:
    rules = HttpRules(block_endpoints=("/v1/agent",))
    answer = await ask("GET", "/v1/agent/service/x", rules)
    assert (answer.status, answer.body.plain) == (403, b"Endpoint is blocked by agent configuration")
    assert (await ask("GET", "/v1/./%61gent/service/x", rules)).status == 403
    assert (await ask("GET", "/v1/status/leader", rules)).status == 200


async def test_what_was_found_last_stands_for_nothing_that_is_blocked_or_has_its_own_route() -> None:
    async def handle(request: Request, rest: str) -> Response:
        return text(200, f"{request.method} {rest}")

    async def own(_request: Request, _rest: str) -> Response:
        return text(200, "its own")

    routes = [
        Route(("GET", "PUT"), "/v1/kv/", handle, rest=True),
        Route(("GET",), "/v1/kv/own", own),
        Route(("GET",), "/v1/event/", handle, rest=True),
    ]
    router = Router(routes, HttpRules(block_endpoints=("/v1/event/secret", "/v1/kv/secret")))
    answers = []
    for target in (b"/v1/kv/a", b"/v1/kv/own", b"/v1/kv/secret", b"/v1/event/a", b"/v1/event/secret/b"):
        answer = await router.answer(request_of("GET", target))
        answers.append((answer.status, answer.body.plain))
    blocked = 403, b"Endpoint is blocked by agent configuration"
    assert answers == [(200, b"GET a"), (200, b"its own"), blocked, (200, b"GET a"), blocked]


async def test_writes_are_taken_from_the_configured_networks_only() -> None:
    rules = HttpRules(
        allow_write_http_from=(ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
    )
    refused = await ask("PUT", "/v1/kv/a", rules, peer="192.0.2.1")
    assert (refused.status, refused.body.plain) == (403, b"Access is restricted")
    assert (await ask("GET", "/v1/kv/a", rules, peer="192.0.2.1")).status == 200
    for peer in ("10.1.1.1", "fd00::1%eth0", "unix"):
        assert (await ask("PUT", "/v1/kv/a", rules, peer=peer)).status == 200


async def test_a_body_beyond_the_route_s_own_limit_is_too_large() -> None:
    answer = await Router(ROUTES).answer(request_of("PUT", b"/v1/agent/service/register", body=b"a" * 11))
    assert answer.status == 413
    assert answer.body.plain == b"Request body(11 bytes) too large, max size: 10 bytes."


async def test_configured_headers_are_on_every_answer() -> None:
    rules = HttpRules(response_headers=(("X-Site", "a"),), block_endpoints=("/v1/status",))
    router = Router(ROUTES, rules)
    for target in (b"/v1/status/leader", b"/nope", b"/v1/fail"):
        answer = await router.answer(request_of("GET", target))
        assert b"X-Site: a\r\n" in answer.head(gzip=False)


async def test_a_family_is_made_once_by_who_asks_it_first() -> None:
    made = []

    def family() -> list[Route]:
        made.append("family")
        return [Route(("GET",), "/v1/event/list", echo), Route(("GET",), "/v1/resolve/", echo, rest=True)]

    router = Router(ROUTES, families={"/v1/event/": family, "/v1/resolve": family})

    async def status(target: bytes) -> int:
        return (await router.answer(request_of("GET", target))).status

    assert [await status(b"/v1/status/leader"), await status(b"/nope")] == [200, 404]
    assert made == []
    assert [await status(b"/v1/event/nope"), await status(b"/v1/event/list")] == [404, 200]
    assert [await status(b"/v1/resolve"), await status(b"/v1/resolve/web")] == [200, 200]
    assert made == ["family"]


@given(st.text("/v1kagentservicederegister%2.", max_size=60), st.sampled_from(["GET", "PUT", "POST", "HEAD"]))
async def test_no_path_makes_the_router_fail(path: str, method: str) -> None:
    counters = HttpCounters()

    async def handle(request: Request, rest: str) -> Response:
        return empty(200)

    routes = [Route(route.methods, route.path, handle, rest=route.rest) for route in ROUTES]
    answer = await Router(routes, counters=counters).answer(request_of(method, b"/" + path.encode()))
    assert answer.status in (200, 400, 404, 405)
    assert counters.handler_errors == 0


async def test_a_request_that_finds_no_file_left_is_put_off_and_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def read(request: Request, rest: str) -> Response:
        raise OSError(errno.EMFILE, "Too many open files")

    counters = HttpCounters()
    router = Router([Route(("GET",), "/v1/agent/host", read)], counters=counters)
    for _ in range(3):
        answer = await router.answer(request_of("GET", b"/v1/agent/host"))
    assert answer.status == 503
    assert answer.headers == (("Retry-After", "1"),)
    assert answer.body.plain.startswith(b"This agent cannot do that now; try again in a second.")
    assert b"raise the agent's limit" in answer.body.plain
    assert (counters.rejected["shortage"], counters.handler_errors) == (3, 0)
    (line,) = caplog.records
    assert line.exc_info is None


async def test_the_route_found_last_does_not_stand_in_for_the_right_one() -> None:
    def family() -> list[Route]:
        return [Route(("GET",), "/v1/kv/new/", refuse, rest=True)]

    router = Router(ROUTES, families={"/v1/kv/new/": family})

    async def said(method: str, target: str) -> tuple[int, bytes]:
        answer = await router.answer(request_of(method, target.encode()))
        return answer.status, answer.body.plain

    for target, expected in {
        "/v1/kv/a": (200, b"PUT a"),
        "/v1/kv/b/c": (200, b"PUT b/c"),
        "/v1/agent/service/deregister/a": (200, b"PUT a"),
        "/v1/agent/service/register": (200, b"PUT "),
        "/v1/agent/service/a": (405, b"method PUT not allowed"),
        "/v1/agent/service/deregister": (200, b"PUT "),
        "/v1/kvs": (404, b""),
        "/v1/kv": (200, b"PUT "),
        "/v1/kv/new": (200, b"PUT new"),
    }.items():
        assert await said("PUT", target) == expected
    assert await said("GET", "/v1/kv/new/a") == (404, b"unknown service ID: a")
    assert await said("GET", "/v1/kv/old") == (200, b"GET old")
    assert await said("GET", "/v1/kv/new/b") == (404, b"unknown service ID: b")


async def test_a_family_that_could_not_be_loaded_is_loaded_by_a_later_request() -> None:
    """Of a paths that would be unknown for good, else: no file was left, or an upgrade is half done."""
    loads = []

    async def done(request: Request, rest: str) -> Response:
        return empty(200)

    def family() -> list[Route]:
        loads.append(1)
        if len(loads) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return [Route(("GET",), "/v1/event/list", done)]

    router = Router([], families={"/v1/event/": family})
    answers = [await router.answer(request_of("GET", b"/v1/event/list")) for _ in range(3)]
    assert [answer.status for answer in answers] == [503, 200, 200]
    assert len(loads) == 2
