"""The parser takes any bytes: what h11 accepts it reads alike, however it is cut; the rest it refuses."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.http.head_cache import KnownHeads
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.parser import RequestParser
from adsum.http.request import Request
from tests.http.http_support import Nobody

Seen = tuple[str, bytes, dict[bytes, list[bytes]], bytes]
HOST = b"Host: a\r\n"


def parser_of(limits: HttpLimits, counters: HttpCounters) -> RequestParser:
    return RequestParser(
        limits, counters, peer="127.0.0.1", is_on_loopback=False, client=Nobody(), heads=KnownHeads(counters)
    )


def parse(*pieces: bytes, limits: HttpLimits | None = None) -> RequestParser:
    parser = parser_of(limits or HttpLimits(), HttpCounters())
    for piece in pieces:
        parser.feed(piece)
    return parser


def refusal_status(parser: RequestParser) -> int:
    return 0 if parser.refusal is None else parser.refusal.status


def seen(request: Request) -> Seen:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in request.headers.pairs:
        headers.setdefault(name.lower(), []).append(value.strip())
    return request.method, request.target, headers, request.body


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


# ---- requests as clients make them

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~", min_size=1, max_size=12)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=30)
FRAMING = {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"}
EXTRA = st.lists(st.tuples(TOKEN.filter(lambda name: name.lower() not in FRAMING), VALUE), max_size=4)
METHOD = st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS"])
TARGET = st.text("abc/%20?&=;+:@!$'()*,-._~", max_size=40).map(lambda text: "/" + text)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    lines = [f"{draw(METHOD)} {draw(TARGET)} HTTP/1.1", "Host: 127.0.0.1:8500"]
    lines += [f"{name}:{draw(st.sampled_from(['', ' ', '  ']))}{value}" for name, value in draw(EXTRA)]
    body = draw(st.binary(max_size=200))
    if draw(st.booleans()):
        lines.append("Transfer-Encoding: chunked")
        chunks = [piece for piece in cut(body, draw(st.lists(st.integers(0, 200), max_size=3))) if piece]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in chunks) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body


def read_by_h11(data: bytes) -> list[Seen]:
    """Raises h11.RemoteProtocolError."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    found: list[Seen] = []
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            headers: dict[bytes, list[bytes]] = {}
            for name, value in event.headers:
                headers.setdefault(name, []).append(value)
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            found.append((head.method.decode(), head.target, headers, body))
            connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE:
                return found
            connection.start_next_cycle()
        else:
            return found


@given(st.lists(requests(), min_size=1, max_size=4), st.lists(st.integers(0, 2000), max_size=8))
def test_what_h11_reads_we_read_the_same_wherever_it_is_cut(messages: list[bytes], places: list[int]) -> None:
    data = b"".join(messages)
    expected = read_by_h11(data)
    parser = parse(*cut(data, places))
    assert parser.refusal is None
    assert [seen(request) for request in parser.requests] == expected


@given(requests())
def test_a_request_that_comes_byte_by_byte_is_the_same_request(message: bytes) -> None:
    whole, single = parse(message), parse(*(message[i : i + 1] for i in range(len(message))))
    assert [seen(request) for request in single.requests] == [seen(request) for request in whole.requests]
    assert len(whole.requests) == 1


@given(requests(), st.data())
def test_a_damaged_request_is_read_as_h11_reads_it_or_refused(message: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(message) - 1))
    damaged = message[:place] + data.draw(st.binary(max_size=3)) + message[place + 1 :]
    parser = parse(damaged)
    try:
        expected = read_by_h11(damaged)
    except h11.RemoteProtocolError:
        return
    if parser.refusal is None and len(parser.requests) == len(expected):
        assert [seen(request) for request in parser.requests] == expected


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_random_bytes_are_refused_with_a_sentence_or_wait_for_more(pieces: list[bytes]) -> None:
    parser = parse(*pieces)
    assert len(parser.requests) == 0 or b"HTTP/" in b"".join(pieces)
    if parser.refusal is not None:
        assert 400 <= parser.refusal.status < 600
        assert parser.refusal.body.plain


# ---- framing that two servers could read in two ways

SMUGGLING = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "the same length twice": b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": b"Content-Length: 4, 4\r\n\r\nabcd",
    "a signed length": b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": b"Content-Length: -4\r\n\r\nabcd",
    "a length beyond 64 bits": b"Content-Length: 99999999999999999999\r\n\r\nabcd",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\nabcd",
    "chunked and more": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "more and chunked": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Content-Length : 4\r\n\r\nabcd",
    "a folded header": b"X: a\r\n b\r\n\r\n",
    "a bare line feed": b"X: a\nContent-Length: 4\r\n\r\nabcd",
    "a bare carriage return": b"X: a\rContent-Length: 4\r\n\r\nabcd",
    "a zero byte": b"X: a\0b\r\n\r\n",
    "a header without a colon": b"Content-Length\r\n\r\n",
    "chunks with bare line feeds": b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    "a chunk size beyond 64 bits": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc",
    "a second host": b"Host: b\r\n\r\n",
}


@pytest.mark.parametrize("head", SMUGGLING.values(), ids=SMUGGLING)
def test_ambiguous_framing_is_refused_and_nothing_behind_it_is_read(head: bytes) -> None:
    parser = parse(b"PUT /v1/a HTTP/1.1\r\n" + HOST + head + b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")
    assert refusal_status(parser) in (400, 413, 501)
    assert b"/smuggled" not in [request.target for request in parser.requests]


@pytest.mark.parametrize("target", ["/v1/catalog/service/café", "/v1/catalog/services?tag=é"])
def test_letters_beyond_ascii_must_come_escaped(target: str) -> None:
    parser = parse(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target.encode())
    assert refusal_status(parser) == 400
    assert not parser.requests


def test_a_refused_request_does_not_take_back_those_before_it() -> None:
    parser = parse(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2\r\nHTTP\r\n\r\n")
    assert [request.target for request in parser.requests] == [b"/1"]
    assert refusal_status(parser) == 400


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"BOGUS / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
)
def test_protocols_and_hosts_that_are_not_served(raw: bytes, status: int) -> None:
    assert refusal_status(parse(raw)) == status


def test_the_old_protocol_needs_no_host_and_ends_the_connection() -> None:
    parser = parse(b"GET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")
    assert [request.target for request in parser.requests] == [b"/1"]
    assert parser.is_finished
    assert parser.refusal is None


# ---- upgrades, which Java's client offers with every request


@pytest.mark.parametrize(
    "framed", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("step", [1, 1000])
def test_an_upgrade_that_is_not_followed_leaves_the_body_a_body(framed: bytes, step: int) -> None:
    head = b"PUT /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    data = (head + framed) * 2 + b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
    parser = parse(*(data[i : i + step] for i in range(0, len(data), step)))
    assert parser.refusal is None
    assert [(request.target, request.body) for request in parser.requests] == [
        (b"/1", b"abc"),
        (b"/1", b"abc"),
        (b"/2", b""),
    ]


def test_many_upgrades_in_one_piece_do_not_pile_up() -> None:
    one = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    assert len(parse(one * 2000).requests) == 2000


# ---- sizes

SMALL = HttpLimits(header_bytes_max=1000, target_bytes_max=100, body_bytes_max=500, bodies_held_bytes_max=800)


@pytest.mark.parametrize("step", [1, 64, 100_000])
@pytest.mark.parametrize(
    ("raw", "status", "cause"),
    [
        (b"GET /" + b"a" * 100_000, 414, "target_too_large"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 1000, 431, "header_too_large"),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 501\r\n\r\n", 413, "body_too_large"),
        (
            b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"80\r\n" + b"a" * 128 + b"\r\n") * 4,
            413,
            "body_too_large",
        ),
    ],
)
def test_what_is_too_large_is_refused_by_name(raw: bytes, status: int, cause: str, step: int) -> None:
    counters = HttpCounters()
    parser = parser_of(SMALL, counters)
    for start in range(0, len(raw), step):
        parser.feed(raw[start : start + step])
    assert refusal_status(parser) == status
    assert parser.refusal is not None
    assert b" too large" in parser.refusal.body.plain
    assert counters.rejected[cause] == 1


@pytest.mark.parametrize(
    "opening",
    [
        b"GET / HTTP/1.1\r\nA: ",
        b"GET / HTTP/1.1\r\n",
        b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ",
    ],
    ids=["a value", "a name", "a chunk extension", "a trailer"],
)
def test_what_never_ends_is_cut_off_though_the_parser_never_reports_it(opening: bytes) -> None:
    parser = parse(opening, limits=SMALL)
    for _ in range(30):
        parser.feed(b"a" * 100)
    assert refusal_status(parser) == 431


def test_the_largest_allowed_body_passes_in_the_smallest_chunks() -> None:
    chunks = b"1\r\na\r\n" * 500 + b"0\r\n\r\n"
    parser = parse(b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", chunks, limits=SMALL)
    assert [len(request.body) for request in parser.requests] == [500]


def test_bodies_of_all_connections_together_are_bounded_and_given_back() -> None:
    counters = HttpCounters()
    first, second = parser_of(SMALL, counters), parser_of(SMALL, counters)
    put = b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + b"a" * 500
    first.feed(put)
    second.feed(put)
    assert refusal_status(second) == 503
    assert counters.bodies_held_bytes == 500
    first.release(first.requests.pop(0))
    first.close()
    second.close()
    assert counters.bodies_held_bytes == 0


def test_a_trailer_is_no_header() -> None:
    data = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nOrigin: b\r\n\r\n"
    assert parse(data).requests[0].headers.pairs == [(b"Host", b"a"), (b"Transfer-Encoding", b"chunked")]


def test_kept_connections_share_their_headers_and_so_what_was_concluded_from_them() -> None:
    data = b"GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"
    first, second = parse(data, data.replace(b"/x", b"/y")).requests
    assert first.headers is second.headers
    assert first.headers.takes_gzip


def test_the_word_to_continue_is_asked_for_each_time() -> None:
    head = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    parser = parse(head)
    assert parser.expects_continue
    parser.feed(b"abc")
    parser.feed(head)
    assert parser.expects_continue
    assert not parse(head + b"a").expects_continue
