"""The keeper of sessions on a server, with a real loop: what servers tell each other about hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from adsum.logs.faults import Faults
from adsum.net.calls import NotSent
from adsum.servers import wire
from adsum.servers.server import loop_now
from adsum.servers.session_rim import SessionRim
from adsum.sessions.sees import HostSeen, HostVerdict
from adsum.sessions.settings import KeeperSettings
from adsum.store.machine import StoreMachine
from tests.sessions.support import WEB, WEB_KEY, SeenHosts


class Server:
    """It asks by calling the other one."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.sees = SeenHosts()
        self.other: Callable[[bytes], Awaitable[bytes]] | None = None
        self.asked: list[tuple[str, str]] = []
        self.faults = faults or Faults()
        self.rim = SessionRim(
            *("me", StoreMachine(), self.sees, lambda: None, self, str.upper, loop_now),
            *(KeeperSettings(), self.faults),
        )

    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        self.asked.append((node, method))
        if self.other is None:
            raise NotSent("its host refused the connection")
        return await self.other(body)


async def verdict_of(server: Server, nursery: trio.Nursery) -> HostSeen | None:
    await nursery.start(server.rim.run)
    answers: list[HostSeen | None] = []
    server.rim.ask_verdict("other", WEB, answers.append)
    while not answers:
        await trio.testing.wait_all_tasks_blocked()
    return answers[0]


async def test_another_server_tells_what_it_sees(nursery: trio.Nursery) -> None:
    me, other = Server(), Server()
    other.sees.hosts[WEB_KEY] = HostSeen(HostVerdict.FAILED, 7)
    me.other = other.rim.answer_verdict
    assert await verdict_of(me, nursery) == HostSeen(HostVerdict.FAILED, 7)
    assert me.asked == [("other", "session.verdict")]


async def test_what_a_server_says_that_is_cut_off_is_no_answer(nursery: trio.Nursery) -> None:
    me, other = Server(), Server()
    other.sees.is_isolated = True
    me.other = other.rim.answer_verdict
    assert await verdict_of(me, nursery) is None


async def test_neither_is_silence(nursery: trio.Nursery) -> None:
    assert await verdict_of(Server(), nursery) is None


@pytest.mark.parametrize("answer", [b"", b"\xc1", b"\x93\x09\x01\xc2", b"\x93\xa1x\x01\xc2"])
async def test_nor_is_what_makes_no_sense(nursery: trio.Nursery, answer: bytes) -> None:
    async def nonsense(_body: bytes) -> bytes:
        return answer

    me = Server()
    me.other = nonsense
    assert await verdict_of(me, nursery) is None


@pytest.mark.parametrize("body", [b"", bytes(15), bytes(17), bytes(1_000_000)])
async def test_a_question_about_no_node_is_malformed(body: bytes) -> None:
    with pytest.raises(wire.UnreadableMessage):
        await Server().rim.answer_verdict(body)


async def test_a_server_of_no_cluster_refuses_renewals(nursery: trio.Nursery) -> None:
    server = Server()
    await nursery.start(server.rim.run)
    answers: list[object] = []
    server.rim.keeping.renew(["s"], answers.append)
    assert [str(each) for each in answers] == ["this server does not lead, or not any more"]
