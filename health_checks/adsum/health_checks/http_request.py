"""The requests of an HTTP check: the first from its definition, the next from a redirect, as Go's client
makes them.

The framing and the connection are ours, whatever the definition's headers say. Names are compared without
case, so a lower-case `user-agent` replaces ours (Consul would send both).
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from urllib.parse import urljoin

import h11

from adsum.catalog.definitions import CheckDefinition
from adsum.frozen import dataclass
from adsum.health_checks.attempt import CheckFailed
from adsum.health_checks.http_response import CheckResponse
from adsum.health_checks.url import BadUrl, Url, parse_url, quoted
from adsum.userinfo import without_password_of_unclear

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
ABSOLUTE = re.compile(rf"{SCHEME.pattern}|//")
BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
NOT_FORWARDED = frozenset(("authorization", "www-authenticate", "cookie", "cookie2"))
OURS = frozenset(
    ("host", "user-agent", "content-length", "transfer-encoding", "trailer", "connection", "accept-encoding")
)

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CheckRequest:
    method: str
    url: Url
    headers: Headers  # what the definition asked for, and a Referer after a redirect
    host: str  # of the Host header; empty for the URL's
    body: bytes

    @property
    def asks_for_compression(self) -> bool:
        """As Go: compression is ours to undo only if it was ours to ask for."""
        return all(name.lower() not in ("accept-encoding", "range") for name, _ in self.headers)


def first_request(definition: CheckDefinition, method: str, url: Url) -> CheckRequest:
    given = sorted(definition.header.items())
    headers = [(name, value.strip()) for name, values in given for value in values]
    for name, value in headers:
        if not TOKEN.fullmatch(name):
            raise CheckFailed(f"net/http: invalid header field name {quoted(name)}")
        if BAD_VALUE.search(value):  # in the words of a later Go, which do not show what may be a secret
            raise CheckFailed(f"net/http: invalid header field value for {quoted(name)}")
    host = next((value for name, value in headers if name.lower() == "host"), "")
    return CheckRequest(method, url, headers, host, definition.body.encode())


def next_request(request: CheckRequest, response: CheckResponse, first: Url) -> CheckRequest:
    """What Go asks after a redirect: what it drops, it drops so that secrets stay with whom they are for."""
    url = _destination(request, response)
    keeps_body = response.code in (307, 308)
    changes_method = not keeps_body and request.method not in ("GET", "HEAD")
    headers = [(name, value) for name, value in request.headers if _is_forwarded(name.lower(), url, first)]
    # What was asked in private is not told in the open.
    if request.url.scheme != "https" or url.scheme != "http":
        headers.append(("Referer", _absolute(request.url)))
    return CheckRequest(
        method="GET" if changes_method else request.method,
        url=url,
        headers=sorted(headers),
        host="" if ABSOLUTE.match(response.location) else request.host,
        body=request.body if keeps_body else b"",
    )


def render(protocol: h11.Connection, request: CheckRequest, proxy: Url | None, user_agent: str) -> bytes:
    """The bytes to send: to the target, or to a proxy that wants the whole URL."""
    head = h11.Request(
        method=request.method,
        target=f"http://{request.url.authority}{request.url.target}" if proxy else request.url.target,
        headers=[(name.encode(), value.encode()) for name, value in _headers(request, proxy, user_agent)],
    )
    data = protocol.send(head) or b""
    if request.body:
        data += protocol.send(h11.Data(data=request.body)) or b""
    return data + (protocol.send(h11.EndOfMessage()) or b"")


def render_connect(protocol: h11.Connection, url: Url, proxy: Url) -> bytes:
    headers = [("Host", url.address), *_proxy_authorization(proxy)]
    head = h11.Request(method="CONNECT", target=url.address, headers=headers)
    return (protocol.send(head) or b"") + (protocol.send(h11.EndOfMessage()) or b"")


def _headers(request: CheckRequest, proxy: Url | None, user_agent: str) -> Headers:
    """In Go's order."""
    names = {name.lower(): value for name, value in request.headers}
    headers = [
        ("Host", request.host or request.url.authority),
        ("User-Agent", names.get("user-agent") or user_agent),
    ]
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        headers.append(("Content-Length", str(len(request.body))))
    if "accept" not in names:
        headers.append(("Accept", "text/plain, text/*, */*"))
    if request.url.user is not None and "authorization" not in names:
        headers.append(_basic("Authorization", request.url.user))
    headers += [(name, value) for name, value in request.headers if name.lower() not in OURS]
    headers.append(("Accept-Encoding", names.get("accept-encoding") or "gzip"))
    headers.append(("Connection", "close"))
    return headers + (_proxy_authorization(proxy) if proxy else [])


def _proxy_authorization(proxy: Url) -> Headers:
    return [] if proxy.user is None else [_basic("Proxy-Authorization", proxy.user)]


def _basic(name: str, user: bytes) -> tuple[str, str]:
    return name, f"Basic {b64encode(user).decode()}"


def _destination(request: CheckRequest, response: CheckResponse) -> Url:
    location = response.location
    if not location:
        raise CheckFailed(f"{response.code} response missing Location header")
    try:
        if SCHEME.match(location):
            return parse_url(location)
        url = parse_url(urljoin(_absolute(request.url), location))
        return url if location.startswith("//") else replace(url, user=request.url.user)
    except (BadUrl, ValueError) as error:
        shown = quoted(without_password_of_unclear(location))
        raise CheckFailed(f"failed to parse Location header {shown}: {error}") from error


def _is_forwarded(name: str, new: Url, first: Url) -> bool:
    if name in NOT_FORWARDED:
        return new.address == first.address or new.address.endswith("." + first.address)
    return name != "referer"


def _absolute(url: Url) -> str:
    return f"{url.scheme}://{url.authority}{url.target}"
