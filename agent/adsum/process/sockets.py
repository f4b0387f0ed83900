"""Every address this agent listens on, bound at once: a port that is taken stops the start before anything
runs, with a sentence that names it."""

from __future__ import annotations

import socket
from dataclasses import field

import trio

from adsum.config.config import Config
from adsum.dns_server import server as dns_server
from adsum.http import listeners
from adsum.mutable import dataclass

SERVERS_BACKLOG = 256
UNCHANGED = -1  # chown leaves it as it is


class CannotStart(Exception):
    """Something outside must be changed first; the message says what. Nothing runs."""


@dataclass(slots=True)
class Sockets:
    http: list[socket.socket] = field(default_factory=list)
    https: list[socket.socket] = field(default_factory=list)
    dns_udp: list[socket.socket] = field(default_factory=list)
    dns_tcp: list[trio.SocketListener] = field(default_factory=list)
    servers: socket.socket | None = None  # of a server, for the others


def bind(config: Config) -> Sockets:
    sockets = Sockets()
    ports, addresses = config.ports, config.addresses
    try:
        if ports.http >= 0:
            sockets.http = [_bind_http(config, where, ports.http) for where in addresses.http]
        if ports.https >= 0:
            sockets.https = [_bind_http(config, where, ports.https) for where in addresses.https]
    except listeners.BindFailed as problem:
        raise CannotStart(str(problem)) from None
    for host in addresses.dns if ports.dns >= 0 else ():
        try:
            udp, tcp = dns_server.bind_both(host, ports.dns)
        except OSError as problem:
            sentence = f"Can't listen for DNS on {host} port {ports.dns}: {problem.strerror}"
            raise CannotStart(sentence) from None
        sockets.dns_udp.append(udp)
        sockets.dns_tcp.append(tcp)
    if config.is_server:
        sockets.servers = _bind_servers(config.bind_address, ports.server)
    return sockets


def _bind_servers(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(SERVERS_BACKLOG)
    except OSError as problem:
        listener.close()
        raise CannotStart(f"Can't listen for servers on {host} port {port}: {problem.strerror}") from None
    return listener


def listeners_of(config: Config) -> int:
    """How many sockets `bind` makes; those of HTTP are kept twice, so that they outlast the server."""
    ports, addresses = config.ports, config.addresses
    http = len(addresses.http) * (ports.http >= 0) + len(addresses.https) * (ports.https >= 0)
    return 2 * http + 2 * len(addresses.dns) * (ports.dns >= 0) + config.is_server


def _bind_http(config: Config, address: str, port: int) -> socket.socket:
    if not address.startswith("unix://"):
        return listeners.bind_tcp(address, port)
    owner = config.unix_sockets
    try:
        user_id, group_id = _file_owner(owner.user, owner.group)
    except LookupError as problem:
        raise CannotStart(f"unix_sockets names an owner this host does not know: {problem}") from None
    path = address.removeprefix("unix://")
    return listeners.bind_unix(path, mode=owner.mode, user_id=user_id, group_id=group_id)


def _file_owner(user: str, group: str) -> tuple[int, int]:
    """By name or by number, as an operator writes them. Raises LookupError, naming who is unknown."""
    import grp
    import pwd

    user_id = int(user or UNCHANGED) if not user or user.isdecimal() else pwd.getpwnam(user).pw_uid
    group_id = int(group or UNCHANGED) if not group or group.isdecimal() else grp.getgrnam(group).gr_gid
    return user_id, group_id
