"""What our domains answer: a name and a type in, records out, read straight from the catalog's view.

There is one zone behind the fast path, the full parser and `explain`. It knows names, health and records, and
nothing of packets: sizes, order and compression belong to `answers`. Nothing is kept between questions, so
an answer is true for exactly as long as the view's index and the settings stand.

The rules are Consul's (the contract, sections 3.1 to 3.3), with these differences. An empty answer always
carries the SOA. Targets stay in the domain that was asked, so a resolver that forwards only `adsum.` can
follow them. An unknown address has no name (NXDOMAIN), which is no server's failure. A type that a name
cannot have is empty: TXT of a service, A of an IPv6 address.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import replace

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.indexes import TAG_BITS
from adsum.catalog.model import Node
from adsum.catalog.view import CatalogHost, Instance, View
from adsum.dns import wire
from adsum.dns.names import AskedName, NameKind, parse_ip, read_name
from adsum.dns.settings import DnsSettings
from adsum.dns.wire import AAAA, ANY, CNAME, NS, NXDOMAIN, PTR, SOA, SRV, TXT, A, Record
from adsum.frozen import dataclass

ALIASES_MAX = 3  # CNAMEs in a row that we follow ourselves; Consul's recursion level
NAME_SERVERS_MAX = 3
SRV_PRIORITY = 1
SERVERS_SERVICE = "consul"  # every server registers itself under this name
ADDRESS_TYPES = frozenset({A, AAAA, ANY})
TRANSFERS = frozenset({wire.AXFR, wire.IXFR})
CHAIN_TYPES = frozenset({A, AAAA, CNAME})
ALIAS_TYPES = frozenset({A, AAAA, CNAME, ANY})  # of a node: its name has TXT records beside the alias
VALUE_ONLY_PREFIX = "rfc1035-"  # node meta keys that become a TXT of their value alone
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Offer:
    """One record of the answer and what is said beside it, which leaves with it when room is short."""

    record: Record
    addresses: tuple[Record, ...] = ()
    texts: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    rcode: int = wire.NOERROR
    offers: tuple[Offer, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    offers_max: int = 0  # 0 is all of them
    is_rotated: bool = False  # equals, of which everyone should come first in turn
    is_authoritative: bool = True
    is_known_elsewhere: bool = False  # recursors, where there are any, know better
    chase: str = ""  # a name outside our domains at which the chain of aliases continues
    chase_ttl_s: int | None = None  # overrides the TTLs of what is found there


class LeftOut(enum.Enum):
    TAG = "does not carry the tag"
    CRITICAL = "is critical"
    WARNING = "is warning, and only_passing is set"


def continued(answer: Answer, found: Iterable[Record]) -> Answer:
    """The answer with what a recursor found at the end of its chain of aliases."""
    ttl_s = answer.chase_ttl_s
    records = (record if ttl_s is None else record._replace(ttl_s=ttl_s) for record in found)
    return replace(answer, offers=(*answer.offers, *(Offer(record) for record in records)), chase="")


def left_out(instance: Instance, tag: str, settings: DnsSettings) -> LeftOut | None:
    """Why an instance is no answer; None if it is one."""
    if tag and tag not in (each.lower() for each in instance.service.value.tags):
        return LeftOut.TAG
    status = instance.status
    if status is CheckStatus.CRITICAL:
        return LeftOut.CRITICAL
    if status is CheckStatus.WARNING and settings.only_passing:
        return LeftOut.WARNING
    return None


class Zone:
    def __init__(self, view: View, settings: DnsSettings) -> None:
        self._view = view
        self._settings = settings
        # A settings value with a domain that DNS cannot carry is refused by the configuration.
        self._wire_domains = {domain: wire.encode_name(domain) or wire.ROOT for domain in settings.domains}

    def answer(self, name: bytes, qtype: int) -> Answer:
        return self._answer(name, qtype, (name.lower(),))

    def _answer(self, name: bytes, qtype: int, trail: tuple[bytes, ...]) -> Answer:
        """`trail`: the names that led here, this one last. It bounds the following of aliases."""
        if qtype in TRANSFERS:
            return Answer(wire.NOTIMP)
        asked = read_name(wire.labels_of(name), qtype, self._settings)
        if asked.kind is NameKind.ELSEWHERE:
            return Answer(wire.REFUSED, is_authoritative=False, is_known_elsewhere=True)
        if asked.kind is NameKind.POINTER:
            return self._pointer(asked, name, qtype)
        if qtype == SOA:
            servers = self._name_servers(asked)[:NAME_SERVERS_MAX]
            return Answer(
                offers=(Offer(self._soa(asked.domain)),),
                authority=tuple(offer.record for offer in servers),
                additional=tuple(record for offer in servers for record in offer.addresses),
            )
        if qtype == NS:
            return Answer(offers=self._name_servers(asked), offers_max=NAME_SERVERS_MAX, is_rotated=True)
        if asked.kind is NameKind.SERVICE:
            return self._service(asked, name, qtype, trail)
        if asked.kind is NameKind.NODE:
            return self._node(asked, name, qtype, trail)
        if asked.kind is NameKind.ADDRESS:
            return self._address(asked, name, qtype)
        return self._nothing(asked)

    # Services.

    def _service(self, asked: AskedName, owner: bytes, qtype: int, trail: tuple[bytes, ...]) -> Answer:
        settings = self._settings
        instances = self._view.instances(asked.subject)
        found = [each for each in instances if left_out(each, asked.tag, settings) is None]
        if not found:
            return self._nothing(asked)
        ttl_s = settings.ttl_s_of(asked.subject)
        if qtype == SRV:
            return Answer(offers=self._service_offers(asked, owner, found, ttl_s, trail), is_rotated=True)
        places = [_place_of(instance, owner) for instance in found]
        # An alias stands for every type of its name, so it is given only where no instance has an address.
        if all(parse_ip(place) is None for place in places) and wire.encode_name(places[0]) is not None:
            return self._alias(owner, places[0], qtype, ttl_s, trail, chain_ttl_s=ttl_s)
        records = _address_records(owner, places, qtype, ttl_s) if qtype in ADDRESS_TYPES else []
        if not records:
            return self._no_data(asked)
        offers = tuple(Offer(record) for record in records)
        return Answer(offers=offers, offers_max=settings.a_record_limit, is_rotated=True)

    def _service_offers(
        self, asked: AskedName, owner: bytes, found: Sequence[Instance], ttl_s: int, trail: tuple[bytes, ...]
    ) -> tuple[Offer, ...]:
        offers: dict[tuple[str, str, int], Offer] = {}
        texts: dict[str, tuple[Record, ...]] = {}  # by node: hundreds of instances may share one
        for instance in found:
            service, node = instance.service.value, instance.host.node.value
            key = (node.name, service.address, service.port)
            if key in offers:
                continue
            target = self._target(instance, asked, owner)
            if target is None:
                continue
            if node.name not in texts:
                texts[node.name] = self._node_texts(node, self._node_name(node, asked.domain), ttl_s)
            is_warning = instance.status is CheckStatus.WARNING
            weight = service.weight_warning if is_warning else service.weight_passing
            numbers = (SRV_PRIORITY, weight, service.port)
            data = b"".join((number & 0xFFFF).to_bytes(2) for number in numbers)
            place = _place_of(instance, owner)
            address = parse_ip(place)
            if address is not None:
                beside = [_address_record(target, address, ttl_s)]
            else:  # what our domains say about that name
                beside = [record._replace(ttl_s=ttl_s) for record in self._follow(place, trail)[0]]
            offers[key] = Offer(Record(owner, SRV, ttl_s, data, target), tuple(beside), texts[node.name])
        return tuple(offers.values())

    def _target(self, instance: Instance, asked: AskedName, owner: bytes) -> bytes | None:
        """The name a client should connect to; None if there is none that DNS can carry."""
        node = instance.host.node.value
        place = _place_of(instance, owner)
        address = parse_ip(place)
        if address is None:
            return wire.encode_name(place)
        is_at_node = instance.service.value.address != place
        by_node = self._node_name(node, asked.domain) if is_at_node else None
        by_address = f"{address.packed.hex()}.addr.{self._settings.datacenter}"
        return by_node or self._name_under(asked.domain, by_address)

    # Nodes.

    def _node(self, asked: AskedName, owner: bytes, qtype: int, trail: tuple[bytes, ...]) -> Answer:
        host = self._view.node(asked.subject)
        if host is None:
            return self._nothing(asked)
        node, ttl_s = host.node.value, self._settings.node_ttl_s
        if parse_ip(node.address) is None and qtype in ALIAS_TYPES and wire.encode_name(node.address):
            return self._alias(owner, node.address, qtype, ttl_s, trail)
        records = _address_records(owner, [node.address], qtype, ttl_s) if qtype in ADDRESS_TYPES else []
        texts = _meta_records(owner, node, ttl_s) if qtype in {ANY, TXT} else ()
        beside = self._node_texts(node, owner, ttl_s) if qtype in {A, AAAA} else ()
        if not records and not texts:
            return replace(self._no_data(asked), additional=beside)
        offers = tuple(Offer(record) for record in (*records, *texts))
        return Answer(offers=(replace(offers[0], texts=beside), *offers[1:]))

    def _node_texts(self, node: Node, owner: bytes | None, ttl_s: int) -> tuple[Record, ...]:
        if owner is None or not self._settings.enable_additional_node_meta_txt:
            return ()
        return _meta_records(owner, node, ttl_s)

    # Aliases.

    def _alias(
        self,
        owner: bytes,
        host: str,
        qtype: int,
        ttl_s: int,
        trail: tuple[bytes, ...],
        chain_ttl_s: int | None = None,
    ) -> Answer:
        chain, chase = self._follow(host, trail) if qtype in ADDRESS_TYPES else ((), "")
        if chain_ttl_s is not None:
            chain = tuple(record._replace(ttl_s=chain_ttl_s) for record in chain)
        alias = Record(owner, CNAME, ttl_s, target=wire.encode_name(host) or wire.ROOT)
        offers = tuple(Offer(record) for record in (alias, *chain))
        return Answer(offers=offers, chase=chase, chase_ttl_s=chain_ttl_s)

    def _follow(self, host: str, trail: tuple[bytes, ...]) -> tuple[tuple[Record, ...], str]:
        """What our domains say about the target of an alias, and where the chain leaves them."""
        name = wire.encode_name(host)
        if name is None or name.lower() in trail or len(trail) > ALIASES_MAX:
            return (), ""
        answer = self._answer(name, ANY, (*trail, name.lower()))
        if answer.is_known_elsewhere:
            return (), host
        records = (offer.record for offer in answer.offers)
        return tuple(record for record in records if record.rtype in CHAIN_TYPES), answer.chase

    # Addresses, forth and back.

    def _address(self, asked: AskedName, owner: bytes, qtype: int) -> Answer:
        address = ipaddress.ip_address(asked.subject)
        record = _address_record(owner, address, self._settings.node_ttl_s)
        if qtype in {record.rtype, ANY}:
            return Answer(offers=(Offer(record),))
        return replace(self._no_data(asked), additional=(record,))

    def _pointer(self, asked: AskedName, owner: bytes, qtype: int) -> Answer:
        names = (self._name_at(who, asked.domain) for who in self._view.at_address(asked.subject))
        target = next(filter(None, names), None)
        if target is None:
            return replace(self._nothing(asked), is_known_elsewhere=True)
        if qtype not in {PTR, ANY}:
            return self._no_data(asked)
        return Answer(offers=(Offer(Record(owner, PTR, 0, target=target)),))

    def _name_at(self, who: CatalogHost | Instance, domain: str) -> bytes | None:
        if isinstance(who, CatalogHost):
            return self._node_name(who.node.value, domain)
        name = who.service.value.name
        return self._name_under(domain, f"{name}.service.{self._settings.datacenter}")

    # The zone itself.

    def _name_servers(self, asked: AskedName) -> tuple[Offer, ...]:
        zone, ttl_s = self._wire_domains[asked.domain], self._settings.node_ttl_s
        offers: dict[str, Offer] = {}
        for instance in self._view.instances(SERVERS_SERVICE):
            node = instance.host.node.value
            name, address = self._node_name(node, asked.domain), parse_ip(node.address)
            if name is not None and address is not None:
                glue = (_address_record(name, address, ttl_s),)
                offers[node.name] = Offer(Record(zone, NS, ttl_s, target=name), glue)
        return tuple(offers.values())

    def _nothing(self, asked: AskedName) -> Answer:
        return Answer(NXDOMAIN, authority=(self._soa(asked.domain),))

    def _no_data(self, asked: AskedName) -> Answer:
        return Answer(authority=(self._soa(asked.domain),))

    def _soa(self, domain: str) -> Record:
        soa, zone = self._settings.soa, self._wire_domains[domain]
        # The serial is the second in which the catalog last changed: it moves when the zone does.
        serial = (self._view.index >> TAG_BITS) // 1000 & 0xFFFFFFFF
        numbers = (serial, soa.refresh_s, soa.retry_s, soa.expire_s, soa.min_ttl_s)
        data = b"\2ns" + zone + b"\x0ahostmaster" + zone + b"".join(number.to_bytes(4) for number in numbers)
        return Record(zone, SOA, soa.min_ttl_s, data)

    def _node_name(self, node: Node, domain: str) -> bytes | None:
        return self._name_under(domain, f"{node.name}.node.{self._settings.datacenter}")

    def _name_under(self, domain: str, name: str) -> bytes | None:
        return wire.encode_name(f"{name}.{domain}")


def _place_of(instance: Instance, asked_name: bytes) -> str:
    """Where an instance listens: its own address, or its node's. One that gives the very name that was asked
    means its node, or it would be its own alias."""
    address, node_address = instance.service.value.address, instance.host.node.value.address
    if not address:
        return node_address
    is_asked = parse_ip(address) is None and (wire.encode_name(address) or b"").lower() == asked_name.lower()
    return node_address if is_asked else address


def _address_records(owner: bytes, places: Iterable[str], qtype: int, ttl_s: int) -> list[Record]:
    """One record for each distinct address of the type asked."""
    addresses = [address for address in map(parse_ip, dict.fromkeys(places)) if address is not None]
    records = [_address_record(owner, address, ttl_s) for address in dict.fromkeys(addresses)]
    return [record for record in records if qtype in {record.rtype, ANY}]


def _address_record(owner: bytes, address: Address, ttl_s: int) -> Record:
    return Record(owner, A if address.version == 4 else AAAA, ttl_s, address.packed)


def _meta_records(owner: bytes, node: Node, ttl_s: int) -> tuple[Record, ...]:
    texts = []
    for key, value in node.meta.items():
        escaped = key.replace("`", "``").replace("=", "`=")  # RFC 1464; Consul doubles them in values too
        is_bare = key.startswith(VALUE_ONLY_PREFIX)
        texts.append(value if is_bare else f"{escaped}={value.replace('`', '``')}")
    return tuple(Record(owner, TXT, ttl_s, wire.text_data(text)) for text in texts)
