"""HTTP proxies from the environment: HTTP_PROXY, HTTPS_PROXY and NO_PROXY in either case, as Go reads them.

Loopback targets never go through a proxy. In a CGI process HTTP_PROXY could be set by a request's header,
and is ignored there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

from adsum.frozen import dataclass

if TYPE_CHECKING:  # its patterns cost a hundredth of a start, and an agent without HTTP checks reads no URL
    from adsum.health_checks.url import Url


@dataclass(frozen=True, slots=True)
class Proxies:
    by_scheme: Mapping[str, str]
    exceptions: tuple[str, ...]

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Proxies:
        http = "" if "REQUEST_METHOD" in environ else _either_case(environ, "HTTP_PROXY")
        https = _either_case(environ, "HTTPS_PROXY")
        named = {"http": http, "https": https}
        exceptions = _either_case(environ, "NO_PROXY").lower().split(",")
        return cls(
            by_scheme={scheme: proxy for scheme, proxy in named.items() if proxy},
            exceptions=tuple(entry.strip() for entry in exceptions if entry.strip()),
        )

    def choose(self, url: Url) -> Url | None:
        """May raise BadUrl: a proxy that can't be read must not be bypassed in silence."""
        if not self.by_scheme:
            return None
        from adsum.health_checks.url import BadUrl, parse_url_cached

        proxy = self.by_scheme.get(url.scheme)
        host = url.host.lower().rstrip(".")
        address = _address(host)
        is_loopback = host == "localhost" or (address is not None and address.is_loopback)
        if proxy is None or is_loopback:
            return None
        if any(_excepts(entry, host, url.port, address) for entry in self.exceptions):
            return None
        chosen = parse_url_cached(proxy if "://" in proxy else f"http://{proxy}")
        if chosen.scheme != "http" or not chosen.host:
            raise BadUrl(f'proxy "{chosen.shown}": only http:// proxies are supported')
        return chosen


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _excepts(entry: str, host: str, port: int, address: Address | None) -> bool:
    """An entry is `*`, a network, an address or a domain, the last two perhaps with a port."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False  # not a network: an entry that matches nothing, as in Go
    name, only_port = _split_port(entry)
    if only_port is not None and only_port != port:
        return False
    if address is not None:
        return _address(name) == address
    if name.startswith("."):
        return host.endswith(name)
    name = name.removeprefix("*.")
    return host == name or host.endswith("." + name)


def _split_port(entry: str) -> tuple[str, int | None]:
    if _address(entry) is not None:
        return entry, None
    name, colon, port = entry.rpartition(":")
    if not colon or not port.isdecimal():
        return entry.strip("[]"), None
    return name.strip("[]"), int(port)


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _either_case(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.lower()) or ""
