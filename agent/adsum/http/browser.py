"""A web page must not reach the API through the browser of someone who can.

Two attacks matter. A page on another site makes the browser send requests here (a form post needs no
permission); browsers give it away by `Origin` or `Sec-Fetch-Site`. Or the page's own name is made to
resolve to 127.0.0.1, so that it looks like the same site (DNS rebinding); then `Host` carries the
attacker's name, so a listener that is bound to loopback serves only names that nobody else can own. Clients
that are no browsers send none of these headers.

A link to us on someone's wiki is a plain navigation: the other page learns nothing from it and it can't
write. But it could have this agent work, with a filter over all that it knows, or all members asked for
their keys; so such a link leads to the page (`/` and `/ui/`) and to nothing else. What a user types, or keeps
as a bookmark, leads everywhere.
"""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress

from adsum.frozen import dataclass
from adsum.http.request import Headers, Request

ORIGIN_ADVICE = (
    "Set Access-Control-Allow-Origin in http_config.response_headers if that page is meant to use this API."
)
LINK_ADVICE = (
    "A link on another site leads only to /ui/ here. Type this address yourself, or make it a bookmark."
)
HOST_ADVICE = "Use an IP address or localhost, or add the name to http_config.allowed_hosts."
BRACKETED = re.compile(r"\[([0-9a-f:.]+)\](?::\d*)?")
NAMED = re.compile(r"([^:]+)(?::\d*)?")
NAME_SHOWN_CHARACTERS_MAX = 100
OWN_SITES = ("", "none", "same-origin")


@dataclass(frozen=True, slots=True)
class BrowserRules:
    hosts: frozenset[str] = frozenset()  # lower-case: the node's name and http_config.allowed_hosts
    # lower-case DNS domains that are ours, without dots at the ends
    domains: tuple[str, ...] = ("consul", "adsum")
    allowed_origin: str = ""  # Access-Control-Allow-Origin of http_config.response_headers


class Foreign(Exception):
    """Someone's browser was sent here by a page that isn't ours. Nothing was done."""

    def __init__(self, cause: str, sentence: str) -> None:
        super().__init__(sentence)
        self.cause = cause
        self.sentence = sentence


def check_browser(rules: BrowserRules, request: Request) -> None:
    """Raises Foreign. Acceptance is kept with the headers, for the next request of the connection."""
    headers = request.headers
    if headers.accepted_by is rules:
        return
    if request.is_on_loopback:
        host = headers.first("host")
        if host and not is_host_ours(rules, host):
            sentence = f"The host {_shown(host)} is not one of this agent's names. {HOST_ADVICE}"
            raise Foreign("foreign_host", sentence)
    if not _is_own_page(rules, headers):
        if not _is_navigation(request):
            origin = headers.first("origin")
            page = f"A page of {_shown(origin)}" if origin else "A page of another site"
            raise Foreign("foreign_origin", f"{page} may not use this API. {ORIGIN_ADVICE}")
        if request.path not in ("/", "/ui") and not request.path.startswith("/ui/"):
            raise Foreign("foreign_link", LINK_ADVICE)
    if not headers.has("sec-fetch-mode"):
        headers.accepted_by = rules


def is_host_ours(rules: BrowserRules, host: str) -> bool:
    host = host.lower()
    match = BRACKETED.fullmatch(host) or NAMED.fullmatch(host)
    name = match[1] if match else host
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    name = name.removesuffix(".")
    return (
        name == "localhost"
        or name in rules.hosts
        or any(name == domain or name.endswith("." + domain) for domain in rules.domains)
    )


def _is_own_page(rules: BrowserRules, headers: Headers) -> bool:
    if rules.allowed_origin == "*":
        return True
    if headers.has("origin"):
        origin = headers.first("origin")
        if origin and origin == rules.allowed_origin:
            return True
        scheme, _, authority = origin.lower().partition("://")
        host = headers.first("host").lower()
        return scheme in ("http", "https") and bool(authority) and authority == host
    return headers.first("sec-fetch-site") in OWN_SITES


def _is_navigation(request: Request) -> bool:
    headers = request.headers
    return (
        request.method == "GET"
        and not headers.has("origin")
        and headers.first("sec-fetch-mode") == "navigate"
        and headers.first("sec-fetch-dest") == "document"
    )


def _shown(name: str) -> str:
    return ascii(name[:NAME_SHOWN_CHARACTERS_MAX])
