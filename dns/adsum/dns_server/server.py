"""DNS over UDP and TCP, IPv4 and IPv6: moves packets between sockets and the resolver.

UDP sockets are raw and non-blocking, read in a bounded loop when they become readable: a task, a stream or an
await per packet would cost more than the answer. A socket that listens on every address notes which of them
each question came to and answers from there, as a host with several addresses must.

A pass over a socket ends after some milliseconds of work, and all else in the process has its turn. What is
known by its bytes takes so little that it is answered in any case; of the rest, what is left waits for the
next pass, and what is unusual waits until all else is answered.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from adsum.dns import wire
from adsum.dns.answers import Transport
from adsum.dns.limits import DnsLimits, RateVerdict, SourceRates
from adsum.dns_server.conversations import Conversations
from adsum.dns_server.datagrams import DatagramSocket, Origin, datagrams_of, is_loopback, prefix_of
from adsum.dns_server.pending import Pending, Waiting, unusual_allowance
from adsum.dns_server.resolver import Errand, Resolver
from adsum.frozen import dataclass
from adsum.sockets.accepting import Accepting

if TYPE_CHECKING:
    from adsum.dns_server.batches import DatagramBatch

PACKETS_PER_WAKE = 128
BUSY_ANSWERS = 16  # in one wake: programs that ask one thing at a time hardly ever meet in such numbers
QUESTION_BYTES_MAX = 4096
RECEIVE_BUFFER_BYTES = 1024 * 1024  # absorbs a burst while the loop is busy; the kernel may give less
TCP_BACKLOG = 1024  # as many are taken in some tenths of a second; who finds it full tries again after one
FREE_PORT_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class DnsSockets:
    udp: Sequence[socket.socket]
    tcp: Sequence[trio.SocketListener]


def bind_both(host: str, port: int) -> tuple[socket.socket, trio.SocketListener]:
    """UDP and TCP on one port; with port 0 on one that happens to be free for both."""
    for attempt in range(FREE_PORT_ATTEMPTS):
        listener = _bound(host, port, socket.SOCK_STREAM)
        try:
            udp = bind_udp(host, listener.getsockname()[1])
        except OSError:
            listener.close()  # not yet trio's, which closes its own only while its loop runs
            if port or attempt == FREE_PORT_ATTEMPTS - 1:
                raise
        else:
            return udp, trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    raise AssertionError("the last attempt returns or raises")


def bind_udp(host: str, port: int) -> socket.socket:
    return _bound(host, port, socket.SOCK_DGRAM)


def _bound(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    is_tcp = kind is socket.SOCK_STREAM
    sock = socket.socket(_family(host), kind)
    try:
        sock.settimeout(0)
        option = (socket.SO_REUSEADDR, 1) if is_tcp else (socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, *option)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        if is_tcp:
            sock.listen(TCP_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


async def serve(
    sockets: DnsSockets,
    resolver: Resolver,
    limits: DnsLimits,
    clock_ns: Callable[[], int],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answers until cancelled, and closes the sockets."""
    conversations = Conversations(resolver, limits)
    rates, allowance = SourceRates(limits), unusual_allowance(limits)
    async with trio.open_nursery() as nursery:
        for sock in sockets.udp:
            pending = Pending(limits, resolver.counters, allowance)
            udp = UdpServer(
                datagrams_of(sock), resolver, rates, pending, limits.pass_ns_max, clock_ns, nursery
            )
            nursery.start_soon(udp.run)
        if sockets.tcp:
            accepting = Accepting(
                conversations.hold,
                streams_max=limits.tcp_newcomers_max + limits.tcp_connections_max,
                of_whom="DNS clients",
                counters=resolver.counters.tcp_accepting,
            )
            await nursery.start(accepting.run, sockets.tcp)
        task_status.started()


class UdpServer:
    def __init__(
        self,
        datagrams: DatagramSocket,
        resolver: Resolver,
        rates: SourceRates,
        pending: Pending,
        pass_ns_max: int,
        clock_ns: Callable[[], int],
        nursery: trio.Nursery,
    ) -> None:
        self._datagrams = datagrams
        self._resolver = resolver
        self._counters = resolver.counters
        self._rates = rates
        self._pending = pending
        self._pass_ns_max = pass_ns_max
        self._pass_ends_ns = 0  # 0 until something had to be considered
        self._clock_ns = clock_ns
        self._nursery = nursery
        # A socket bound to a loopback address hears this host only, and need not look at who asks.
        is_own = is_loopback(datagrams.getsockname()[0])
        self._drain: Callable[[], object] = self._drain_calmly if is_own else self._drain_open

    async def run(self) -> None:
        with self._datagrams:
            while True:
                await trio.lowlevel.wait_readable(self._datagrams)
                self._pass()
                while self._pending:
                    self._work_off()
                    if self._pending:
                        await trio.lowlevel.checkpoint()
                        self._pass()

    def _pass(self) -> None:
        self._pass_ends_ns = 0
        self._drain()

    def _drain_calmly(self) -> None:
        if self._drain_own() < BUSY_ANSWERS:
            return
        try:
            from adsum.dns_server.batches import open_batch  # with its buffers, for those who have the load
        except (OSError, ImportError):  # no file is left to load it from: at the next busy wake
            return

        batch = open_batch(
            self._datagrams.fileno(),
            _family(self._datagrams.getsockname()[0]),
            places=PACKETS_PER_WAKE,
            bytes_max=QUESTION_BYTES_MAX,
        )
        self._drain = self._drain_own if batch is None else partial(self._drain_batch, batch)

    def _drain_batch(self, batch: DatagramBatch) -> None:
        """The hot loop: about two microseconds of Python for a packet, and two system calls for all."""
        counters = self._counters
        answered = counters.answered
        known = self._resolver.known(Transport.UDP_HERE)
        replies: list[bytes] = []
        for packet in self._received(batch):
            found = known.get(packet[2:])
            if found is None:
                origin = batch.origin(len(replies))
                replies.append(self._considered(packet, origin, Transport.UDP_HERE))
                continue
            take, echo, tally = found
            head, body = take()
            answered[tally] += 1
            counters.fast += 1
            replies.append(packet[:2] + head + echo + body)
        counters.send_errors += batch.send(replies)

    def _received(self, batch: DatagramBatch) -> list[bytes]:
        try:
            return batch.receive()
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            self._counters.receive_errors += 1
            return []

    def _drain_own(self) -> int:
        """The same without load, or without the calls that batches need. Returns how many were known.

        Answers leave together once the questions are in. Sent one by one, each woke an asker that had gone to
        sleep meanwhile, which costs more than the sending: together is a sixth more answers a second."""
        receive, send, counters = self._datagrams.recvfrom, self._datagrams.sendto, self._counters
        answered = counters.answered
        known = self._resolver.known(Transport.UDP_HERE)
        replies: list[tuple[bytes, Origin]] = []
        for _ in range(PACKETS_PER_WAKE):
            try:
                packet, origin = receive(QUESTION_BYTES_MAX)
            except BlockingIOError:
                break
            except OSError:
                counters.receive_errors += 1
                continue
            found = known.get(packet[2:])
            if found is None:
                self._send(self._considered(packet, origin, Transport.UDP_HERE), origin)
                continue
            take, echo, tally = found
            head, body = take()
            answered[tally] += 1
            counters.fast += 1
            replies.append((packet[:2] + head + echo + body, origin))
        for reply, origin in replies:
            try:
                send(reply, origin)
            except OSError:
                counters.send_errors += 1
        return len(replies)

    def _drain_open(self) -> None:
        counters = self._counters
        now_ns = self._clock_ns()
        for _ in range(PACKETS_PER_WAKE):
            try:
                packet, origin = self._datagrams.recvfrom(QUESTION_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                counters.receive_errors += 1
                continue
            if is_loopback(origin[0]):
                self._reply(packet, origin, Transport.UDP_HERE)
            elif self._admits(packet, origin, now_ns):
                self._reply(packet, origin, Transport.UDP)

    def _admits(self, packet: bytes, origin: Origin, now_ns: int) -> bool:
        verdict = self._rates.judge(prefix_of(origin[0]), now_ns)
        if verdict is RateVerdict.ANSWER:
            return True
        question = wire.parse_question(packet) if verdict is RateVerdict.SLIP else None
        if question is None:
            self._counters.rate_limited += 1
            return False
        self._counters.rate_slipped += 1
        self._send(wire.failure(question, wire.NOERROR, extra_flags=wire.TC), origin)
        return False

    def _reply(self, packet: bytes, origin: Origin, transport: Transport) -> None:
        found = self._resolver.known(transport).get(packet[2:])
        if found is None:
            self._send(self._considered(packet, origin, transport), origin)
            return
        head, body = found.take()
        self._counters.answered[found.tally] += 1
        self._counters.fast += 1
        self._send(packet[:2] + head + found.echo + body, origin)

    def _considered(self, packet: bytes, origin: Origin, transport: Transport) -> bytes:
        """The reply to what is not known by its bytes, if there is one at once."""
        waiting = Waiting(packet, origin, transport)
        if not self._pending.has_late and self._is_time_left(self._clock_ns()):
            return self._answered_now(waiting)
        self._pending.put_late(waiting)
        return b""

    def _is_time_left(self, now_ns: int) -> bool:
        self._pass_ends_ns = self._pass_ends_ns or now_ns + self._pass_ns_max
        return now_ns < self._pass_ends_ns

    def _answered_now(self, waiting: Waiting) -> bytes:
        outcome = self._resolver.consider_common(waiting.packet, waiting.transport)
        if outcome is None:
            self._pending.put_unusual(waiting)
            return b""
        return self._reply_of(outcome, waiting.origin)

    def _reply_of(self, outcome: bytes | Errand, origin: Origin) -> bytes:
        if isinstance(outcome, Errand):
            self._nursery.start_soon(self._run, outcome, origin)
            return b""
        return outcome

    def _work_off(self) -> None:
        """What waits, the late before the unusual, until the pass has lasted long enough."""
        pending, now_ns = self._pending, self._clock_ns()
        while self._is_time_left(now_ns) and (waiting := pending.next_late()):
            self._send(self._answered_now(waiting), waiting.origin)
            now_ns = self._clock_ns()
        while self._is_time_left(now_ns) and (waiting := pending.next_unusual(now_ns)):
            outcome = self._resolver.consider_unusual(waiting.packet, waiting.transport)
            self._send(self._reply_of(outcome, waiting.origin), waiting.origin)
            began_ns, now_ns = now_ns, self._clock_ns()
            pending.charge_unusual(now_ns, now_ns - began_ns)

    async def _run(self, errand: Errand, origin: Origin) -> None:
        self._send(await self._resolver.run(errand), origin)

    def _send(self, reply: bytes, origin: Origin) -> None:
        """An answer that the kernel does not take at once is lost, as the network might lose it."""
        if not reply:
            return
        try:
            self._datagrams.sendto(reply, origin)
        except OSError:
            self._counters.send_errors += 1
