"""Why a name is answered as it is, in sentences for a person at a terminal: `adsum resolve NAME`.

It asks the same zone and the same rules as a packet would, so it cannot tell another story than DNS does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from adsum.catalog.view import Instance, View
from adsum.dns import wire
from adsum.dns.names import AskedName, NameKind, read_name
from adsum.dns.settings import RECURSOR_PORT, DnsSettings
from adsum.dns.wire import AAAA, NS, SOA, SRV, TXT, A, Record
from adsum.dns.zone import Answer, LeftOut, Zone, left_out

INSTANCES_MAX = 100  # told one by one
OUTPUT_LENGTH_MAX = 120  # of a check's output, quoted as a reason
SOA_NUMBERS_BYTES = 5 * 4  # serial, refresh, retry, expire, minimum
OF_ZONE = frozenset({SOA, NS})  # whatever name of the zone is asked for them
ADDRESSES = {A: 4, AAAA: 16}


def explain(view: View, settings: DnsSettings, name: str, qtype: int) -> list[str]:
    wire_name = wire.encode_name(name)
    if wire_name is None:
        return [f"{name} is no DNS name: a label is empty or longer than 63 bytes, or the whole is over 255."]
    asked = read_name(wire.labels_of(wire_name), qtype, settings)
    answer = Zone(view, settings).answer(wire_name, qtype)
    return [*_reasons(view, settings, asked, wire.text_of(wire_name), qtype), *_outcome(answer, settings)]


def _reasons(view: View, settings: DnsSettings, asked: AskedName, name: str, qtype: int) -> Iterator[str]:
    is_zone = name == f"{asked.domain}."
    is_outside = asked.kind in (NameKind.POINTER, NameKind.ELSEWHERE)
    if not is_outside and (is_zone or qtype in OF_ZONE):
        if is_zone:
            yield f"{name} is our zone itself."
        else:
            yield f"{name} is in our zone {asked.domain}, and for this type the zone itself answers."
        if qtype not in OF_ZONE:
            yield "It has records of the types SOA and NS only, each to be asked for by its type."
        elif qtype == NS:
            yield "Its name servers are the servers of the catalog."
    elif asked.kind is NameKind.SERVICE:
        yield from _service_reasons(view, settings, asked, name)
    elif asked.kind is NameKind.NODE:
        found = view.node(asked.subject)
        if found is None:
            yield f"{name} asks for the node {asked.subject}, and there is no such node in the catalog."
        else:
            yield f"{name} asks for the node {found.name}, which is at {found.node.value.address}."
            yield "A node is answered for even while it has failed."
    elif asked.kind is NameKind.ADDRESS:
        yield f"{name} spells the address {asked.subject}; nothing is looked up."
    elif asked.kind is NameKind.POINTER:
        yield f"{name} asks who is at {asked.subject or 'an incomplete address'}."
    elif asked.kind is NameKind.NOTHING:
        yield f"{name} is in our domain {asked.domain}, but {asked.reason}."
    else:
        yield f"{name} is outside our domains ({', '.join(settings.domains)})."
        if name.count(".") == 1 and settings.domains:
            whole = f"{name}service.{settings.domains[0]}"
            yield f"If it is a service, ask for {whole}; if a node, for {name}node.{settings.domains[0]}."


def _service_reasons(view: View, settings: DnsSettings, asked: AskedName, name: str) -> Iterator[str]:
    instances = view.instances(asked.subject)
    with_tag = f" with the tag {asked.tag}" if asked.tag else ""
    yield f"{name} asks for the service {asked.subject}{with_tag}."
    if not instances:
        yield f"No instance of {asked.subject} is registered on any node."
        return
    kept = sum(left_out(each, asked.tag, settings) is None for each in instances)
    yield f"Of {len(instances)} registered, {kept} can be given."
    for instance in instances[:INSTANCES_MAX]:
        yield _instance_reason(instance, asked, settings)
    if len(instances) > INSTANCES_MAX:
        yield f"The other {len(instances) - INSTANCES_MAX} are not listed here."


def _instance_reason(instance: Instance, asked: AskedName, settings: DnsSettings) -> str:
    service, node = instance.service.value, instance.host.node.value
    who = f"{service.service_id} on {node.name} ({service.address or node.address}, port {service.port})"
    reason = left_out(instance, asked.tag, settings)
    if reason is None:
        return f"{who} is {instance.status} and is given."
    if reason is LeftOut.TAG:
        return f"{who} is left out: it {reason.value} {asked.tag}."
    return f"{who} is left out: it {reason.value}. {_blame(instance)}"


def _blame(instance: Instance) -> str:
    blamed = instance.status
    checks = [row.value for row in instance.all_checks() if row.value.status is blamed]
    told = []
    for check in checks:  # maintenance has no output; its notes are the reason that was given
        first_line = (check.output or check.notes).strip().partition("\n")[0][:OUTPUT_LENGTH_MAX]
        why = f" ({first_line})" if first_line else ""
        told.append(f'"{check.name or check.check_id}" is {check.status}{why}')
    return f"Check {'; check '.join(told)}."


def _outcome(answer: Answer, settings: DnsSettings) -> Iterator[str]:
    recursors = ", ".join(
        each.host if each.port == RECURSOR_PORT else f"{each.host} port {each.port}"
        for each in settings.recursors
    )
    if answer.is_known_elsewhere and recursors:
        yield f"The question goes to the recursors: {recursors}."
        return
    count = len(answer.offers)
    records = {0: "no records", 1: "1 record"}.get(count, f"{count} records")
    yield f"The answer is {wire.RCODE_NAMES[answer.rcode]} with {records}{':' if count else '.'}"
    for offer in answer.offers:
        yield record_text(offer.record)
    if answer.chase:
        end = f"goes on at the recursors: {recursors}" if recursors else "ends here, for want of recursors"
        yield f"The chain of aliases leaves our domains at {answer.chase} and {end}."


def record_text(record: Record) -> str:
    kind = wire.TYPE_NAMES[record.rtype]
    return f"{wire.text_of(record.owner)} {record.ttl_s} IN {kind} {_data(record)}"


def _data(record: Record) -> str:
    if record.rtype in ADDRESSES:
        return str(ipaddress.ip_address(record.data))
    if record.rtype == SRV:
        numbers = (int.from_bytes(record.data[at : at + 2]) for at in (0, 2, 4))
        return " ".join((*map(str, numbers), wire.text_of(record.target)))
    if record.rtype == TXT:
        return f'"{wire.text_of_data(record.data)}"'
    if record.target:
        return wire.text_of(record.target)
    data = record.data  # of SOA, as zone files have it: two names and five numbers
    person_at = data.index(0) + 1
    numbers = (int.from_bytes(data[at : at + 4]) for at in range(len(data) - SOA_NUMBERS_BYTES, len(data), 4))
    return " ".join((wire.text_of(data), wire.text_of(data[person_at:]), *map(str, numbers)))
