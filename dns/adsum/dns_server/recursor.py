"""Names outside our domains: the question goes on to the recursors, its bytes but for the id unchanged.

Each attempt has a socket of its own, connected, so that the kernel picks a random port and drops strangers'
packets; the id is drawn anew, and a reply counts only if id and question agree (RFC 5452). Recursors are
asked in the order configured, each for `recursor_timeout`; NOERROR and NXDOMAIN are answers, anything else
moves on to the next. What came over UDP goes on over UDP: a trimmed answer sends the asker back to us by TCP.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import trio

from adsum.dns.answers import Transport
from adsum.dns.limits import DnsLimits
from adsum.dns.settings import DnsSettings, Recursor
from adsum.dns.wire import HEADER, HEADER_BYTES, NOERROR, NXDOMAIN, QR, RCODE_MASK, echoed_question
from adsum.dns_server.counters import DnsCounters
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told

REPLY_BYTES_MAX = 65_535
STRANGERS_MAX = 16  # wrong packets read in one attempt before it is given up

log = logging.getLogger("dns")


class NoAnswer(Exception):
    """A recursor failed us in this attempt: normal operation, try the next one."""


class Recursion:
    def __init__(self, limits: DnsLimits, counters: DnsCounters, message_id: Callable[[], int]) -> None:
        self._limits = limits
        self._counters = counters
        self._message_id = message_id
        self._complaints = Complaints(log)

    def reserve(self) -> bool:
        """A place among the questions under way, if there is one. The call of `ask` that follows frees it."""
        if self._counters.recursions >= self._limits.recursions_max:
            self._counters.recursions_turned_away += 1
            return False
        self._counters.recursions += 1
        return True

    async def ask(
        self, packet: bytes, question: bytes, settings: DnsSettings, transport: Transport
    ) -> bytes | None:
        """A recursor's answer with the packet's own id, or None when no recursor has one."""
        try:
            for recursor in settings.recursors:
                reply = await self._attempt(recursor, packet, question, settings, transport)
                if reply is not None:
                    self._counters.recursed += 1
                    return packet[:2] + reply[2:]
            self._counters.recursion_failures += 1
            return None
        finally:
            self._counters.recursions -= 1

    async def _attempt(
        self, recursor: Recursor, packet: bytes, question: bytes, settings: DnsSettings, transport: Transport
    ) -> bytes | None:
        own = self._message_id().to_bytes(2) + packet[2:]
        exchange = self._over_tcp if transport is Transport.TCP else self._over_udp
        with trio.move_on_after(settings.recursor_timeout_s):
            try:
                return await exchange(recursor, own, question)
            except (OSError, NoAnswer, trio.BrokenResourceError) as error:
                self._counters.recursor_errors += 1
                if is_shortage(error):
                    self._complaints.say("shortage", "recursors cannot be asked: %s", told(error))
                return None
        self._counters.recursor_timeouts += 1
        return None

    async def _over_udp(self, recursor: Recursor, packet: bytes, question: bytes) -> bytes:
        family = socket.AF_INET6 if ":" in recursor.host else socket.AF_INET
        with trio.socket.socket(family, socket.SOCK_DGRAM) as sock:
            await sock.connect((recursor.host, recursor.port))
            await sock.send(packet)
            for _ in range(STRANGERS_MAX):
                reply = await sock.recv(REPLY_BYTES_MAX)
                if self._is_reply(reply, packet, question):
                    return _accepted(reply)
        raise NoAnswer

    async def _over_tcp(self, recursor: Recursor, packet: bytes, question: bytes) -> bytes:
        stream = await trio.open_tcp_stream(recursor.host, recursor.port)
        async with stream:
            await stream.send_all(len(packet).to_bytes(2) + packet)
            length = int.from_bytes(await _exactly(stream, 2))
            reply = await _exactly(stream, length)
        if not self._is_reply(reply, packet, question):
            raise NoAnswer
        return _accepted(reply)

    def _is_reply(self, reply: bytes, packet: bytes, question: bytes) -> bool:
        is_reply = (
            len(reply) >= HEADER_BYTES
            and reply[:2] == packet[:2]
            and bool(HEADER.unpack_from(reply)[1] & QR)
            and echoed_question(reply).lower() == question.lower()
        )
        self._counters.recursor_mismatches += not is_reply
        return is_reply


def _accepted(reply: bytes) -> bytes:
    if HEADER.unpack_from(reply)[1] & RCODE_MASK not in {NOERROR, NXDOMAIN}:
        raise NoAnswer
    return reply


async def _exactly(stream: trio.SocketStream, size_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < size_bytes:
        chunk = await stream.receive_some(size_bytes - len(received))
        if not chunk:
            raise NoAnswer
        received += chunk
    return bytes(received)
