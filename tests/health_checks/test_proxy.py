from __future__ import annotations

import pytest

from adsum.health_checks.proxy import Proxies
from adsum.health_checks.url import BadUrl, parse_url


@pytest.mark.parametrize(
    ("url", "no_proxy", "is_proxied"),
    [
        ("http://web.test/", "", True),
        ("http://localhost:8080/", "", False),
        ("http://127.5.5.5/", "", False),
        ("http://[::1]/", "", False),
        ("http://web.test/", "*", False),
        ("http://web.test/", "test", False),
        ("http://web.test/", "other.test, web.test", False),
        ("http://web.test/", ".test", False),
        ("http://test/", ".test", True),
        ("http://web.test/", "*.test", False),
        ("http://webb.test/", "b.test", True),
        ("http://WEB.Test./", "web.TEST", False),
        ("http://web.test:81/", "web.test:81", False),
        ("http://web.test:82/", "web.test:81", True),
        ("http://10.1.2.3/", "10.0.0.0/8", False),
        ("http://11.1.2.3/", "10.0.0.0/8", True),
        ("http://10.1.2.3/", "10.1.2.3", False),
        ("http://10.1.2.3:81/", "10.1.2.3:82", True),
        ("http://[2001:db8::1]/", "2001:db8::/32", False),
        ("http://[2001:db8::1]/", "2001:db8::1", False),
        ("http://web.test/", "10.0.0.0/8,not/a/network", True),
    ],
)
def test_exceptions_are_read_as_go_reads_them(url: str, no_proxy: str, is_proxied: bool) -> None:
    proxies = Proxies.from_environ({"HTTP_PROXY": "proxy.test:3128", "NO_PROXY": no_proxy})
    chosen = proxies.choose(parse_url(url))
    assert (chosen is not None) == is_proxied
    assert chosen is None or chosen.address == "proxy.test:3128"


def test_each_scheme_has_its_own_proxy() -> None:
    proxies = Proxies.from_environ({"https_proxy": "http://s.test"})
    assert proxies.choose(parse_url("http://web.test/")) is None
    chosen = proxies.choose(parse_url("https://web.test/"))
    assert chosen is not None
    assert chosen.address == "s.test:80"


def test_proxy_from_a_request_header_is_ignored_in_a_cgi_process() -> None:
    proxies = Proxies.from_environ({"HTTP_PROXY": "evil.test", "REQUEST_METHOD": "GET"})
    assert proxies.choose(parse_url("http://web.test/")) is None


def test_proxy_of_a_kind_we_cannot_speak_to_is_refused_not_bypassed() -> None:
    proxies = Proxies.from_environ({"HTTP_PROXY": "socks5://u:secret@s.test"})
    with pytest.raises(BadUrl, match=r'proxy "socks5://u:\*\*\*@s.test": only http:// proxies are supported'):
        proxies.choose(parse_url("http://web.test/"))


def test_password_of_a_proxy_that_cannot_be_read_is_hidden() -> None:
    proxies = Proxies.from_environ({"HTTP_PROXY": "http://u:sec/ret@proxy.test:3128"})
    with pytest.raises(BadUrl, match=r'^parse "http://u:\*\*\*@proxy.test:3128": invalid port'):
        proxies.choose(parse_url("http://web.test/"))
