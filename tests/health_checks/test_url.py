"""Errors are those of Go's net/url, as Consul 1.8.7 showed them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.health_checks.url import BadUrl, parse_url, quoted


@pytest.mark.parametrize(
    ("text", "address", "authority", "target"),
    [
        ("http://a.test", "a.test:80", "a.test", "/"),
        ("https://a.test/", "a.test:443", "a.test", "/"),
        ("HTTP://a.test:81?x=1", "a.test:81", "a.test:81", "/?x=1"),
        ("http://a.test:/p", "a.test:80", "a.test", "/p"),
        ("http://bücher.test/", "xn--bcher-kva.test:80", "xn--bcher-kva.test", "/"),
        ("http://bücher.test:81/", "xn--bcher-kva.test:81", "xn--bcher-kva.test:81", "/"),
        ("http://[::1]:8080/p#x", "[::1]:8080", "[::1]:8080", "/p"),
        ("http://[::1]/p", "[::1]:80", "[::1]", "/p"),
        ("http://[fe80::1%25lo]/p", "[fe80::1%lo]:80", "[fe80::1%25lo]", "/p"),
        ("http://a.test/a b/é%2F?q r", "a.test:80", "a.test", "/a%20b/%C3%A9%2F?q%20r"),
    ],
)
def test_parts_are_what_the_request_needs(text: str, address: str, authority: str, target: str) -> None:
    url = parse_url(text)
    assert (url.address, url.authority, url.target) == (address, authority, target)


@pytest.mark.parametrize(
    ("text", "shown", "user"),
    [
        ("http://u:secret@h/p#f", "http://u:***@h/p#f", b"u:secret"),
        ("http://u@h", "http://u@h", b"u:"),
        ("http://u%40x:a%3Ab@h", "http://u%40x:***@h", b"u@x:a:b"),
        ("u:secret@h:80/p", "u:***@h:80/p", None),
        ("//u:secret@h:80/p@q", "//u:***@h:80/p@q", b"u:secret"),
    ],
)
def test_password_is_decoded_for_use_and_masked_for_show(text: str, shown: str, user: bytes) -> None:
    url = parse_url(text)
    assert (url.shown, url.user) == (shown, user)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("127.0.0.1:80/p", 'parse "127.0.0.1:80/p": first path segment in URL cannot contain colon'),
        (":foo", 'parse ":foo": missing protocol scheme'),
        ("http://h:abc/", 'parse "http://h:abc/": invalid port ":abc" after host'),
        ("http://[::1", "parse \"http://[::1\": missing ']' in host"),
        ("http://h/a\nb", 'parse "http://h/a\\nb": net/url: invalid control character in URL'),
        ("http://h/c%zz", 'parse "http://h/c%zz": invalid URL escape "%zz"'),
        ("http://a b/", 'parse "http://a b/": invalid character " " in host name'),
        ("http://u:secret@h/c%zz", 'parse "http://u:***@h/c%zz": invalid URL escape "***"'),
        ("http://u:sec/ret@h/", 'parse "http://u:***@h/": invalid port "***" after host'),
    ],
)
def test_what_is_no_url_is_refused(text: str, error: str) -> None:
    with pytest.raises(BadUrl) as caught:
        parse_url(text)
    assert str(caught.value) == error


def test_quoting_is_gos() -> None:
    assert quoted('a"b\\c\r\n\x01é') == '"a\\"b\\\\c\\r\\n\\x01é"'


@given(st.text())
def test_any_text_is_a_url_or_refused_and_never_breaks_the_request_line(text: str) -> None:
    try:
        url = parse_url("http://h/" + text)
    except BadUrl:
        return
    assert url.target.isascii()
    assert not set(url.target) & set(" \r\n\t")
