from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from uuid import UUID

import pytest
import trio

from adsum.net.call_server import CallServer
from adsum.net.calls import NotSent
from adsum.net.introduction import Peer
from adsum.net.streams import StreamServer
from adsum.servers.directory import KnownServer
from adsum.servers.last_addresses import LastAddresses
from adsum.servers.links import LINES_MAX, Links
from adsum.testing.block_disk import BlockDisk
from tests.net.support import gate, serving
from tests.servers.support import Roster, node


class Echo:
    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        return body

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Nothing is told here."""


@asynccontextmanager
async def links(roster: Roster, *, lines_max: int = LINES_MAX) -> AsyncIterator[tuple[Links, list[str]]]:
    lost: list[str] = []
    addresses = LastAddresses(BlockDisk(Random(1)), roster, lambda: [node(1)])
    made = Links(gate(), addresses, Random(1), lost.append, lambda: [node(1)], lines_max)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        yield made, lost
        nursery.cancel_scope.cancel()


def echo(number: int) -> StreamServer:
    return StreamServer(gate(name=UUID(node(number)).bytes), calls=CallServer(Echo()))


async def test_a_call_that_could_not_be_sent_is_sent_when_the_server_is_there() -> None:
    roster = Roster()
    async with links(roster) as (made, lost), trio.open_nursery() as nursery:
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await made.ask(node(1), "echo", b"hello", timeout_s=20))

        nursery.start_soon(ask)
        with trio.fail_after(20):
            while not lost:
                await trio.lowlevel.checkpoint()
            async with serving(echo(1)) as address:
                roster.known[node(1)] = KnownServer(node(1), address)
                while not answers:
                    await trio.lowlevel.checkpoint()
    assert answers == [b"hello"]
    assert set(lost) == {node(1)}


async def test_another_node_at_the_address_is_not_spoken_to() -> None:
    roster = Roster()
    async with serving(echo(2)) as address, links(roster) as (made, lost):
        roster.known[node(1)] = KnownServer(node(1), address)
        with pytest.raises(NotSent, match="another node answers"):
            await made.ask_once(node(1), "echo", b"hello", timeout_s=20)
        assert made.counters.wrong_node == 1
        assert lost == [node(1)]


async def test_nobody_is_asked_whose_address_nobody_knows() -> None:
    async with links(Roster()) as (made, _lost):
        with pytest.raises(NotSent, match="nobody knows the address"):
            await made.ask_once(node(1), "echo", b"hello", timeout_s=20)


async def test_where_all_lines_are_taken_the_longest_idle_makes_room_that_is_no_members() -> None:
    async with links(Roster()) as (made, _lost):
        for number in range(1, LINES_MAX + 1):
            assert made.tell(node(number), "topic", b"")
        assert made.tell(node(2), "topic", b"")
        assert made.tell(node(LINES_MAX + 1), "topic", b"")
        assert [node(number) in made._lines for number in (1, 2, 3, 4)] == [True, True, False, True]
        assert len(made._lines) == LINES_MAX


async def test_a_server_with_few_open_files_has_fewer_lines_to_others() -> None:
    async with links(Roster(), lines_max=2) as (made, _lost):
        assert [made.tell(node(number), "topic", b"") for number in (1, 2, 3)] == [True, True, True]
        assert list(made._lines) == [node(1), node(3)]
