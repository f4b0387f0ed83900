from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adsum.net.listening import bind_tcp
from adsum.sockets.accepting import AcceptCounters, Accepting, Hold
from tests.files import no_file_left


class Held:
    def __init__(self) -> None:
        self.streams: list[trio.SocketStream] = []
        self.leave = trio.Event()

    async def hold(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        await self.leave.wait()


@asynccontextmanager
async def accepting(
    hold: Hold, counters: AcceptCounters, streams_max: int = 8, listeners: int = 1
) -> AsyncIterator[list[tuple[str, int]]]:
    bound = [bind_tcp("127.0.0.1", 0) for _ in range(listeners)]
    taking = Accepting(hold, streams_max=streams_max, of_whom="testers", counters=counters)
    async with trio.open_nursery() as nursery:
        await nursery.start(taking.run, bound)
        yield [each.socket.getsockname() for each in bound]
        nursery.cancel_scope.cancel()


async def seconds(clock: MockClock, count: float) -> None:
    for _ in range(round(count * 10)):
        await wait_all_tasks_blocked(0.001)
        clock.jump(0.1)
    await wait_all_tasks_blocked(0.001)


async def test_who_comes_while_no_file_is_left_is_taken_later_and_the_log_says_what_to_do_once(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    held, counters = Held(), AcceptCounters()
    async with accepting(held.hold, counters) as (address,):
        with closing(socket.socket()) as client, closing(socket.socket()) as other:
            with no_file_left():
                client.connect(address)
                other.connect(address)
                await seconds(mock_clock, 2)
                assert counters.errors == 21
                assert held.streams == []
            await seconds(mock_clock, 0.2)
            assert len(held.streams) == 2
    (line,) = caplog.records
    assert line.getMessage() == (
        "connections of testers cannot be taken: too many open files: "
        "raise the agent's limit, by LimitNOFILE= in its systemd unit or by ulimit -n"
    )
    assert line.exc_info is None


async def test_while_nobody_waits_no_file_is_missed(mock_clock: MockClock) -> None:
    listener, counters = bind_tcp("127.0.0.1", 0), AcceptCounters()
    taking = Accepting(Held().hold, streams_max=8, of_whom="testers", counters=counters)
    async with trio.open_nursery() as nursery:
        with no_file_left():
            await nursery.start(taking.run, [listener])
            await seconds(mock_clock, 1)
        nursery.cancel_scope.cancel()
    assert counters.errors == 0


@pytest.mark.parametrize("listeners", [1, 2])
async def test_no_more_are_open_than_there_are_places_and_one_for_each_listener(listeners: int) -> None:
    held = Held()
    async with accepting(held.hold, AcceptCounters(), 4, listeners) as addresses:
        with ExitStack() as clients:
            for number in range(20):
                address = addresses[number % listeners]
                clients.enter_context(closing(socket.create_connection(address)))
            await wait_all_tasks_blocked(0.01)
            assert len(held.streams) == 4 + listeners
            held.leave.set()
            with trio.fail_after(10):
                while len(held.streams) < 20:
                    await trio.lowlevel.checkpoint()


async def test_a_stream_is_closed_when_nothing_more_is_done_with_it() -> None:
    held = Held()
    held.leave.set()
    async with (
        accepting(held.hold, AcceptCounters()) as (address,),
        await trio.open_tcp_stream(*address) as client,
    ):
        assert await client.receive_some() == b""


async def test_what_listens_is_closed_at_the_end() -> None:
    async with accepting(Held().hold, AcceptCounters()) as (address,):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
