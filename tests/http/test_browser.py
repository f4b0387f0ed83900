"""Attacks by way of someone's browser, as the router meets them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.http.browser import BrowserRules, is_host_ours
from adsum.http.limits import HttpCounters
from adsum.http.request import Headers, Request
from adsum.http.response import Response, empty
from adsum.http.router import HttpRules, Route, Router
from tests.http.http_support import request_of

RULES = BrowserRules(hosts=frozenset({"web-1", "consul.example.com"}), domains=("consul", "adsum"))


class Site:
    def __init__(self, rules: BrowserRules = RULES) -> None:
        self.asked: list[str] = []
        self.counters = HttpCounters()
        routes = [
            Route(("GET", "PUT"), "/v1/agent/a", self._handle),
            Route(("PUT",), "/v1/agent/b", self._handle),
            Route(("GET", "PUT"), "/ui/", self._handle, rest=True),
        ]
        self._router = Router(routes, HttpRules(browser=rules), self.counters)

    async def _handle(self, request: Request, rest: str) -> Response:
        self.asked.append(request.method)
        return empty(200)

    async def ask(
        self, method: str, headers: dict[str, str], *, path: str = "/v1/agent/a", is_on_loopback: bool = True
    ) -> Response:
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        return await self._router.answer(
            request_of(method, path.encode(), headers=Headers(pairs), is_on_loopback=is_on_loopback)
        )


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8500",
        "127.0.0.1",
        "[::1]:8500",
        "::1",
        "10.1.2.3:8500",
        "localhost",
        "LOCALHOST:8500",
        "localhost.:8500",
        "web-1:8500",
        "Consul.Example.com",
        "consul.service.consul:8500",
        "web-1.node.dc1.adsum.",
    ],
)
def test_names_that_nobody_else_can_own_are_served(host: str) -> None:
    assert is_host_ours(RULES, host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:8500",
        "127.0.0.1.evil.com",
        "localhost.evil.com",
        "consul.evil.com",
        "evilconsul",
        "web-1.evil.com",
        "[evil.com]:8500",
        "localhost:8500@evil.com",
        "a:b:evil.com",
        "",
        "[",
    ],
)
def test_names_that_an_attacker_can_own_are_not(host: str) -> None:
    assert not is_host_ours(RULES, host)


@given(st.text(max_size=40))
def test_any_host_is_ours_or_not(host: str) -> None:
    is_host_ours(RULES, host)


async def test_a_rebound_name_reaches_nothing_on_loopback() -> None:
    site = Site()
    refused = await site.ask("GET", {"Host": "evil.com:8500", "Sec-Fetch-Site": "same-origin"})
    assert refused.status == 403
    assert b"http_config.allowed_hosts" in refused.body.plain
    assert site.asked == []
    assert site.counters.rejected["foreign_host"] == 1


async def test_a_rebound_name_is_refused_for_navigation_too() -> None:
    navigation = {"Host": "evil.com:8500", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await Site().ask("GET", navigation)).status == 403


async def test_beyond_loopback_and_on_unix_sockets_any_name_is_served() -> None:
    assert (await Site().ask("GET", {"Host": "consul.corp.example"}, is_on_loopback=False)).status == 200


async def test_clients_that_are_no_browsers_are_not_bothered() -> None:
    site = Site()
    assert (await site.ask("PUT", {"Host": "127.0.0.1:8500", "User-Agent": "curl/8"})).status == 200
    assert (await site.ask("GET", {})).status == 200  # HTTP/1.0 has no Host


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://evil.com"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:8501"},
    {"Origin": "ftp://127.0.0.1:8500"},
    {"Origin": "http://127.0.0.1:8500.evil.com"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
]


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "OPTIONS"])
async def test_a_page_of_another_site_is_refused(method: str, foreign: dict[str, str]) -> None:
    site = Site()
    refused = await site.ask(method, {"Host": "127.0.0.1:8500", **foreign})
    assert refused.status == 403
    assert b"Access-Control-Allow-Origin" in refused.body.plain
    assert site.asked == []
    assert site.counters.rejected["foreign_origin"] == 1


@pytest.mark.parametrize("origin", ["http", "http://", "https://"])
async def test_an_origin_without_a_host_is_nobody_s_own_page(origin: str) -> None:
    assert (await Site().ask("PUT", {"Host": "", "Origin": origin})).status == 403
    assert (await Site().ask("PUT", {"Origin": origin})).status == 403


async def test_a_form_posted_by_another_site_changes_nothing() -> None:
    site = Site()
    form = {
        "Host": "127.0.0.1:8500",
        "Origin": "https://evil.com",
        "Content-Type": "text/plain",
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert (await site.ask("POST", form, path="/v1/agent/b")).status == 403
    form.pop("Origin")
    assert (await site.ask("POST", form, path="/v1/agent/b")).status == 403
    assert site.asked == []


async def test_our_own_page_may_read_and_write() -> None:
    site = Site()
    own = {"Host": "127.0.0.1:8500", "Origin": "http://127.0.0.1:8500", "Sec-Fetch-Site": "same-origin"}
    assert (await site.ask("PUT", own)).status == 200
    assert (await site.ask("GET", {"Host": "localhost:8500", "Sec-Fetch-Site": "same-origin"})).status == 200


LINK = {
    "Host": "localhost",
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}


async def test_an_address_that_was_typed_is_served() -> None:
    typed = {"Host": "localhost", "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    assert (await Site().ask("GET", typed, path="/v1/agent/a?filter=x")).status == 200


@pytest.mark.parametrize("path", ["/ui/", "/ui/dc1/services", "/ui", "/ui/?x=y"])
async def test_a_link_on_another_site_leads_to_the_page(path: str) -> None:
    assert (await Site().ask("GET", LINK, path=path)).status == 200
    assert (await Site().ask("PUT", LINK, path=path)).status == 403


@pytest.mark.parametrize("site_said", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    "path",
    ["/v1/agent/a", "/v1/agent/a?filter=x", "/metrics", "/ui/../v1/agent/a", "/ui/%2e%2e/v1/agent/a", "/uix"],
)
async def test_a_link_on_another_site_leads_to_nothing_else(path: str, site_said: str) -> None:
    site = Site()
    refused = await site.ask("GET", {**LINK, "Sec-Fetch-Site": site_said}, path=path)
    assert refused.status == 403
    assert b"leads only to /ui/ here. Type this address yourself" in refused.body.plain
    assert site.asked == []
    assert site.counters.rejected["foreign_link"] == 1


async def test_the_followed_link_is_no_pass_for_what_comes_after_it() -> None:
    site = Site()
    link = Headers([(name.encode(), value.encode()) for name, value in LINK.items()])
    router = site._router
    assert (await router.answer(request_of("GET", b"/ui/", headers=link))).status == 200
    assert (await router.answer(request_of("GET", b"/v1/agent/a", headers=link))).status == 403
    assert (await router.answer(request_of("PUT", b"/v1/agent/a", headers=link))).status == 403


async def test_a_page_that_the_configuration_allows_is_served() -> None:
    site = Site(BrowserRules(allowed_origin="https://ops.example"))
    allowed = {"Host": "127.0.0.1", "Origin": "https://ops.example", "Sec-Fetch-Site": "cross-site"}
    assert (await site.ask("PUT", allowed)).status == 200
    assert (await site.ask("PUT", {**allowed, "Origin": "https://evil.example"})).status == 403
    assert (await Site(BrowserRules(allowed_origin="*")).ask("GET", FOREIGN[0])).status == 200


async def test_post_stands_in_for_put_only_without_an_origin() -> None:
    site = Site()
    own = {"Host": "127.0.0.1:8500", "Origin": "http://127.0.0.1:8500"}
    assert (await site.ask("POST", {"Host": "127.0.0.1"}, path="/v1/agent/b")).status == 200
    assert (await site.ask("POST", own, path="/v1/agent/b")).status == 405
    assert site.asked == ["PUT"]


async def test_the_name_in_a_refusal_is_shown_harmlessly_and_short() -> None:
    refused = await Site().ask("GET", {"Host": "a\x1b[31m" + "b" * 500})
    assert b"\x1b" not in refused.body.plain
    assert len(refused.body.plain) < 300
