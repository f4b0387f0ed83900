"""Addresses and names of the network, as configuration keys write them. Each reader raises `BadValue`."""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Iterable

from adsum.config.kinds import BadValue

UNIX = "unix://"
SERF_LAN_PORT = 8301  # stands in while an entry is only checked
GOSSIP_KEY_SIZES = (16, 24, 32)  # AES-128, AES-192, AES-256
DOMAIN_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
DOMAIN_LENGTH_MAX = 253


def read_address(text: str) -> str:
    """One IP address, in the form everybody else compares with."""
    if "{{" in text:
        raise BadValue(
            f'"{text}" is a template: only plain IP addresses are read, put the address itself here'
        )
    try:
        return str(ipaddress.ip_address(text.strip().removeprefix("[").removesuffix("]")))
    except ValueError:
        raise BadValue(f'must be an IP address, not "{text}"') from None


def read_specific_address(text: str) -> str:
    """One that others can connect to."""
    address = read_address(text)
    if ipaddress.ip_address(address).is_unspecified:
        raise BadValue(f"must be an address that others can reach, not {text}")
    return address


def read_listeners(text: str, *, takes_unix: bool) -> tuple[str, ...]:
    """Several in one text, parted by spaces."""
    if "{{" in text:
        read_address(text)
    listeners = [
        part if takes_unix and part.startswith(UNIX) and len(part) > len(UNIX) else read_address(part)
        for part in text.split()
    ]
    if not listeners:
        raise BadValue("must name at least one IP address")
    return tuple(dict.fromkeys(listeners))


def read_recursor(text: str) -> str:
    """An address, or one with a port; a name would have to be resolved by the resolver it configures."""
    address, port = _split_port(text)
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise BadValue(f'"{text}" has no port between 1 and 65535')
    host = read_address(address)
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        address, _, rest = text[1:].partition("]")
        return address, rest.removeprefix(":")
    if text.count(":") == 1:
        address, _, port = text.partition(":")
        return address, port
    return text, ""


def read_network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise BadValue(f'must be a network as 10.0.0.0/8, not "{text}"') from None


def is_within(address: str, networks: Iterable[str]) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in networks)


def read_join_entry(text: str) -> str:
    """As it is written: names are looked up, and the port of gossip is added, at each attempt."""
    from adsum.net.join_names import BadEntry, parse  # most starts name nobody, and trio is large

    try:
        parse(text, SERF_LAN_PORT)
    except BadEntry as problem:
        raise BadValue(str(problem)) from None
    return text


def read_gossip_key(text: str) -> str:
    """The sentence must not show what it is about."""
    try:
        size = len(binascii.a2b_base64(text, strict_mode=True))
    except ValueError:
        size = 0
    if size not in GOSSIP_KEY_SIZES:
        raise BadValue("must be 16, 24 or 32 bytes in base64: `adsum keygen` makes such a key")
    return text


def read_domain(text: str) -> str:
    """In lower case and with its final dot."""
    domain = text.lower().rstrip(".")
    labels = domain.split(".")
    if len(domain) > DOMAIN_LENGTH_MAX or not all(DOMAIN_LABEL.fullmatch(label) for label in labels):
        raise BadValue(f'must be a DNS domain, not "{text}"')
    return domain + "."
