"""Two sides on loopback with real sockets, and gossip's own cores behind them."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from adsum.gossip import core
from adsum.gossip.claims import Profile
from adsum.gossip.commands import (
    Command,
    Datagram,
    DatagramUnreachable,
    Join,
    PingOutcome,
    Report,
    StreamPinged,
    SyncAnswered,
    SyncAsked,
    SyncBroken,
    SyncClosed,
    SyncFailed,
)
from adsum.gossip.effects import (
    AnswerSync,
    CloseSync,
    Effect,
    JoinEnded,
    OpenSync,
    PingStream,
    Send,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.order import MemberStatus
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.net import introduction
from adsum.net.gate import Security
from adsum.net.gossiping import Allowed, Gossiping
from adsum.net.keyring import Keyring
from adsum.net.listening import bind_both
from adsum.now import MILLISECOND, SECOND, Now
from tests.files import no_file_left
from tests.net.support import KEY_A, KEY_B, ring

WAIT_S = 20.0  # for what happens at once, on a machine that may be busy


class Side:
    """Hears, and reports what it heard to whoever waits; `answer` is what it says to a sync."""

    def __init__(
        self,
        name: str,
        keyring: Keyring | None = None,
        *,
        answer: SyncMessage | None = None,
        closes: bool = True,
        allowed: Allowed | None = None,
    ) -> None:
        ears = bind_both("127.0.0.1", 0)
        self.address = ears.address
        self.node_id = name.encode().ljust(16, b"-")
        self.datagrams: list[Datagram] = []
        self.reports: list[Report] = []
        self.answer = answer
        self.closes = closes
        self.news = trio.Event()
        identity = introduction.PeerIdentity(self.node_id)
        security = Security(keyring or ring(), "dc1")
        self.network = Gossiping(ears, security, lambda: identity, self.reported, allowed=allowed)

    @property
    def short(self) -> bytes:
        return self.node_id[:8]

    def perform(self, effect: Effect) -> None:
        self.network.performers[type(effect)](effect)

    def reported(self, report: Datagram | Report) -> None:
        if isinstance(report, Datagram):
            self.datagrams.append(report)
            self._tell()
            return
        self.reports.append(report)
        match report:
            case SyncAsked(ticket, asked) if asked.wants_answer:
                self.perform(AnswerSync(ticket, self.answer))
            case SyncAnswered(ticket, message) if self.closes:
                self.perform(CloseSync(ticket, SyncMessage(message.digest + 1)))
        self._tell()

    async def until(self, kind: type[Report] | None = None) -> Report:
        with trio.fail_after(WAIT_S):
            while True:
                for report in self.reports:
                    if kind is None or isinstance(report, kind):
                        return report
                await self.news.wait()

    async def until_datagram(self) -> Datagram:
        with trio.fail_after(WAIT_S):
            while not self.datagrams:
                await self.news.wait()
        return self.datagrams[0]

    def _tell(self) -> None:
        self.news.set()
        self.news = trio.Event()


@asynccontextmanager
async def running(*sides: Side) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for side in sides:
            await nursery.start(side.network.run)
        yield
        nursery.cancel_scope.cancel()


MESSAGE = bytes((2,)) + b"12345678" + bytes(9) + b"body"  # a clear header, and what stands for a body


async def test_a_datagram_arrives_with_its_source() -> None:
    one, other = Side("one"), Side("other")
    async with running(one, other):
        one.perform(Send(other.address, MESSAGE))
        assert await other.until_datagram() == (one.address, MESSAGE, True)


async def test_a_sealed_datagram_is_authentic_and_a_plain_one_is_dropped() -> None:
    one, other, stranger = Side("one", ring(KEY_A)), Side("other", ring(KEY_A)), Side("stranger")
    async with running(one, other, stranger):
        stranger.perform(Send(other.address, MESSAGE))
        one.perform(Send(other.address, MESSAGE))
        source, message, is_authentic = await other.until_datagram()
        assert (source, message[18:], is_authentic) == (one.address, MESSAGE[18:], True)
        assert other.network.sealing.counters.plain_refused == 1


async def test_what_comes_from_a_network_that_is_not_allowed_is_dropped() -> None:
    one, other = Side("one"), Side("other", allowed=Allowed(["10.0.0.0/8"]))
    async with running(one, other):
        one.perform(Send(other.address, MESSAGE))
        one.perform(PingStream(1, other.short, other.address, 500 * MILLISECOND))
        assert await one.until() == StreamPinged(1, PingOutcome.HELD)
        assert other.datagrams == []
        assert other.network.allowed.refused >= 1


# Pings over a stream.


async def test_a_member_that_lives_answers_a_ping_over_a_stream() -> None:
    one, other = Side("one"), Side("other")
    async with running(one, other):
        one.perform(PingStream(7, other.short, other.address, 5 * SECOND))
        assert await one.until() == StreamPinged(7, PingOutcome.ANSWERED)


async def test_another_that_was_given_its_address_is_no_answer() -> None:
    one, other = Side("one"), Side("other")
    async with running(one, other):
        one.perform(PingStream(7, b"somebody", other.address, 5 * SECOND))
        assert await one.until() == StreamPinged(7, PingOutcome.HELD)


async def test_a_host_without_the_process_refuses() -> None:
    one, gone = Side("one"), bind_both("127.0.0.1", 0)
    address = gone.address
    gone.udp.close()
    await gone.tcp.aclose()
    async with running(one):
        one.perform(PingStream(7, b"gone----", address, 5 * SECOND))
        assert await one.until(StreamPinged) == StreamPinged(7, PingOutcome.REFUSED)


async def test_the_host_of_a_stopped_process_holds_the_connection() -> None:
    one, stopped = Side("one"), bind_both("127.0.0.1", 0)
    async with running(one):
        one.perform(PingStream(7, b"stopped-", stopped.address, 100 * MILLISECOND))
        assert await one.until(StreamPinged) == StreamPinged(7, PingOutcome.HELD)
    stopped.udp.close()
    await stopped.tcp.aclose()


async def test_a_host_that_takes_no_connection_is_silent() -> None:
    one, full = Side("one"), bind_both("127.0.0.1", 0)
    full.tcp.socket.listen(0)  # the kernel drops what goes beyond its queue, as a pulled cable does
    async with running(one):
        with trio.fail_after(10):
            while True:
                one.perform(PingStream(7, b"silent--", full.address, 100 * MILLISECOND))
                if await one.until(StreamPinged) == StreamPinged(7, PingOutcome.SILENT):
                    break
                one.reports.clear()
    full.udp.close()
    await full.tcp.aclose()


async def test_icmp_is_reported_as_unreachable() -> None:
    one, gone = Side("one"), bind_both("127.0.0.1", 0)
    address = gone.address
    gone.udp.close()
    await gone.tcp.aclose()
    async with running(one):
        one.perform(Send(address, MESSAGE))
        assert await one.until() == DatagramUnreachable(address)


# Exchanges of rosters.


async def test_three_turns_of_an_exchange() -> None:
    answer = SyncMessage(5, (SyncPart(b"claim"),))
    one, other = Side("one"), Side("other", answer=answer)
    async with running(one, other):
        one.perform(OpenSync(3, other.address, SyncMessage(1)))
        closed = await other.until(SyncClosed)
    assert one.reports == [SyncAnswered(3, answer)]
    assert isinstance(closed, SyncClosed)
    assert closed.message == SyncMessage(6)


async def test_one_that_is_busy_hangs_up_and_the_opener_is_told_to_try_again() -> None:
    one, other = Side("one"), Side("other", answer=None)
    async with running(one, other):
        one.perform(OpenSync(3, other.address, SyncMessage(1)))
        failed = await one.until(SyncFailed)
    assert isinstance(failed, SyncFailed)
    assert (failed.ticket, failed.is_busy) == (3, True)


async def test_a_message_that_wants_no_answer_ends_with_its_turn() -> None:
    one, other = Side("one"), Side("other")
    async with running(one, other):
        leaving = SyncMessage(1, (SyncPart(b"claim", b"left"),), wants_answer=False)
        one.perform(OpenSync(3, other.address, leaving))
        asked = await other.until(SyncAsked)
    assert isinstance(asked, SyncAsked)
    assert asked.message == leaving
    assert one.reports == []


async def test_with_another_key_nobody_gets_in_and_the_opener_hears_why() -> None:
    one, other = Side("one", ring(KEY_A)), Side("other", ring(KEY_B), answer=SyncMessage(5))
    async with running(one, other):
        one.perform(OpenSync(3, other.address, SyncMessage(1)))
        failed = await one.until(SyncFailed)
    assert isinstance(failed, SyncFailed)
    assert not failed.is_busy
    assert other.reports == []


async def test_an_opener_that_ends_before_its_last_turn_breaks_the_exchange() -> None:
    one, other = Side("one", closes=False), Side("other", answer=SyncMessage(5))
    async with running(one, other):
        one.perform(OpenSync(3, other.address, SyncMessage(1)))
        assert isinstance(await other.until(SyncBroken), SyncBroken)


# With the shipped core behind it.


class Member:
    def __init__(self, name: str, generation: int = 1) -> None:
        ears = bind_both("127.0.0.1", 0)
        profile = Profile(name.encode().ljust(16, b"-"), name, ears.address)
        identity = introduction.PeerIdentity(profile.node_id)
        self.core = core.GossipCore(
            self.now(), GossipSettings(), MemberIdentity(profile, generation), random.Random(1)
        )
        self.address = ears.address
        self.ended: list[JoinEnded] = []
        self.news = trio.Event()
        security = Security(ring(KEY_A), "dc1")
        self.network = Gossiping(ears, security, lambda: identity, self._reported)

    def now(self) -> Now:
        return Now(time.monotonic_ns(), time.time_ns() // MILLISECOND)

    def command(self, command: Command) -> None:
        self._perform(self.core.command(self.now(), command))

    def _reported(self, report: Datagram | Report) -> None:
        if isinstance(report, Datagram):
            source, message, is_authentic = report
            self._perform(self.core.receive(self.now(), source, message, is_authentic=is_authentic))
        else:
            self._perform(self.core.report(self.now(), report))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, JoinEnded):
                self.ended.append(effect)
            elif type(effect) in self.network.performers:
                self.network.performers[type(effect)](effect)
        self.news.set()
        self.news = trio.Event()


async def test_two_members_meet_by_a_join() -> None:
    one, other = Member("one"), Member("other")
    async with trio.open_nursery() as nursery:
        for member in (one, other):
            await nursery.start(member.network.run)
        one.command(Join((other.address,)))
        with trio.fail_after(WAIT_S):
            while not (one.ended and other.core.membership.members()):
                await (one.news if not one.ended else other.news).wait()
        nursery.cancel_scope.cancel()
    assert one.ended == [JoinEnded(other.address, "")]
    assert [(each.profile.name, each.status) for each in one.core.membership.members()] == [
        ("other", MemberStatus.ALIVE)
    ]
    assert [(each.profile.name, each.status) for each in other.core.membership.members()] == [
        ("one", MemberStatus.ALIVE)
    ]


async def test_what_a_report_brings_to_light_ends_no_exchange_and_no_agent() -> None:
    class Faulty(Side):
        def reported(self, report: Datagram | Report) -> None:
            super().reported(report)
            raise KeyError("hostile")

    one, other = Faulty("one"), Side("other", answer=SyncMessage(2))
    async with running(one, other):
        one.perform(PingStream(7, other.short, other.address, 5 * SECOND))
        await one.until(StreamPinged)
        one.perform(OpenSync(8, other.address, SyncMessage(1)))
        await other.until(SyncBroken)
        await one.until(SyncFailed)
        one.perform(Send(other.address, MESSAGE))
        await other.until_datagram()


# Without files.


async def test_without_a_file_for_it_a_ping_is_not_tried_which_accuses_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, two = Side("one"), Side("two")
    async with running(one, two):
        with no_file_left():
            one.perform(PingStream(7, two.short, two.address, 5 * SECOND))
            assert await one.until(StreamPinged) == StreamPinged(7, PingOutcome.UNTRIED)
    assert one.network.gate.counters.dials_failed["Untried"] == 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("other agents cannot be called: too many open files: raise the agent's limit")


async def test_without_a_file_for_it_an_exchange_is_tried_again_as_with_one_who_is_busy() -> None:
    one, two = Side("one"), Side("two")
    async with running(one, two):
        with no_file_left():
            one.perform(OpenSync(7, two.address, SyncMessage(1)))
            failed = await one.until(SyncFailed)
    assert isinstance(failed, SyncFailed)
    assert failed.is_busy
    assert failed.error.startswith("too many open files")
