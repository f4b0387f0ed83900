"""Responses are encoded once, and nothing in a header can begin another."""

from __future__ import annotations

import gzip

import pytest
import trio

from adsum.http.response import FALSE, TRUE, Body, HeaderInjection, Response, empty, json_body, text


def test_the_head_has_what_consul_sends() -> None:
    response = json_body(b"[]", (("X-Consul-Index", "7"),))
    assert response.head(gzip=False) == (
        b"HTTP/1.1 200 OK\r\n"
        b"Content-Type: application/json\r\n"
        b"Content-Length: 2\r\n"
        b"Vary: Accept-Encoding\r\n"
        b"X-Consul-Index: 7\r\n"
    )


def test_an_empty_answer_has_no_content_type() -> None:
    assert empty(200).head(gzip=False) == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nVary: Accept-Encoding\r\n"
    )


def test_a_sentence_is_plain_text() -> None:
    assert b"Content-Type: text/plain; charset=utf-8\r\n" in text(400, "Invalid index").head(gzip=False)


def test_the_compressed_head_measures_the_compressed_body() -> None:
    body = Body(b"a" * 5000)
    head = json_body(body).head(gzip=True)
    assert b"Content-Encoding: gzip\r\n" in head
    assert b"Content-Length: %d\r\n" % len(body.gzipped()) in head
    assert gzip.decompress(body.gzipped()) == b"a" * 5000


def test_a_shared_body_is_compressed_once() -> None:
    body = Body(b"a" * 5000)
    assert json_body(body).body.gzipped() is json_body(body).body.gzipped()


async def test_a_large_body_is_compressed_once_however_many_wait_for_it() -> None:
    body = Body(b"a" * 2_000_000)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(body.gzip_elsewhere)
    assert gzip.decompress(body.gzipped()) == body.plain


async def test_whoever_waits_for_a_compression_takes_over_when_the_one_at_it_is_cancelled() -> None:
    body = Body(b"a" * 2_000_000)
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def compress_first() -> None:
            with first:
                await body.gzip_elsewhere()

        nursery.start_soon(compress_first)
        nursery.start_soon(body.gzip_elsewhere)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
    assert body.gzipped()


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\0b"])
def test_a_header_value_can_not_begin_another_header(value: str) -> None:
    with pytest.raises(HeaderInjection):
        Response(headers=(("X-Consul-Reason", value),)).head(gzip=False)


def test_new_site_headers_replace_an_encoded_head() -> None:
    response = empty(200)
    response.head(gzip=False)
    response.set_site_headers(b"Access-Control-Allow-Origin: *\r\n")
    assert b"Access-Control-Allow-Origin: *\r\n" in response.head(gzip=False)


def test_a_small_answer_is_kept_in_one_piece_that_lacks_its_status_line_and_what_varies() -> None:
    response = json_body(b"[1]", (("X-Consul-Index", "7"),))
    fields = (
        b"Content-Type: application/json\r\n"
        b"Content-Length: 3\r\n"
        b"Vary: Accept-Encoding\r\n"
        b"X-Consul-Index: 7\r\n"
    )
    assert response.small() == fields + b"\r\n[1]"
    response.set_site_headers(b"X-Site: ours\r\n")
    assert response.small() == fields + b"X-Site: ours\r\n\r\n[1]"


def test_what_may_be_compressed_is_not_small() -> None:
    assert [bool(json_body(b"x" * size).small()) for size in (0, 1023, 1024)] == [True, True, False]


def test_short_answers_are_made_once_and_say_what_they_always_said() -> None:
    assert empty(404) is empty(404)
    assert [empty(status).head(gzip=False).split(b"\r\n")[0] for status in (200, 404)] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 404 Not Found",
    ]
    assert empty(404, (("X-A", "b"),)).headers == (("X-A", "b"),)
    assert empty(404).headers == ()
    assert [(answer.status, answer.body.plain) for answer in (TRUE, FALSE)] == [
        (200, b"true"),
        (200, b"false"),
    ]


def test_a_shared_answer_carries_the_headers_of_the_site_that_sends_it() -> None:
    for site in (b"X-Site: a\r\n", b"X-Site: b\r\n", b""):
        answer = empty(404)
        answer.set_site_headers(site)
        head = answer.head(gzip=False)
        assert head.count(b"X-Site") == bool(site)
        assert head.endswith(site)
