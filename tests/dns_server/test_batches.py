"""Real sockets again, and crowds of askers: under load all is as before, for each of them."""

from __future__ import annotations

import ctypes
import platform
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace

import dns.edns
import dns.message
import dns.rcode
import pytest
import trio
from dns.message import Message

from adsum.dns_server import batches as module
from adsum.dns_server import server as server_module
from adsum.dns_server.batches import DatagramBatch, open_batch
from adsum.dns_server.counters import AnswerLabels, DnsCounters
from adsum.dns_server.server import bind_udp
from tests.dns.support import Catalog, lines, standard_catalog
from tests.dns_server.test_recursor import found, started
from tests.dns_server.test_server import Server, needs_ipv6, query, serving

HOSTS = ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)]
CROWD = 40
MODULE = "adsum.dns_server.batches"
# The number of the call, which a sandbox forbids by it.
RECVMMSG = {"x86_64": 299, "aarch64": 243}
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


def family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


@contextmanager
def askers_of(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        askers = [
            stack.enter_context(socket.socket(family(address[0]), socket.SOCK_DGRAM)) for _ in range(count)
        ]
        for asker in askers:
            asker.settimeout(0)
            asker.connect(address)
        yield askers


@contextmanager
def batch_and_askers(
    host: str, askers: int, places: int = 128, bytes_max: int = 4096
) -> Iterator[tuple[DatagramBatch, list[socket.socket]]]:
    with bind_udp(host, 0) as sock, askers_of(sock.getsockname()[:2], askers) as ours:
        batch = open_batch(sock.fileno(), family(host), places, bytes_max)
        assert batch is not None
        yield batch, ours


def heard(asker: socket.socket) -> bytes:
    """On loopback what was sent has arrived."""
    try:
        return asker.recv(65535)
    except BlockingIOError:
        return b""


async def answers_to_all(server: Server, requests: Sequence[Message]) -> list[Message]:
    """Each is asked from a socket of its own."""
    with askers_of(server.address, len(requests)) as askers:
        return await answers_on(askers, requests)


async def answers_on(askers: Sequence[socket.socket], requests: Sequence[Message]) -> list[Message]:
    """All are asked before the server can wake."""
    for asker, request in zip(askers, requests, strict=True):
        asker.send(request.to_wire())
    replies = []
    for asker, request in zip(askers, requests, strict=True):
        await trio.lowlevel.wait_readable(asker)
        replies.append(dns.message.from_wire(asker.recv(65535)))
        assert request.is_response(replies[-1])
    return replies


async def crowd(server: Server, name: str = "n1.node.consul") -> None:
    for reply in await answers_to_all(server, [query(name) for _ in range(CROWD)]):
        assert lines(reply.answer) == [f"{name}. 0 IN A 127.0.0.1"]


@pytest.mark.parametrize("host", HOSTS)
async def test_each_of_a_crowd_gets_its_own_answer(catalog: Catalog, host: str) -> None:
    for number in range(20):
        catalog.node(f"host{number}", f"10.2.0.{number}")
    questions = [query(f"host{number}.node.consul") for number in range(20)]
    async with serving(catalog, host=host) as server:
        await crowd(server)
        for _ in range(2):  # first each is considered, then all are known
            for number, reply in enumerate(await answers_to_all(server, questions)):
                assert lines(reply.answer) == [f"host{number}.node.consul. 0 IN A 10.2.0.{number}"]
    assert server.counters.answered[AnswerLabels("udp", "A", "NOERROR")] == 80
    assert server.counters.fast == 39 + 20
    assert server.counters.send_errors == server.counters.receive_errors == 0


async def test_batches_begin_with_the_first_crowd_and_not_before(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, MODULE)
    async with serving(catalog) as server:
        for _ in range(CROWD):
            await server.ask(query("n1.node.consul"))
        assert MODULE not in sys.modules
        await crowd(server)
        assert MODULE in sys.modules


async def test_crowd_sees_the_catalog_move(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        await crowd(server)
        catalog.node("n1", "127.0.0.9")
        for reply in await answers_to_all(server, [query("n1.node.consul") for _ in range(CROWD)]):
            assert lines(reply.answer) == ["n1.node.consul. 0 IN A 127.0.0.9"]


@pytest.mark.parametrize("host", HOSTS)
async def test_errand_from_a_crowd_comes_back_to_who_sent_for_it(catalog: Catalog, host: str) -> None:
    async with trio.open_nursery() as nursery:
        _, settings = await started(nursery, found)
        async with serving(catalog, settings, host=host) as server:
            await crowd(server)
            names = [f"www{number}.example.com" for number in range(10)]
            both = [query(each) for name in names for each in (name, "n1.node.consul")]
            replies = await answers_to_all(server, both)
        assert [lines(reply.answer) for reply in replies[0::2]] == [
            [f"{n}. 300 IN A 192.0.2.1"] for n in names
        ]
        assert [lines(reply.answer) for reply in replies[1::2]] == [["n1.node.consul. 0 IN A 127.0.0.1"]] * 10
        nursery.cancel_scope.cancel()


async def test_askers_that_are_gone_cost_no_other_its_answer(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        await crowd(server)
        with askers_of(server.address, CROWD) as staying:  # at first, lest they inherit a port and its answer
            with askers_of(server.address, CROWD) as leaving:
                for asker in leaving:
                    asker.send(query("n1.node.consul").to_wire())
            for reply in await answers_on(staying, [query("n1.node.consul") for _ in range(CROWD)]):
                assert lines(reply.answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]
    assert server.counters.answered[AnswerLabels("udp", "A", "NOERROR")] == 120


def padded(name: str, size: int) -> Message:
    padding = dns.edns.GenericOption(dns.edns.OptionType.PADDING, bytes(size))
    return dns.message.make_query(name, "A", options=[padding], request_payload=65535)


async def test_long_question_is_answered_and_a_longer_one_is_cut(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        await crowd(server)
        reply = await server.ask(padded("n1.node.consul", 3000))
        assert lines(reply.answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]
        assert (await server.ask(padded("n1.node.consul", 5000))).rcode() == dns.rcode.FORMERR
    assert server.counters.malformed == 1


async def replies_and_counters(catalog: Catalog) -> tuple[list[bytes], DnsCounters]:
    """A crowd, and then one that asks all sorts of things, ever more of them known."""
    good = [query(name).to_wire()[2:] for name in ("n1.node.consul", "nope.service.consul", "example.com")]
    sorts = [b"", b"x", b"\0" * 12, *good, good[0][:20], b"\x80" + good[0][1:]]
    sorts += [padded("n1.node.consul", size).to_wire()[2:] for size in (200, 3000, 5000)]
    packets = [number.to_bytes(2) + sort for number, sort in enumerate(sorts * 3)] + [b"", b"x"]
    async with serving(catalog) as server:
        await crowd(server)
        with askers_of(server.address, len(packets)) as askers:
            for asker, packet in zip(askers, packets, strict=True):
                asker.send(packet)
            await crowd(server)
            return [heard(asker) for asker in askers], server.counters


async def test_all_sorts_of_packets_fare_as_they_do_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    by_the_batch = await replies_and_counters(standard_catalog())
    monkeypatch.setattr(server_module, "BUSY_ANSWERS", 1000)
    assert await replies_and_counters(standard_catalog()) == by_the_batch


async def test_without_the_calls_questions_are_answered_one_by_one(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    with bind_udp("127.0.0.1", 0) as sock:
        assert open_batch(sock.fileno(), socket.AF_INET, 128, 4096) is None
    async with serving(catalog) as server:
        for _ in range(2):
            await crowd(server)
    assert server.counters.answered[AnswerLabels("udp", "A", "NOERROR")] == 80


class Instruction(ctypes.Structure):  # sock_filter
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("skipped_if_so", ctypes.c_ubyte),
        ("skipped_if_not", ctypes.c_ubyte),
        ("operand", ctypes.c_uint),
    )


class Program(ctypes.Structure):  # sock_fprog
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def forbid_in_this_thread(system_call: int) -> None:
    """As a container's seccomp profile does: the call fails with EPERM, and nothing undoes that."""
    instructions = (Instruction * 4)(
        Instruction(0x20, 0, 0, 0),  # load the number of the call
        Instruction(0x15, 0, 1, system_call),  # if it is this one
        Instruction(0x06, 0, 0, 0x00050001),  # fail with EPERM
        Instruction(0x06, 0, 0, 0x7FFF0000),  # else go on
    )
    program = Program(4, instructions)
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs"
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) == 0, "seccomp"


@pytest.mark.skipif(platform.machine() not in RECVMMSG, reason="the number of recvmmsg is not known here")
def test_where_the_calls_are_forbidden_questions_are_answered_one_by_one(catalog: Catalog) -> None:
    told = []

    async def story() -> None:
        forbid_in_this_thread(RECVMMSG[platform.machine()])
        with bind_udp("127.0.0.1", 0) as sock:
            assert open_batch(sock.fileno(), socket.AF_INET, 128, 4096) is None
        async with serving(catalog) as server:
            for _ in range(2):
                await crowd(server)
            told.append(server.counters)

    thread = threading.Thread(target=partial(trio.run, story))
    thread.start()
    thread.join()
    assert told[0].answered[AnswerLabels("udp", "A", "NOERROR")] == 80
    assert told[0].receive_errors == told[0].send_errors == 0


@pytest.mark.parametrize("host", HOSTS)
def test_origin_is_what_the_socket_module_writes(host: str) -> None:
    with batch_and_askers(host, 3) as (batch, askers):
        for asker in askers:
            asker.send(b"who am I?")
        assert batch.receive() == [b"who am I?"] * 3
        assert [batch.origin(place) for place in range(3)] == [asker.getsockname() for asker in askers]


@pytest.mark.parametrize("host", HOSTS)
def test_places_without_a_reply_get_none_and_cost_no_other_its_own(host: str) -> None:
    with batch_and_askers(host, 6) as (batch, askers):
        for replies in ([b"", b"1", b"", b"", b"4", b"5"], [b"0", b"", b"2", b"3", b"", b""], [b""] * 6):
            for asker in askers:
                asker.send(b"?")
            assert len(batch.receive()) == 6
            assert batch.send(replies) == 0
            assert [heard(asker) for asker in askers] == replies


def test_reply_that_the_kernel_refuses_is_counted_and_those_behind_it_are_sent() -> None:
    too_long = bytes(70_000)
    with batch_and_askers("127.0.0.1", 5) as (batch, askers):
        for asker in askers:
            asker.send(b"?")
        batch.receive()
        assert batch.send([too_long, b"1", too_long, too_long, b"4"]) == 3
        assert [heard(asker) for asker in askers] == [b"", b"1", b"", b"", b"4"]


def test_reply_may_be_as_long_as_a_datagram() -> None:
    longest = b"x" * 65_507
    with batch_and_askers("127.0.0.1", 2, bytes_max=8) as (batch, askers):
        for asker in askers:
            asker.send(b"?")
        batch.receive()
        assert batch.send([longest, b"short"]) == 0
        assert [heard(asker) for asker in askers] == [longest, b"short"]


def test_batch_takes_what_has_room_and_leaves_the_rest_for_the_next() -> None:
    with batch_and_askers("127.0.0.1", 1, places=2, bytes_max=4) as (batch, (asker,)):
        for packet in (b"one", b"three", b"", b"four"):
            asker.send(packet)
        assert batch.receive() == [b"one", b"thre"]
        assert batch.receive() == [b"", b"four"]
        with pytest.raises(BlockingIOError):
            batch.receive()


def asked(batch: DatagramBatch, asker: socket.socket, questions: int) -> None:
    for _ in range(questions):
        asker.send(b"?")
    assert len(batch.receive()) == questions


def all_heard(asker: socket.socket) -> list[bytes]:
    return list(iter(lambda: heard(asker), b""))


@pytest.mark.parametrize("host", HOSTS)
def test_replies_to_one_asker_arrive_each_for_itself_whatever_their_lengths(host: str) -> None:
    replies = [b"%03d" % number * (1 + number % 3) for number in range(100)]
    with batch_and_askers(host, 2) as (batch, (asker, other)):
        for _time in range(2):
            asked(batch, asker, 100)
            assert list(map(len, batch._trains(replies))) == [34, 33, 33]
            assert batch.send(replies) == 0
            assert sorted(all_heard(asker)) == sorted(replies)
            asked(batch, other, 1)
            assert batch.send([b"for another"]) == 0
            assert (heard(asker), heard(other)) == (b"", b"for another")


def test_a_train_is_no_longer_than_a_datagram_may_be() -> None:
    replies = [bytes([number]) * 9_000 for number in range(1, 11)]
    with batch_and_askers("127.0.0.1", 1) as (batch, (asker,)):
        asked(batch, asker, 10)
        assert list(map(len, batch._trains(replies))) == [7, 3]
        assert batch.send(replies) == 0
        assert all_heard(asker) == replies


def test_a_train_that_the_kernel_refuses_goes_in_pieces_and_costs_no_other_its_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TRAIN_BYTES_MAX", 1 << 20)
    replies = [b"first", *(bytes([number]) * 9_000 for number in range(1, 11)), b"last"]
    with batch_and_askers("127.0.0.1", 1) as (batch, (asker,)):
        asked(batch, asker, 12)
        assert batch.send(replies) == 0
        assert sorted(all_heard(asker)) == sorted(replies)


def test_where_trains_are_unknown_all_replies_leave_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UDP_SEGMENT", 9_999)
    with batch_and_askers("127.0.0.1", 1) as (batch, (asker,)):
        asked(batch, asker, 3)
        assert batch.send([b"one", b"two", b"six"]) == 0
        assert all_heard(asker) == [b"one", b"two", b"six"]
