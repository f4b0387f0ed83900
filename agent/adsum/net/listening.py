"""Sockets that wait for other agents: a datagram socket and a listener on one port, as gossip needs them."""

from __future__ import annotations

import socket

import trio

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.net.addresses import address_of, socket_address

# Bursts wait here while the loop does something else. The kernel gives what net.core.rmem_max allows.
DATAGRAM_BUFFER_BYTES = 2 * 1024 * 1024
STREAM_BACKLOG = 256
FREE_PORT_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Ears:
    udp: socket.socket
    tcp: trio.SocketListener

    @property
    def address(self) -> Address:
        return address_of(self.udp.getsockname())


def bind_both(host: str, port: int) -> Ears:
    """With port 0 on one that happens to be free for both."""
    for attempt in range(FREE_PORT_ATTEMPTS):
        listener = bind_tcp(host, port)
        try:
            return Ears(bind_udp(host, listener.socket.getsockname()[1]), listener)
        except OSError:
            listener.socket.close()
            if port or attempt == FREE_PORT_ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def bind_udp(host: str, port: int) -> socket.socket:
    sock = _bound(host, port, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, DATAGRAM_BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DATAGRAM_BUFFER_BYTES)
    return sock


def bind_tcp(host: str, port: int) -> trio.SocketListener:
    sock = _bound(host, port, socket.SOCK_STREAM)
    sock.listen(STREAM_BACKLOG)
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


def _bound(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        sock.settimeout(0)
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port) if port == 0 else socket_address(Address(host, port))[1])
    except BaseException:
        sock.close()
        raise
    return sock
