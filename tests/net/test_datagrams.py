from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from adsum.address import Address
from adsum.gossip import wire
from adsum.gossip.commands import Datagram, DatagramUnreachable
from adsum.gossip.effects import Send
from adsum.logs.faults import Faults
from adsum.net.addresses import BadAddress, socket_address
from adsum.net.datagrams import DATAGRAMS_PER_WAKE, GossipDatagrams
from adsum.net.listening import bind_both, bind_udp
from adsum.net.sealing import Sealing
from tests.net.support import KEY_A, ring

MESSAGE = wire.header(b"sender-1", 7) + b"body"
HOSTS = ["127.0.0.1", "::1"]
BYTES_MAX = 300


class Heard:
    """What reached the core, and a way to wait until so much has."""

    def __init__(self) -> None:
        self.messages: list[tuple[Address, bytes]] = []
        self.unreachable: list[Address] = []
        self._news = trio.lowlevel.ParkingLot()

    def receive(self, heard: Datagram | DatagramUnreachable) -> None:
        if isinstance(heard, Datagram):
            self.messages.append((heard.source, heard.message))
        else:
            self.unreachable.append(heard.address)
        self._news.unpark_all()

    async def until(self, *, messages: int = 0, unreachable: int = 0) -> None:
        with trio.fail_after(5):
            while len(self.messages) < messages or len(self.unreachable) < unreachable:
                await self._news.park()


@asynccontextmanager
async def running(host: str = "127.0.0.1", *keys: str) -> AsyncIterator[tuple[GossipDatagrams, Heard]]:
    heard = Heard()
    door = Sealing(ring(*keys), "dc1")
    datagrams = GossipDatagrams(bind_udp(host, 0), door, heard.receive, bytes_max=BYTES_MAX)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(datagrams.run)
        yield datagrams, heard
        nursery.cancel_scope.cancel()


def closed_port(host: str) -> Address:
    with bind_udp(host, 0) as sock:
        return Address(*sock.getsockname()[:2])


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("keys", [(), (KEY_A,)], ids=["plain", "sealed"])
async def test_a_message_arrives_with_its_source(host: str, keys: tuple[str, ...]) -> None:
    async with running(host, *keys) as (one, _), running(host, *keys) as (other, heard):
        one.send(Send(other.address, MESSAGE))
        await heard.until(messages=1)
        source, message = heard.messages[0]
        assert source == one.address
        assert message[wire.HEADER_BYTES :] == b"body"
        assert one.counters.sent == other.counters.received == 1


@pytest.mark.parametrize("host", HOSTS)
async def test_a_closed_port_is_reported_and_the_socket_goes_on(host: str) -> None:
    """The error of one datagram surfaces from calls about others: errno 111 must cost nobody anything."""
    gone = closed_port(host)
    async with running(host) as (one, heard_by_one), running(host) as (other, heard):
        for number in range(20):
            one.send(Send(gone, MESSAGE))
            one.send(Send(other.address, MESSAGE))
            await heard.until(messages=number + 1)
        await heard_by_one.until(unreachable=20)
        assert set(heard_by_one.unreachable) == {gone}
        assert one.counters.unreachable == {"ECONNREFUSED": 20}
        assert not one.counters.send_errors
        other.send(Send(one.address, MESSAGE))
        await heard_by_one.until(messages=1)


async def test_a_closed_port_is_reported_beside_a_datagram_though_a_send_took_its_error() -> None:
    gone = closed_port("127.0.0.1")
    async with running() as (one, heard), running() as (other, _):
        one.send(Send(gone, MESSAGE))
        one.send(Send(other.address, MESSAGE))
        other.send(Send(one.address, MESSAGE))
        await heard.until(messages=1, unreachable=1)
    assert heard.unreachable == [gone]


async def test_oversized_datagrams_are_dropped_at_both_ends() -> None:
    async with running() as (one, heard):
        with bind_udp("127.0.0.1", 0) as stranger:
            stranger.sendto(bytes(BYTES_MAX + 1), one.address)
            stranger.sendto(Sealing(ring(), "dc1").seal(MESSAGE), one.address)
            await heard.until(messages=1)
        assert one.counters.received_oversized == 1
        one.send(Send(one.address, MESSAGE + bytes(BYTES_MAX)))
        assert (one.counters.dropped_oversized, one.counters.sent) == (1, 0)


async def test_a_flood_is_taken_in_bounded_portions_and_counted_where_it_is_lost() -> None:
    async with running() as (one, heard):
        datagram = Sealing(ring(), "dc1").seal(MESSAGE)
        with bind_udp("127.0.0.1", 0) as stranger:
            for _ in range(20_000):  # far more than the buffer of any kernel here holds
                stranger.sendto(datagram, one.address)
        await heard.until(messages=DATAGRAMS_PER_WAKE)
        # By the time we run it may have been woken again, but each time for one portion only.
        assert len(heard.messages) == one.counters.drains_full * DATAGRAMS_PER_WAKE <= 2 * DATAGRAMS_PER_WAKE
        assert one.dropped_by_kernel() > 0
        await heard.until(messages=20_000 - one.dropped_by_kernel())
        assert one.counters.received + one.dropped_by_kernel() == 20_000
    assert one.dropped_by_kernel() == 0, "asked too late, and no error"


async def test_what_the_kernel_does_not_take_at_once_is_dropped() -> None:
    class Full(socket.socket):
        def sendto(self, *_: object) -> int:
            raise BlockingIOError

    heard = Heard()
    with Full(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        datagrams = GossipDatagrams(sock, Sealing(ring(), "dc1"), heard.receive)
        datagrams.send(Send(Address("127.0.0.1", 9), MESSAGE))
        assert datagrams.counters.dropped_full == 1


async def test_errors_of_sending_are_counted_by_name() -> None:
    async with running() as (one, _):
        one.send(
            Send(Address("255.255.255.255", 9), MESSAGE)
        )  # a broadcast, which needs a permission we never ask for
        assert sum(one.counters.send_errors.values()) == 1  # EACCES, or ENETUNREACH on a host without a route
        assert "other" not in one.counters.send_errors


async def test_a_datagram_that_brings_a_fault_to_light_is_dropped_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as (one, heard):
        receive, faults = heard.receive, Faults()

        def receive_or_fail(said: Datagram | DatagramUnreachable) -> None:
            if isinstance(said, Datagram) and said.message.endswith(b"hostile"):
                raise KeyError(said.message)
            receive(said)

        with bind_udp("127.0.0.1", 0) as sock:
            other = GossipDatagrams(sock, Sealing(ring(), "dc1"), receive_or_fail, faults=faults)
            one.send(Send(other.address, MESSAGE + b"hostile"))
            one.send(Send(other.address, MESSAGE))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(other.run)
                await heard.until(messages=1)
                nursery.cancel_scope.cancel()
        assert faults.counts["datagram"] == 1
        assert len(caplog.records) == 1


async def test_a_failed_assertion_of_the_core_goes_through() -> None:
    def receive(_said: object) -> None:
        raise AssertionError("a state that cannot be")

    async with running() as (one, _):
        with bind_udp("127.0.0.1", 0) as sock:
            other = GossipDatagrams(sock, Sealing(ring(), "dc1"), receive)
            one.send(Send(other.address, MESSAGE))
            with pytest.raises(AssertionError, match="cannot be"), trio.fail_after(5):
                await other.run()


@pytest.mark.parametrize("host", ["example.com", "", "127.0.0.1\0", "::1", "127.1", "0x7f.1"])
async def test_names_are_never_resolved(host: str) -> None:
    async with running() as (one, _):
        one.send(Send(Address(host, 8301), MESSAGE))
        assert one.counters.dropped_bad_address == 1


@pytest.mark.parametrize(
    "address",
    [
        *(Address("10.0.0.1", 0), Address("10.0.0.1", 65_536), Address("x", 1)),
        *(Address("fe80::1%nosuchcard", 1), Address("fe80::1%a\0b", 1), Address("fe80::1%4294967296", 1)),
        Address("fe80::1%" + "9" * 5_000, 1),
    ],
)
def test_bad_addresses_are_refused(address: Address) -> None:
    with pytest.raises(BadAddress):
        socket_address(address)


def test_link_local_addresses_keep_their_interface() -> None:
    index = socket.if_nametoindex("lo")
    assert socket_address(Address("fe80::1%lo", 1)) == (socket.AF_INET6, ("fe80::1", 1, 0, index))
    assert socket_address(Address("fe80::1%7", 1)) == (socket.AF_INET6, ("fe80::1", 1, 0, 7))


@pytest.mark.parametrize("host", HOSTS)
def test_both_ears_have_one_port(host: str) -> None:
    ears = bind_both(host, 0)
    with ears.udp, ears.tcp.socket:
        assert ears.tcp.socket.getsockname()[1] == ears.address.port
        with pytest.raises(OSError, match="in use"):
            bind_both(host, ears.address.port)
