"""Gossip's datagrams: from the socket to the core, from the core to the socket.

The socket is raw and non-blocking. It is read in a bounded loop when it becomes readable, because a task or
an await for each datagram would cost more than what is in it. What cannot be sent at once is dropped and
counted: the network might have lost it as well, and gossip lives with loss.

With IP_RECVERR the kernel keeps the ICMP errors that our datagrams caused, with the address each was sent to.
A port unreachable tells within a round trip that nobody listens there; it is reported, and is no more than a
reason to look. The same errors also surface, once, from the next call on the socket: those calls are simply
made again.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import field

import trio

from adsum.address import Address
from adsum.gossip.commands import Datagram, DatagramUnreachable
from adsum.gossip.effects import Send
from adsum.logs.faults import Faults
from adsum.mutable import dataclass
from adsum.net.addresses import BadAddress, SocketAddress, address_of, socket_address
from adsum.net.sealing import Sealing
from adsum.newest import remember

DATAGRAMS_PER_WAKE = 64
ERRORS_PER_WAKE = 64
DATAGRAM_BYTES_MAX = 1_400  # memberlist's UDPBufferSize: fits common tunnels
ADDRESSES_MAX = 32_768  # remembered in either form; when full the memory starts again

# Linux; the socket module names few of these before 3.14.
IP_RECVERR = 11
IPV6_RECVERR = 25
MSG_ERRQUEUE = 0x2000
SO_MEMINFO = 55
MEMINFO = struct.Struct("=9I")
MEMINFO_DROPS = 8
EXTENDED_ERROR = struct.Struct("=IBBBBII")  # errno, origin, type, code, padding, info, data
ORIGIN_ICMP, ORIGIN_ICMP6 = 2, 3
ANCILLARY_BYTES = 512


@dataclass(slots=True)
class DatagramCounters:
    received: int = 0
    received_bytes: int = 0
    received_oversized: int = 0
    receive_errors: int = 0
    drains_full: int = 0  # wakes after which more was waiting
    sent: int = 0
    sent_bytes: int = 0
    dropped_oversized: int = 0  # too long for one datagram
    dropped_full: int = 0  # the kernel had no room
    dropped_bad_address: int = 0
    send_errors: Counter[str] = field(default_factory=Counter)  # by errno's name
    unreachable: Counter[str] = field(default_factory=Counter)  # what ICMP told, by errno's name


class GossipDatagrams:
    def __init__(
        self,
        sock: socket.socket,
        door: Sealing,
        receive: Callable[[Datagram | DatagramUnreachable], None],
        *,
        lets_in: Callable[[str], bool] = lambda _host: True,
        bytes_max: int = DATAGRAM_BYTES_MAX,
        faults: Faults | None = None,
    ) -> None:
        self.counters = DatagramCounters()
        self._sock = sock
        self._door = door
        self._receive = receive
        self._lets_in = lets_in
        self._faults = faults or Faults()
        self._bytes_max = bytes_max
        self._targets: dict[Address, SocketAddress] = {}
        self._origins: dict[SocketAddress, Address] = {}
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)

    @property
    def address(self) -> Address:
        return address_of(self._sock.getsockname())

    def dropped_by_kernel(self) -> int:
        """Datagrams that found the receive buffer full, since the socket exists."""
        if self._sock.fileno() < 0:  # closed: somebody asks while the agent ends
            return 0
        told = self._sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size)
        return int(MEMINFO.unpack(told)[MEMINFO_DROPS])

    async def run(self) -> None:
        """Receives until cancelled, and closes the socket."""
        with self._sock:
            while True:
                await trio.lowlevel.wait_readable(self._sock)
                self._drain()

    def send(self, effect: Send) -> None:
        counters, to = self.counters, effect.to
        target = self._targets.get(to) or self._target(to)
        if target is None:
            counters.dropped_bad_address += 1
            return
        datagram = self._door.seal(effect.message)
        if len(datagram) > self._bytes_max:
            counters.dropped_oversized += 1
            return
        # What stops it is most likely an ICMP error for an earlier datagram, which is told once.
        for is_last in (False, True):
            try:
                self._sock.sendto(datagram, target)
            except BlockingIOError:
                counters.dropped_full += 1
            except OSError as error:
                if not is_last:
                    continue
                counters.send_errors[_name(error.errno)] += 1
            else:
                counters.sent += 1
                counters.sent_bytes += len(datagram)
            return

    def _drain(self) -> None:
        counters, bytes_max = self.counters, self._bytes_max
        receive, open_, origins, lets_in = self._sock.recvfrom, self._door.open, self._origins, self._lets_in
        received, errors = counters.received, counters.receive_errors
        for _ in range(DATAGRAMS_PER_WAKE):
            try:
                datagram, origin = receive(bytes_max + 1)
            except BlockingIOError:
                break
            except OSError:
                counters.receive_errors += 1
                continue
            counters.received += 1
            counters.received_bytes += len(datagram)
            if len(datagram) > bytes_max:
                counters.received_oversized += 1
                continue
            try:
                message = open_(datagram)
                if message is None:
                    continue
                source = origins.get(origin) or self._origin(origin)
                if lets_in(source.host):
                    self._receive(Datagram(source, message, self._door.is_authentic(message)))
            except Exception as error:
                self._faults.dropped("datagram", error)
        else:
            counters.drains_full += 1
        # Those that wait make the socket readable as well: without a datagram, if none came.
        if counters.received == received or counters.receive_errors > errors:
            self._drain_errors()

    def _drain_errors(self) -> None:
        for _ in range(ERRORS_PER_WAKE):
            try:
                _, ancillary, _, target = self._sock.recvmsg(0, ANCILLARY_BYTES, MSG_ERRQUEUE)
            except OSError:
                return  # most of the time at once: nothing is in the queue
            for _, kind, note in ancillary:
                if kind in (IP_RECVERR, IPV6_RECVERR) and len(note) >= EXTENDED_ERROR.size:
                    try:
                        self._note_error(note, target)
                    except Exception as error:
                        self._faults.dropped("datagram", error)

    def _note_error(self, note: bytes, target: SocketAddress) -> None:
        number, origin, *_ = EXTENDED_ERROR.unpack_from(note)
        if origin not in (ORIGIN_ICMP, ORIGIN_ICMP6):
            return
        self.counters.unreachable[_name(number)] += 1
        if number == errno.ECONNREFUSED:
            self._receive(DatagramUnreachable(address_of(target)))

    def _target(self, to: Address) -> SocketAddress | None:
        try:
            family, target = socket_address(to)
        except BadAddress:
            return None
        if family != self._sock.family:
            return None
        remember(self._targets, to, target, ADDRESSES_MAX)
        return target

    def _origin(self, origin: SocketAddress) -> Address:
        address = address_of(origin)
        remember(self._origins, origin, address, ADDRESSES_MAX)
        return address


def _name(number: int | None) -> str:
    return errno.errorcode.get(number or 0, "other")
