"""Heads that came before: whatever is read by them, llhttp reads alike."""

from __future__ import annotations

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from adsum.http.head_cache import FIELDS_MAX, HEAD_BYTES_MAX, HEADS_MAX, KnownHeads
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.parser import Phase, RequestParser
from adsum.http.request import Request
from adsum.http.response import Response, text
from adsum.http.router import Route, Router
from adsum.http.server import serve
from tests.http.http_support import Client, Nobody
from tests.http.test_parser import SMUGGLING, read_by_h11, requests, seen

PUT = b"PUT /v1/kv/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
GET = b"GET /v1/kv/a HTTP/1.1\r\nHost: a\r\n\r\n"
LINE = b"PUT /v1/kv/b HTTP/1.1\r\n"


def parser_with(heads: KnownHeads, limits: HttpLimits | None = None) -> RequestParser:
    return RequestParser(
        limits or HttpLimits(),
        HttpCounters(),
        peer="127.0.0.1",
        is_on_loopback=False,
        client=Nobody(),
        heads=heads,
    )


def knowing(*messages: bytes) -> KnownHeads:
    heads = KnownHeads(HttpCounters())
    for message in messages:
        parser_with(heads).feed(message)
    return heads


def recognized(heads: KnownHeads, data: bytes, limits: HttpLimits | None = None) -> Request | None:
    parser = parser_with(heads, limits)
    assert parser.recognize(data) == bool(parser.requests)
    return parser.requests[0] if parser.requests else None


def read_by_llhttp(data: bytes) -> Request:
    parser = parser_with(KnownHeads(HttpCounters()))
    parser.feed(data)
    assert (parser.refusal, parser.phase, len(parser.requests)) == (None, Phase.IDLE, 1)
    return parser.requests[0]


def test_a_head_that_came_before_is_read_with_another_target_and_body() -> None:
    heads = knowing(PUT)
    request = recognized(heads, PUT.replace(b"/a", b"/b%2Fc?cas=1").replace(b"abc", b"\r\n\r"))
    assert request is not None
    assert seen(request) == (
        "PUT",
        b"/v1/kv/b%2Fc?cas=1",
        {b"host": [b"a"], b"content-length": [b"3"]},
        b"\r\n\r",
    )
    assert (request.version, request.keeps_alive, request.peer) == ("1.1", True, "127.0.0.1")


@given(
    st.lists(requests(), min_size=1, max_size=3),
    st.sampled_from([b"GET /", b"PUT /v1/kv/a?b=c", b"HEAD /%20", b"POST /x", b"DELETE //a/../b"]),
    st.binary(max_size=40),
    st.data(),
)
def test_what_is_recognized_llhttp_and_h11_read_the_same(
    messages: list[bytes], line: bytes, tail: bytes, data: st.DataObject
) -> None:
    heads = knowing(*messages)
    for message in messages:
        place = data.draw(st.integers(0, len(message) - 1))
        damaged = message[:place] + data.draw(st.binary(max_size=3)) + message[place + 1 :]
        other_line = line + b" HTTP/1.1\r\n" + message.partition(b"\r\n")[2]
        for tried in (message, damaged, other_line, other_line + tail, message + tail):
            request = recognized(heads, tried)
            if request is not None:
                assert seen(request) == seen(read_by_llhttp(tried))
                assert [seen(request)] == read_by_h11(tried)


PIECES = st.sampled_from(
    [
        b"Host: a\r\n",
        b"host:a\r\n",
        b"HOST: b\r\n",
        b"Content-Length: 3\r\n",
        b"content-length:3\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length : 3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length:\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding:identity\r\n",
        b"Connection: close\r\n",
        b"Proxy-Connection: close\r\n",
        b"Upgrade: h2c\r\n",
        b"Expect: 100-continue\r\n",
        b"X: a\r\n b\r\n",
        b"X: a\nY: b\r\n",
        b"X: a\rY: b\r\n",
        b"X: \xe9\r\n",
        b"X\xe9: a\r\n",
        b"X: \0\r\n",
        b": a\r\n",
        b"X\r\n",
        b" X: a\r\n",
        b"\r\n",
        b"\n",
        b"abc",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
)


@given(st.lists(PIECES, max_size=7), st.binary(max_size=4))
@example([b"Host: a\r\n", b"Content-Length: 3\r\n", b"\r\n", b"abc"], b"")
@example([b"Host: a\r\n", b"Content-Length: 3\r\n", b"Content-Length: 3\r\n", b"\r\n", b"abc"], b"")
@example([b"\r\n", b"Host: a\r\n", b"\r\n"], b"")
def test_odd_heads_put_together_at_random_are_never_read_in_two_ways(
    pieces: list[bytes], tail: bytes
) -> None:
    data = LINE + b"".join(pieces)
    heads = knowing(data, LINE + b"".join(pieces[:-1]), LINE + b"Host: a\r\n" + b"".join(pieces))
    for tried in (data, data + tail, LINE + b"Host: a\r\n" + b"".join(pieces)):
        request = recognized(heads, tried)
        if request is not None:
            assert seen(request) == seen(read_by_llhttp(tried))
            assert [seen(request)] == read_by_h11(tried)


@pytest.mark.parametrize("head", SMUGGLING.values(), ids=SMUGGLING)
def test_ambiguous_framing_is_not_learned(head: bytes) -> None:
    data = LINE + b"Host: a\r\n" + head
    assert recognized(knowing(data, PUT, GET), data) is None


@pytest.mark.parametrize(
    "field",
    [
        b"Connection: keep-alive",
        b"CONNECTION: close",
        b"Proxy-Connection: close",
        b"Upgrade: h2c",
        b"Expect: 100-continue",
        b"Transfer-Encoding: chunked",
        b"TE: trailers",
        b"Trailer: X",
    ],
)
def test_fields_that_decide_more_than_a_length_are_left_to_llhttp(field: bytes) -> None:
    data = GET.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n")
    assert recognized(knowing(data), data) is None


@pytest.mark.parametrize(
    "line",
    [
        b"put /v1/kv/a HTTP/1.1\r\n",
        b"PUT  /v1/kv/a HTTP/1.1\r\n",
        b"PUT /v1/kv/a  HTTP/1.1\r\n",
        b"PUT\t/v1/kv/a HTTP/1.1\r\n",
        b"PUT /v1/kv/a HTTP/1.0\r\n",
        b"PUT /v1/kv/a HTTP/1.1\n",
        b"PUT /v1/kv/a HTTP/1.1\r\r\n",
        b"PUT /v1/kv/a\r\n",
        b"\r\nPUT /v1/kv/a HTTP/1.1\r\n",
        b" PUT /v1/kv/a HTTP/1.1\r\n",
        b"PUT http://a/v1/kv/a HTTP/1.1\r\n",
        b"PUT * HTTP/1.1\r\n",
        b"PUT /v1/kv/a#b HTTP/1.1\r\n",
        b"PUT /v1/kv/\xc3\xa9 HTTP/1.1\r\n",
        b"PUT /v1/kv/a\0 HTTP/1.1\r\n",
        b"PUT /v1/kv/{a} HTTP/1.1\r\n",
        b"CONNECT /v1/kv/a HTTP/1.1\r\n",
        b"PATCH /v1/kv/a HTTP/1.1\r\n",
    ],
)
def test_only_the_plainest_request_line_is_read_without_llhttp(line: bytes) -> None:
    assert recognized(knowing(PUT), line + PUT.partition(b"\r\n")[2]) is None


@pytest.mark.parametrize("data", [PUT[:-1], PUT + b"d", PUT + GET, PUT[:-3], PUT[:-5], PUT[:10], b"", GET])
def test_less_or_more_than_one_whole_request_is_left_to_llhttp(data: bytes) -> None:
    assert recognized(knowing(PUT), data) is None


def test_nothing_is_recognized_in_the_middle_of_a_request_or_behind_the_last_one() -> None:
    heads = knowing(PUT)
    parser = parser_with(heads)
    parser.feed(PUT[:-1])
    assert not parser.recognize(PUT)
    parser.feed(PUT[-1:])
    assert parser.recognize(PUT)
    parser.feed(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert not parser.recognize(PUT)


def test_what_is_learned_from_one_connection_holds_for_the_next_with_its_fields() -> None:
    heads = knowing(PUT)
    first, second = recognized(heads, PUT), recognized(heads, PUT)
    assert first is not None
    assert second is not None
    assert first.headers is second.headers


def test_limits_hold_for_known_heads_too() -> None:
    heads = knowing(PUT)
    small = HttpLimits(target_bytes_max=6)
    assert recognized(heads, PUT, small) is None
    assert recognized(heads, PUT.replace(b"/v1/kv/a", b"/v1/kv"), small) is not None
    assert recognized(heads, PUT, HttpLimits(bodies_held_bytes_max=2)) is None


def test_a_recognized_body_is_held_until_its_request_is_answered() -> None:
    counters = HttpCounters()
    parser = RequestParser(
        HttpLimits(), counters, peer="a", is_on_loopback=False, client=Nobody(), heads=knowing(PUT)
    )
    assert parser.recognize(PUT)
    assert counters.bodies_held_bytes == 3
    parser.release(parser.requests[0])
    assert counters.bodies_held_bytes == 0


def test_as_many_heads_are_kept_as_may_be_and_then_all_are_forgotten() -> None:
    counters = HttpCounters()
    heads = KnownHeads(counters)
    messages = [GET.replace(b": a", b": a%d" % number) for number in range(HEADS_MAX + 1)]
    for message in messages:
        parser_with(heads).feed(message)
    assert recognized(heads, messages[0]) is None
    assert recognized(heads, messages[-1]) is not None
    assert counters.known_overflows == 1


def test_long_heads_and_many_fields_are_not_kept() -> None:
    for more in (b"X: " + b"a" * HEAD_BYTES_MAX, b"\r\n".join([b"X: a"] * FIELDS_MAX)):
        data = GET.replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n\r\n")
        assert recognized(knowing(data), data) is None


async def echo(request: Request, rest: str) -> Response:
    return text(200, f"{request.method} {rest}")


async def statuses(router: Router, host: str, messages: list[bytes]) -> list[int]:
    """Of a new connection to that listener of two."""
    listeners = {host: bind_tcp(host, 0) for host in ("0.0.0.0", "127.0.0.1")}
    found = []
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, list(listeners.values()), router.answer, HttpLimits(), HttpCounters())
        for number, message in enumerate(messages):
            listener = listeners["0.0.0.0" if number < len(messages) - 1 else host]
            stream = await trio.open_tcp_stream("127.0.0.1", listener.getsockname()[1])
            async with stream:
                found.append((await Client(stream).ask(message)).status)
        nursery.cancel_scope.cancel()
    return found


ROUTER_OF_KEYS = [Route(("GET", "PUT"), "/v1/kv/", echo, rest=True)]


async def test_a_host_that_was_accepted_elsewhere_is_refused_on_loopback() -> None:
    """There it may be a name that a web page gave to this address."""
    put = PUT.replace(b"Host: a", b"Host: evil.example")
    assert await statuses(Router(ROUTER_OF_KEYS), "0.0.0.0", [put] * 3) == [200, 200, 200]
    assert await statuses(Router(ROUTER_OF_KEYS), "127.0.0.1", [put] * 3) == [200, 200, 403]


async def test_a_page_s_known_head_is_looked_at_again_for_each_request() -> None:
    fetch = GET.replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n")
    assert await statuses(Router(ROUTER_OF_KEYS), "127.0.0.1", [fetch] * 3) == [403, 403, 403]
    link = b"\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n"
    shown = GET.replace(b"/v1/kv/a", b"/ui/").replace(b"\r\n\r\n", link)
    put = shown.replace(b"GET /ui/", b"PUT /v1/kv/a")
    assert await statuses(Router(ROUTER_OF_KEYS), "127.0.0.1", [shown, shown, put]) == [404, 404, 403]
