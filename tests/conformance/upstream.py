"""A small resolver on loopback that stands in for the rest of the Internet behind `recursors`.

It knows a handful of names below example.com; what is below nxdomain., refused. or servfail.example.com
gets that answer, silent.example.com gets none, and everything else is NXDOMAIN.
"""

from __future__ import annotations

import socketserver
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

ZONE = {
    "www.example.com.": ("www.example.com. 300 IN A 192.0.2.80", "www.example.com. 300 IN AAAA 2001:db8::80"),
    "one.example.com.": ("one.example.com. 60 IN A 192.0.2.1",),
    "two.example.com.": ("two.example.com. 60 IN A 192.0.2.2",),
    "alias.example.com.": (
        "alias.example.com. 30 IN CNAME www.example.com.",
        "www.example.com. 300 IN A 192.0.2.80",
    ),
    "many.example.com.": tuple(f"many.example.com. 60 IN A 192.0.2.{host}" for host in range(1, 11)),
    "text.example.com.": ('text.example.com. 60 IN TXT "hello"',),
    "80.2.0.192.in-addr.arpa.": ("80.2.0.192.in-addr.arpa. 60 IN PTR www.example.com.",),
}
REFUSALS = {"refused": dns.rcode.REFUSED, "servfail": dns.rcode.SERVFAIL}


class Datagrams(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        query, answer_socket = self.request
        if (answer := answer_to(query)) is not None:
            answer_socket.sendto(answer, self.client_address)


class Streams(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        (length,) = struct.unpack("!H", self.request.recv(2))
        if (answer := answer_to(self.request.recv(length))) is not None:
            self.request.sendall(struct.pack("!H", len(answer)) + answer)


@contextmanager
def upstream() -> Iterator[str]:
    """Answers at the yielded address, over UDP and TCP, until left."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Streams) as streams:
        address = ("127.0.0.1", streams.server_address[1])
        with socketserver.ThreadingUDPServer(address, Datagrams) as datagrams, serving(streams, datagrams):
            yield f"{address[0]}:{address[1]}"


@contextmanager
def serving(*servers: socketserver.BaseServer) -> Iterator[None]:
    for each in servers:
        Thread(target=each.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield
    finally:
        for each in servers:
            each.shutdown()


def answer_to(wire: bytes) -> bytes | None:
    query = dns.message.from_wire(wire)
    (question,) = query.question
    name = question.name.to_text().lower()
    first = name.split(".")[0]
    if first == "silent":
        return None
    response = dns.message.make_response(query, recursion_available=True)
    records = [rrset(record) for record in ZONE.get(name, ())]
    wanted = [each for each in records if each.rdtype in (question.rdtype, dns.rdatatype.CNAME)]
    if any(each.rdtype == dns.rdatatype.CNAME for each in records):
        wanted = records
    response.answer = wanted
    if name not in ZONE:
        response.set_rcode(REFUSALS.get(first, dns.rcode.NXDOMAIN))
    return response.to_wire()


def rrset(record: str) -> dns.rrset.RRset:
    name, ttl, class_, kind, data = record.split(" ", 4)
    return dns.rrset.from_text(name, int(ttl), class_, kind, data)
