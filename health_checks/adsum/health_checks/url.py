"""The URL of an HTTP check, read as Go's net/url reads it, with its texts for what is wrong.

The standard library's parser silently drops control characters and accepts ports that are no ports; here
the text ends up in a request line, so what is not a URL is refused, and what needs escaping is escaped.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from adsum.frozen import dataclass
from adsum.userinfo import without_password, without_password_of_unclear

URLS_CACHED_MAX = 4096  # two per check of a large agent

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}")
PORT = re.compile(r"[0-9]*")
QUOTATION = re.compile(r'".*"', re.DOTALL)
BAD_HOST_CHARACTER = re.compile(r"[\s\"<>\\^`{|}/@#?]")
PATH_SAFE = "/%:@!$&'()*+,;=-._~[]"
# Go sends these as they are; only blanks and non-ASCII would break the line.
QUERY_SAFE = PATH_SAFE + '?"<>\\^`{|}'
DEFAULT_PORTS = {"http": 80, "https": 443}


class BadUrl(ValueError):
    """The caller's text is no URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    user: bytes | None  # decoded "name:password", as Basic authentication wants it
    host: str  # without brackets
    port: int
    authority: str  # host and port as written: what the Host header says
    target: str  # path and query, escaped
    shown: str  # the whole, without the password, for outputs

    @property
    def address(self) -> str:
        return _join(self.host, self.port)


def parse_url(text: str) -> Url:
    if CONTROL.search(text):
        raise _bad(text, "net/url: invalid control character in URL")
    whole, hash_sign, fragment = text.partition("#")
    scheme, rest = _take_scheme(whole, text)
    authority_and_path, question, query = rest.partition("?")
    if not authority_and_path.startswith("//"):  # http:opaque, or no scheme at all
        return Url(scheme, None, "", 0, "", "", without_password(text))
    authority, slash, path = authority_and_path[2:].partition("/")
    path = slash + path
    if bad := BAD_ESCAPE.search(path):
        raise _bad(text, f'invalid URL escape "{bad[0]}"')
    path = quote(path, safe=PATH_SAFE)
    query = question + quote(query, safe=QUERY_SAFE)
    userinfo, at, host_port = authority.rpartition("@")
    host, port = _split_host(host_port, text)
    colon = ":" if scheme else ""
    shown = without_password(f"{scheme}{colon}//{authority}{path}{query}{hash_sign}{fragment}")
    user = unquote_to_bytes(userinfo if ":" in userinfo else userinfo + ":") if at else None
    return Url(
        scheme=scheme,
        user=user,
        host=host,
        port=port if port is not None else DEFAULT_PORTS.get(scheme, 0),
        authority=host_port.removesuffix(":") if host_port.isascii() else _join(host, port),
        target=(path or "/") + query,
        shown=shown,
    )


# For URLs that come back on every run. Redirects don't belong here: what a target sends must not fill it.
parse_url_cached = lru_cache(maxsize=URLS_CACHED_MAX)(parse_url)


def _take_scheme(whole: str, text: str) -> tuple[str, str]:
    match = SCHEME.match(whole)
    if match:
        return match[1].lower(), whole[match.end() :]
    if whole.startswith(":"):
        raise _bad(text, "missing protocol scheme")
    if ":" in whole.partition("/")[0]:
        raise _bad(text, "first path segment in URL cannot contain colon")
    return "", whole


def _split_host(host_port: str, text: str) -> tuple[str, int | None]:
    if host_port.startswith("["):
        host, bracket, port_text = host_port[1:].partition("]")
        if not bracket:
            raise _bad(text, "missing ']' in host")
        host = host.replace("%25", "%")  # the zone of a link-local address
    else:
        host, colon, port_text = host_port.rpartition(":")
        host, port_text = (host, colon + port_text) if colon else (host_port, "")
    bad = BAD_HOST_CHARACTER.search(host)
    if bad:
        raise _bad(text, f'invalid character "{bad[0]}" in host name')
    return _ascii_host(host, text), _port(port_text, text)


def _ascii_host(host: str, text: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        raise _bad(text, f"invalid host name {quoted(host)}") from None


def _port(port_text: str, text: str) -> int | None:
    if port_text in ("", ":"):
        return None
    if port_text[0] != ":" or not PORT.fullmatch(port_text[1:]):
        raise _bad(text, f'invalid port "{port_text}" after host')
    return int(port_text[1:8])  # beyond 65535 it is refused when dialled, as in Go; the cut bounds the number


def _join(host: str, port: int | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _bad(text: str, why: str) -> BadUrl:
    """What was taken for a port or a path may be the end of a password that nobody escaped."""
    shown = without_password_of_unclear(text)
    if shown != text:
        why = QUOTATION.sub('"***"', why)
    return BadUrl(f"parse {quoted(shown)}: {why}")


def quoted(text: str) -> str:
    """As Go's %q: what can't be printed is escaped, the rest stays readable."""
    escaped = "".join(c if c.isprintable() and c not in '\\"' else _escaped(c) for c in text)
    return f'"{escaped}"'


def _escaped(character: str) -> str:
    return f"\\{character}" if character in '\\"' else character.encode("unicode_escape").decode("ascii")
