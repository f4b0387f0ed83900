"""UDP sockets as the server reads them, and what it needs to know of an address.

A socket bound to one address is used as it is. One that listens on every address learns from the kernel
(IP_PKTINFO) which of them a question came to, and answers from there: askers drop answers from elsewhere.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

IP_PKTINFO = 8  # Linux; the socket module does not name it before 3.14
PKTINFO_4 = struct.Struct("@i4s4s")  # interface, our address for the answer, the address in the header
PKTINFO_6 = struct.Struct("@16sI")  # address, interface
ANCILLARY_BYTES = 64
EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - recognised here, not bound
PREFIX_BYTES_4 = 3  # a /24
PREFIX_BYTES_6 = 7  # a /56, what one customer usually gets

Origin = tuple[Any, ...]  # as the socket module writes an address: host, port, …


class EveryAddress:
    """A socket that listens everywhere; its origins end with the address that was asked."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.getsockname = sock.getsockname
        self.fileno = sock.fileno
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)

    def recvfrom(self, size: int, /) -> tuple[bytes, Origin]:
        packet, ancillary, _, asker = self._sock.recvmsg(size, ANCILLARY_BYTES)
        return packet, (*asker, [_answering(*each) for each in ancillary])

    def sendto(self, packet: bytes, origin: Origin, /) -> int:
        *asker, ancillary = origin
        return self._sock.sendmsg([packet], ancillary, 0, tuple(asker))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()


DatagramSocket = socket.socket | EveryAddress


def datagrams_of(sock: socket.socket) -> DatagramSocket:
    return EveryAddress(sock) if sock.getsockname()[0] in EVERY_ADDRESS else sock


def _answering(level: int, kind: int, data: bytes) -> tuple[int, int, bytes]:
    """The note about a question, turned into one for its answer: the same address, and any interface but for
    link-local ones, which mean nothing without theirs."""
    if level == socket.IPPROTO_IP:
        _, ours, _ = PKTINFO_4.unpack(data)
        return level, kind, PKTINFO_4.pack(0, ours, bytes(4))
    ours, interface = PKTINFO_6.unpack(data)
    is_link_local = ours[0] == 0xFE and ours[1] & 0xC0 == 0x80
    return level, kind, PKTINFO_6.pack(ours, interface if is_link_local else 0)


def is_loopback(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def prefix_of(host: str) -> bytes:
    """The network an address is counted with."""
    if ":" in host:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:PREFIX_BYTES_6]
    return socket.inet_pton(socket.AF_INET, host)[:PREFIX_BYTES_4]
