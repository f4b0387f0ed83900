"""Connecting to a check's target, with as little machinery as a check that runs every second deserves.

An IP literal is connected on a raw non-blocking socket. A name costs a thread and getaddrinfo, and its
addresses are tried in order, each with a fair share of the time left, as Go's dialer does when there is no
second family to race. Errors read as Go's `net.OpError`, without our own ephemeral port: an output that
changes on every run would travel to every agent of the cluster for nothing.
"""

from __future__ import annotations

import os
import socket

import trio

from adsum.catalog.definitions import CheckDefinition
from adsum.health_checks.attempt import CheckFailed, Surroundings
from adsum.health_checks.tls import describe_tls_error
from adsum.userinfo import without_password

READ_BYTES = 4096  # small, so that a reader of a flood comes back to the loop often
ADDRESSES_MAX = 8  # of one name; the rest are not tried
ADDRESS_TIMEOUT_S_MIN = 2.0  # Go's: below this a share is not worth having
PORT_MAX = 65535

# (family, address) as connect() takes it; IPv6 carries flow and scope.
Endpoint = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


class SocketStream(trio.abc.Stream):
    """A connected socket. Reading waits first, always, so that no flood can keep the loop to itself."""

    def __init__(self, sock: socket.socket, remote: str) -> None:
        self.socket = sock
        self._remote = remote  # "tcp 127.0.0.1:80", for errors

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.socket.send(rest) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self.socket)
            except OSError as error:
                raise CheckFailed(f"write {self._remote}: write: {go_error(error)}") from error

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self.socket)
            try:
                return self.socket.recv(max_bytes or READ_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise CheckFailed(f"read {self._remote}: read: {go_error(error)}") from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.wait_writable(self.socket)

    def close(self) -> None:
        self.socket.close()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()


Stream = SocketStream | trio.SSLStream[SocketStream]


class Dialer:
    """One connection attempt; `doing` says how far it is, for the sentence when the time is up."""

    def __init__(self, surroundings: Surroundings, network: str) -> None:
        self.doing = ""
        self._surroundings = surroundings
        self._network = network
        self._kind = socket.SOCK_STREAM if network == "tcp" else socket.SOCK_DGRAM

    async def dial(self, address: str) -> SocketStream:
        host, port = split_address(address, self._network)
        if not host:  # this host, as Go understands ":80", and says it
            return await self._connect((socket.AF_INET, ("127.0.0.1", port)), f":{port}")
        if "\0" in host:  # which Python's sockets take for a mistake of ours
            raise CheckFailed(f"dial {self._network}: lookup {host}: no such host")
        endpoint = literal_endpoint(host, port)
        if endpoint is not None:
            return await self._connect(endpoint, show_endpoint(endpoint))
        return await self._dial_name(host, port)

    async def _dial_name(self, host: str, port: int) -> SocketStream:
        endpoints = await self._resolve(host, port)
        first_error: CheckFailed | None = None
        for position, endpoint in enumerate(endpoints):
            time_left_s = max(0.0, trio.current_effective_deadline() - trio.current_time())
            share_s = time_left_s / (len(endpoints) - position)
            with trio.move_on_after(max(ADDRESS_TIMEOUT_S_MIN, share_s)):
                try:
                    return await self._connect(endpoint, show_endpoint(endpoint))
                except CheckFailed as error:
                    first_error = first_error or error
                    continue
            first_error = first_error or CheckFailed(f"{self.doing}: i/o timeout")
        raise first_error or CheckFailed(f"dial {self._network}: lookup {host}: no such host")

    async def _resolve(self, host: str, port: int) -> list[Endpoint]:
        self.doing = f"dial {self._network}: lookup {host}"
        try:
            found = await trio.to_thread.run_sync(
                socket.getaddrinfo,
                host,
                port,
                socket.AF_UNSPEC,
                self._kind,
                limiter=self._surroundings.resolver_threads,
                abandon_on_cancel=True,
            )
        except socket.gaierror as error:
            reason = "server misbehaving" if error.errno == socket.EAI_AGAIN else "no such host"
            raise CheckFailed(f"{self.doing}: {reason}") from error
        except UnicodeError as error:  # a label that can't be encoded as a DNS name
            raise CheckFailed(f"{self.doing}: no such host") from error
        endpoints: list[Endpoint] = []
        for family, _kind, _protocol, _name, address in found:
            if family in (socket.AF_INET, socket.AF_INET6) and isinstance(address[0], str):
                endpoints.append((family, address))
        return endpoints[:ADDRESSES_MAX]

    async def _connect(self, endpoint: Endpoint, shown: str) -> SocketStream:
        family, address = endpoint
        self.doing = f"dial {self._network} {shown}"
        try:
            sock = socket.socket(family, self._kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            raise CheckFailed(f"{self.doing}: socket: {go_error(error)}") from error
        try:
            await _connect_socket(sock, address)
        except OSError as error:
            sock.close()
            raise CheckFailed(f"{self.doing}: connect: {go_error(error)}") from error
        except BaseException:
            sock.close()
            raise
        self.doing = ""
        return SocketStream(sock, f"{self._network} {shown}")


class TargetAttempt:
    """What kinds of checks share that connect to a target."""

    network = "tcp"

    def __init__(self, definition: CheckDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._dialer = Dialer(surroundings, self.network)

    async def _secured(
        self, stream: SocketStream, host: str, *, http2: bool = False
    ) -> trio.SSLStream[SocketStream]:
        """Handshake now, so that its errors are told apart from those of what is said later."""
        skip_verify = self._definition.tls_skip_verify
        context = await self._surroundings.tls.get(skip_verify=skip_verify, http2=http2)
        name = self._definition.tls_server_name or host or "localhost"
        try:
            line = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
            await line.do_handshake()
        except trio.BrokenResourceError as error:
            raise CheckFailed(describe_tls_error(error.__cause__, name)) from error
        except ValueError as error:  # a server name that no certificate can have
            raise CheckFailed(f"tls: invalid server name {name!r}") from error
        return line


async def dial_unix(path: str) -> SocketStream:
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise CheckFailed(f"dial unix {path}: socket: {go_error(error)}") from error
    try:
        sock.connect(path)  # at once or never: a full backlog is EAGAIN, not a wait
    except OSError as error:
        sock.close()
        raise CheckFailed(f"dial unix {path}: connect: {go_error(error)}") from error
    return SocketStream(sock, f"unix {path}")


def split_address(address: str, network: str) -> tuple[str, int]:
    """Host and port of "host:port", or CheckFailed in the words of Go's SplitHostPort.

    An `@` is in no name of a host, so whoever wrote one meant a password, which no text below may show.
    """
    _require("@" not in address, without_password(address), network, "user and password in address")
    host, colon, port = address.rpartition(":")
    if address.startswith("["):
        host, bracket, port = address[1:].partition("]")
        _require(bracket, address, network, "missing ']' in address")
        _require(port.startswith(":"), address, network, "missing port in address")
        port = port[1:]
    else:
        _require(colon, address, network, "missing port in address")
        _require(":" not in host, address, network, "too many colons in address")
    return host, _port_number(port, network)


def _require(condition: object, address: str, network: str, why: str) -> None:
    if not condition:
        raise CheckFailed(f"dial {network}: address {address}: {why}")


def _port_number(port: str, network: str) -> int:
    if not port:
        return 0
    if port.isdecimal() and port.isascii():
        number = int(port[:8])
        if number > PORT_MAX:
            raise CheckFailed(f"dial {network}: address {port}: invalid port")
        return number
    try:
        return socket.getservbyname(port, network)
    except OSError as error:
        raise CheckFailed(f"dial {network}: address {network}/{port}: unknown port") from error


def literal_endpoint(host: str, port: int) -> Endpoint | None:
    """Where an IP literal leads, without asking any resolver; None for a name."""
    if ":" not in host:
        try:
            socket.inet_pton(socket.AF_INET, host)
        except OSError:
            return None
        return socket.AF_INET, (host, port)
    address, _percent, zone = host.partition("%")
    try:
        socket.inet_pton(socket.AF_INET6, address)
        scope = int(zone) if zone.isdecimal() else socket.if_nametoindex(zone) if zone else 0
    except OSError as error:
        raise CheckFailed(f"dial tcp: lookup {host}: no such host") from error
    return socket.AF_INET6, (address, port, 0, scope)


def show_endpoint(endpoint: Endpoint) -> str:
    family, address = endpoint
    return f"[{address[0]}]:{address[1]}" if family == socket.AF_INET6 else f"{address[0]}:{address[1]}"


def go_error(error: OSError) -> str:
    """Go and libc name errno alike, but Go starts in lower case."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]


async def _connect_socket(sock: socket.socket, address: tuple[str, int] | tuple[str, int, int, int]) -> None:
    try:
        sock.connect(address)
    except BlockingIOError:
        await trio.lowlevel.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code)) from None
