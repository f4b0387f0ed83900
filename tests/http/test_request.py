"""What a target means: paths decoded once and cleaned, query parameters as Go reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.http.request import BadPath, Headers, Query
from tests.http.http_support import request_of


def path_of(target: bytes) -> str:
    return request_of("GET", target).path


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/agent/self", "/v1/agent/self"),
        (b"/v1/agent/self?pretty#top", "/v1/agent/self"),
        (b"/v1/agent/service/deregister/batman/pg0", "/v1/agent/service/deregister/batman/pg0"),
        (b"/v1/agent/service/deregister/batman%2Fpg0", "/v1/agent/service/deregister/batman/pg0"),
        (b"/v1/a%20b+c%3A", "/v1/a b+c:"),
        (b"/v1/%2525", "/v1/%25"),
        (b"//v1///agent//self", "/v1/agent/self"),
        (b"/v1/x/../agent/./self", "/v1/agent/self"),
        (b"/v1/%2e%2E/%2e/agent", "/agent"),
        (b"/../../etc/passwd", "/etc/passwd"),
        (b"/v1/kv/", "/v1/kv/"),
        (b"/v1/x//", "/v1/x/"),
        (b"/v1//kv//a", "/v1/kv/a"),
        (b"/v1/service/http:%2F%2Fa", "/v1/service/http://a"),
        (b"/v1/stra%C3%9Fe", "/v1/straße"),
        (b"//", "/"),
        (b"*", "*"),
        (b"http://127.0.0.1:8500/v1/agent/self?x", "/v1/agent/self"),
    ],
)
def test_paths_are_decoded_once_and_cleaned(target: bytes, path: str) -> None:
    assert path_of(target) == path


@pytest.mark.parametrize("target", [b"/v1/%01", b"/v1/%7F", b"/v1/a%0D%0Ab", b"/v1/%E2%80%AE"])
def test_a_path_that_does_not_print_is_refused_without_a_word(target: bytes) -> None:
    with pytest.raises(BadPath) as bad:
        path_of(target)
    assert str(bad.value) == ""


@pytest.mark.parametrize("target", [b"/v1/%zz", b"/v1/%", b"/v1/%f", b"/v1/%ff", b"ftp://a/b", b"v1/agent"])
def test_a_path_that_can_not_be_decoded_is_refused_with_a_sentence(target: bytes) -> None:
    with pytest.raises(BadPath) as bad:
        path_of(target)
    assert str(bad.value)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/kv/", "/v1/kv/"),
        (b"/v1/kv//", "/v1/kv//"),
        (b"/v1/kv//a//b/../c/.?raw", "/v1/kv//a//b/../c/."),
        (b"/v1/kv/../agent/self", "/v1/kv/../agent/self"),
        (b"/v1/kv/a%2Fb+c%00%7F", "/v1/kv/a/b+c\x00\x7f"),
        (b"/v1/kv/%FF", "/v1/kv/\udcff"),
        (b"http://127.0.0.1:8500/v1/kv/%2525", "/v1/kv/%25"),
    ],
)
def test_a_key_is_decoded_once_and_neither_cleaned_nor_refused(target: bytes, path: str) -> None:
    assert path_of(target) == path


def test_a_key_with_half_an_escape_is_refused_with_a_sentence() -> None:
    with pytest.raises(BadPath, match="two hexadecimal digits"):
        path_of(b"/v1/kv/a%2")


@given(st.binary(max_size=60))
def test_any_target_has_a_clean_path_or_none(target: bytes) -> None:
    try:
        path = path_of(b"/" + target)
    except BadPath:
        return
    assert path.startswith("/")
    assert path.isprintable()
    request_of("GET", target).query.first("a")


def test_query_presence_empty_values_and_repetition() -> None:
    query = Query(b"stale&tag=a&tag=b&near=&&note=a=b")
    assert query.has("stale")
    assert not query.has("consistent")
    assert query.first("stale", "x") == ""
    assert query.first("consistent", "x") == "x"
    assert query.all("tag") == ["a", "b"]
    assert query.first("near", "x") == ""
    assert query.first("note") == "a=b"


def test_query_values_are_decoded_as_forms_are() -> None:
    query = Query(b"filter=a+%3D%3D+%22b%22&k%20ey=%C3%A9&plus=%2B&bad=%FF")
    assert query.first("filter") == 'a == "b"'
    assert query.first("k ey") == "é"
    assert query.first("plus") == "+"
    assert query.first("bad") == "\N{REPLACEMENT CHARACTER}"


def test_query_drops_what_go_can_not_decode() -> None:
    assert list(Query(b"index=%zz&wait=1s")) == [("wait", "1s")]


def test_headers_are_found_by_lower_case_name_and_the_first_wins() -> None:
    headers = Headers([(b"X-Consul-Token", b" a \t"), (b"x-consul-token", b"b")])
    assert request_of("GET", b"/", headers=headers).headers.first("x-consul-token") == "a"
    assert headers.first("missing") == ""


@pytest.mark.parametrize(
    ("value", "takes"),
    [
        (b"gzip", True),
        (b"deflate, GZIP;q=0.5", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000", False),
        (b"identity", False),
        (b"x-gzipped", False),
        (b"", False),
    ],
)
def test_gzip_is_taken_by_those_who_say_so(value: bytes, takes: bool) -> None:
    assert Headers([(b"Accept-Encoding", value)]).takes_gzip is takes
