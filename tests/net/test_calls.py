from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import cbor2
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from adsum.address import Address
from adsum.net import call_frames
from adsum.net.call_server import CallLimits, CallServer, _BegunAnswer
from adsum.net.calls import (
    BEAT_S,
    IDLE_S,
    SILENCE_MAX_S,
    CallConnection,
    CallError,
    Declined,
    NotSent,
    Unanswered,
    dial_for_calls,
)
from adsum.net.channel import Channel
from adsum.net.errors import Lost, NetError, PeerRefused
from adsum.net.framing import MalformedFrame
from adsum.net.gate import OpenedChannel
from adsum.net.introduction import Peer, Purpose
from adsum.net.listening import bind_tcp
from adsum.net.outbox import Outbox
from adsum.net.streams import StreamServer
from adsum.storage.failures import StorageFailed
from tests.net.support import KEY_A, gate, ring, serving


class Hears:
    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        self.heard.append((topic, body))


class Fake(Hears):
    """Answers, refuses, fails or hangs, as the method says."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: set[Peer] = set()
        self.cancelled = 0
        self.hung = 0
        self.go_on = trio.Event()

    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        self.callers.add(caller)
        match method:
            case "echo":
                return body
            case "length":
                return str(len(body)).encode()
            case "decline":
                raise Declined("not-leader", "ask another one")
            case "fault":
                raise ZeroDivisionError
            case "disk":
                raise StorageFailed("could not sync a file")
            case "too much":
                return bytes(call_frames.BODY_BYTES_MAX + 1)
        await self._hang()
        return b"at last"

    async def _hang(self) -> None:
        self.hung += 1
        try:
            await self.go_on.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise


class Beginning(Hears):
    """Answers without tasks, when the method does not say that it takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[bytes | Declined], None]] = []
        self.given_up = 0

    def begin(
        self, _caller: Peer, method: str, body: bytes, answered: Callable[[bytes | Declined], None]
    ) -> Callable[[], None]:
        match method:
            case "echo":
                answered(body)
            case "decline":
                answered(Declined("not-leader", "ask another one"))
            case "fault":
                raise ZeroDivisionError
            case "too much":
                answered(bytes(call_frames.BODY_BYTES_MAX + 1))
            case _:
                self.waiting.append(answered)
        return partial(self._give_up, answered)

    def _give_up(self, _answered: object) -> None:
        self.given_up += 1


@asynccontextmanager
async def running(line: CallConnection) -> AsyncIterator[CallConnection]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.run)
        yield line
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(
    fake: Fake | Beginning, *keys: str, limits: CallLimits | None = None
) -> AsyncIterator[tuple[CallConnection, CallServer]]:
    server = CallServer(fake, limits)
    streams = StreamServer(gate(ring(*keys), name=b"server"), calls=server)
    async with serving(streams) as address:
        line = CallConnection(dial_for_calls(gate(ring(*keys), name=b"client"), address), Random(1))
        async with running(line):
            yield line, server


async def until(condition: Callable[[], bool]) -> None:
    """For what the other end of a socket does in its own time."""
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


def simulated(main: Callable[[], object]) -> None:
    """The sockets are real, so the clock waits a little before it jumps."""
    trio.run(main, clock=MockClock(autojump_threshold=0.02))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [(), (KEY_A,)], ids=["plain", "sealed"])
async def test_calls_are_answered_each_with_its_own_answer(keys: tuple[str, ...]) -> None:
    fake, answers = Fake(), dict[int, bytes]()

    async def ask(line: CallConnection, number: int) -> None:
        answers[number] = await line.ask("echo", str(number).encode(), timeout_s=5)

    async with connected(fake, *keys) as (line, server):
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(ask, line, number)
        assert line.peer is not None
        assert line.peer.identity.node_id == b"server----------"
        assert server.counters.in_flight == 0
    assert answers == {number: str(number).encode() for number in range(500)}
    assert line.counters.connections == 1
    (caller,) = fake.callers
    assert caller.identity.node_id == b"client----------"
    assert caller.is_authenticated == bool(keys)


async def test_a_call_that_waits_does_not_hold_up_others() -> None:
    fake = Fake()

    async def ask_patiently(line: CallConnection) -> None:
        assert await line.ask("hang", b"", timeout_s=60) == b"at last"

    async with connected(fake) as (line, _), trio.open_nursery() as nursery:
        nursery.start_soon(ask_patiently, line)
        assert await line.ask("echo", b"quick", timeout_s=5) == b"quick"
        fake.go_on.set()


async def test_the_largest_entry_of_the_log_fits_and_more_is_not_sent() -> None:
    async with connected(Fake(), KEY_A) as (line, _):
        largest = bytes(call_frames.BODY_BYTES_MAX)
        assert await line.ask("length", largest, timeout_s=20) == str(len(largest)).encode()
        with pytest.raises(NotSent, match="at most"):
            await line.ask("length", largest + b"x", timeout_s=5)
        assert line.tell("topic", largest + b"x") is False


async def test_a_declined_call_says_why() -> None:
    async with connected(Fake()) as (line, _):
        with pytest.raises(Declined) as caught:
            await line.ask("decline", b"", timeout_s=5)
    assert (caught.value.code, caught.value.text) == ("not-leader", "ask another one")


@pytest.mark.parametrize("method", ["fault", "too much"])
async def test_a_fault_is_logged_once_a_minute_and_spares_the_other_calls(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(Fake()) as (line, server):
        for _ in range(3):
            with pytest.raises(Declined) as caught:
                await line.ask(method, b"", timeout_s=5)
            assert caught.value.code == "fault"
        assert await line.ask("echo", b"on", timeout_s=5) == b"on"
        assert (server.counters.faults, line.counters.connections) == (3, 1)
        assert server.faults.counts["call"] == (3 if method == "fault" else 0)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_failed_sync_that_a_call_met_ends_its_server() -> None:
    with pytest.RaisesGroup(StorageFailed, flatten_subgroups=True):
        async with connected(Fake()) as (line, _):
            with pytest.raises(Unanswered):
                await line.ask("disk", b"", timeout_s=5)


async def test_messages_without_answer_arrive_in_order() -> None:
    fake = Fake()
    async with connected(fake, KEY_A) as (line, _):
        for number in range(1_000):
            assert line.tell("raft", str(number).encode())
        await line.ask("echo", b"", timeout_s=5)
    assert fake.heard == [("raft", str(number).encode()) for number in range(1_000)]


async def test_messages_larger_than_a_socket_takes_at_once_arrive_whole_and_in_order() -> None:
    fake = Fake()
    async with connected(fake, KEY_A) as (line, _):
        await line.ask("echo", b"", timeout_s=5)
        for number in range(6):
            assert line.tell("raft", str(number).encode() * (1 << 22 if number % 2 == 0 else 1))
        assert await line.ask("echo", b"last", timeout_s=5) == b"last"
    assert [(body[:1], len(body)) for _topic, body in fake.heard] == [
        *((b"0", 1 << 22), (b"1", 1), (b"2", 1 << 22)),
        *((b"3", 1), (b"4", 1 << 22), (b"5", 1)),
    ]


async def test_a_caller_that_goes_away_takes_its_call_along() -> None:
    fake = Fake()
    async with connected(fake) as (line, server):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: line.ask("hang", b"", timeout_s=60))
                await until(lambda: fake.hung == 1)
                scope.cancel()
        await until(lambda: fake.cancelled == 1)
        assert (server.counters.cancelled, server.counters.in_flight) == (1, 0)


def test_a_deadline_ends_the_call_at_both_ends() -> None:
    async def main() -> None:
        fake = Fake()
        async with connected(fake) as (line, server):
            with pytest.raises(Unanswered, match="in time"):
                await line.ask("hang", b"", timeout_s=2)
            await trio.sleep(1)
            assert fake.cancelled == 1
            assert server.counters.overdue + server.counters.cancelled == 1

    simulated(main)


def test_a_deadline_is_kept_by_the_answering_side_alone() -> None:
    async def main() -> None:
        fake = Fake()
        server = CallServer(fake)
        async with raw(server) as channel:
            await channel.send(call_frames.ask(1, "hang", 2, b""))
            await trio.sleep(3)
            assert (fake.cancelled, server.counters.overdue, server.counters.in_flight) == (1, 1, 0)

    simulated(main)


def test_a_call_whose_deadline_passed_before_there_was_a_connection_is_never_sent() -> None:
    async def main() -> None:
        fake = Fake()
        async with serving(StreamServer(gate(), calls=CallServer(fake))) as address:
            dial = dial_for_calls(gate(), address)

            async def dial_late() -> OpenedChannel:
                await trio.sleep(2)
                return await dial()

            async with running(CallConnection(dial_late, Random(1))) as line:
                with pytest.raises(NotSent, match="in time"):
                    await line.ask("hang", b"", timeout_s=1)
                assert await line.ask("echo", b"later", timeout_s=5) == b"later"
        assert fake.hung == 0

    simulated(main)


async def test_too_many_calls_are_declined_as_busy() -> None:
    fake = Fake()
    async with connected(fake, limits=CallLimits(calls_per_connection_max=2)) as (line, server):
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(lambda: line.ask("hang", b"", timeout_s=60))
            await until(lambda: fake.hung == 2)
            with pytest.raises(Declined) as caught:
                await line.ask("echo", b"", timeout_s=5)
            fake.go_on.set()
        assert (caught.value.code, server.counters.busy) == ("busy", 1)
        assert await line.ask("echo", b"again", timeout_s=5) == b"again"


async def test_waiting_calls_are_bounded_at_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.net.calls.CALLS_MAX", 0)
    async with connected(Fake()) as (line, _):
        with pytest.raises(NotSent, match="waiting for answers"):
            await line.ask("echo", b"", timeout_s=5)


async def test_a_refused_connection_fails_calls_at_once_as_not_sent() -> None:
    listener = bind_tcp("127.0.0.1", 0)
    address = Address(*listener.socket.getsockname())
    await listener.aclose()
    async with running(CallConnection(dial_for_calls(gate(), address), Random(1))) as line:
        line.tell("raft", b"stale by the time there is a connection")
        with pytest.raises(NotSent, match=r"^its host refused the connection$"):
            await line.ask("echo", b"", timeout_s=60)
        assert (line.counters.attempts_failed, line.counters.tells_dropped) == (1, 1)


def test_attempts_come_later_each_time_and_never_in_step() -> None:
    async def main() -> list[float]:
        times: list[float] = []

        async def dial() -> OpenedChannel:
            times.append(trio.current_time())
            raise PeerRefused("its host refused the connection")

        async with running(CallConnection(dial, Random(1))) as line:
            while len(times) < 10:
                line.tell("raft", b"")
                await trio.sleep(0.01)
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    gaps = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert gaps[0] < 0.1
    assert 0.5 <= min(gaps[-3:]) <= max(gaps[-3:]) <= 1.02
    assert len({round(gap, 2) for gap in gaps[-4:]}) > 1


async def test_a_lost_connection_leaves_the_outcome_unknown_and_the_next_call_connects_again() -> None:
    fake = Fake()
    server = StreamServer(gate(), calls=CallServer(fake))
    listener = bind_tcp("127.0.0.1", 0)
    address = Address(*listener.socket.getsockname())
    async with (
        trio.open_nursery() as nursery,
        running(CallConnection(dial_for_calls(gate(), address), Random(1))) as line,
    ):
        holding = trio.CancelScope()

        async def hold(stream: trio.SocketStream) -> None:
            with holding:
                await server.hold(stream)

        async def cut() -> None:
            await until(lambda: fake.hung == 1)
            holding.cancel()

        await nursery.start(trio.serve_listeners, hold, [listener])
        nursery.start_soon(cut)
        with pytest.raises(Unanswered, match="lost"):
            await line.ask("hang", b"", timeout_s=60)
        holding = trio.CancelScope()
        assert await line.ask("echo", b"again", timeout_s=60) == b"again"
        assert line.counters.connections == 2
        nursery.cancel_scope.cancel()


def test_an_idle_line_hangs_up_and_comes_back_when_it_is_needed() -> None:
    async def main() -> None:
        async with connected(Fake()) as (line, _):
            await line.ask("echo", b"", timeout_s=5)
            await trio.sleep(IDLE_S - 2 * BEAT_S)
            assert line.peer is not None  # beats kept both ends convinced all the while
            await trio.sleep(4 * BEAT_S)
            assert line.peer is None
            assert await line.ask("echo", b"back", timeout_s=5) == b"back"
            assert line.counters.connections == 2

    simulated(main)


def test_a_peer_that_falls_silent_is_given_up() -> None:
    """As one stopped by SIGSTOP: its kernel takes what we send, and no beat comes back."""

    async def main() -> None:
        async def fall_silent(stream: trio.SocketStream) -> None:
            await gate().welcome(stream, lambda _purpose, _peer: None, payload_bytes_max=1_000)
            await trio.sleep_forever()

        listener = bind_tcp("127.0.0.1", 0)
        address = Address(*listener.socket.getsockname())
        line = CallConnection(dial_for_calls(gate(), address), Random(1))
        async with trio.open_nursery() as nursery, running(line):
            await nursery.start(trio.serve_listeners, fall_silent, [listener])
            began_s = trio.current_time()
            with pytest.raises(Unanswered, match="says nothing"):
                await line.ask("echo", b"", timeout_s=60)
            assert trio.current_time() - began_s == pytest.approx(SILENCE_MAX_S, abs=1)
            nursery.cancel_scope.cancel()

    simulated(main)


# Calls without tasks, at either end.


async def test_calls_begun_without_tasks_are_answered_each_with_its_own_answer() -> None:
    outcomes: dict[int, bytes | CallError] = {}
    async with connected(Beginning(), KEY_A) as (line, server):
        for number in range(500):
            line.begin("echo", b"%d" % number, partial(outcomes.__setitem__, number), timeout_s=5)
        await until(lambda: len(outcomes) == 500)
        assert outcomes == {number: b"%d" % number for number in range(500)}
        assert (server.counters.answered, server.counters.in_flight) == (500, 0)
        assert await line.ask("echo", b"and with one", timeout_s=5) == b"and with one"


async def test_a_begun_call_that_waits_is_answered_late_and_others_before_it() -> None:
    fake = Beginning()
    outcomes: list[bytes | CallError] = []
    async with connected(fake) as (line, server):
        line.begin("hang", b"", outcomes.append, timeout_s=60)
        assert await line.ask("echo", b"quick", timeout_s=5) == b"quick"
        assert (outcomes, server.counters.in_flight) == ([], 1)
        fake.waiting[0](b"at last")
        fake.waiting[0](b"twice")
        await until(lambda: bool(outcomes))
        assert await line.ask("echo", b"", timeout_s=5) == b""
    assert outcomes == [b"at last"]


async def test_a_begun_call_that_is_given_up_is_given_up_at_the_other_end_and_never_ends() -> None:
    fake = Beginning()
    outcomes: list[bytes | CallError] = []
    async with connected(fake) as (line, server):
        call = line.begin("hang", b"", outcomes.append, timeout_s=60)
        await until(lambda: len(fake.waiting) == 1)
        assert isinstance(line.give_up(call), Unanswered)
        await until(lambda: fake.given_up == 1)
        fake.waiting[0](b"too late")
        assert await line.ask("echo", b"", timeout_s=5) == b""
        assert (outcomes, server.counters.cancelled, server.counters.in_flight) == ([], 1, 0)


async def test_a_begun_call_that_is_over_goes_without_the_collector() -> None:
    """A server keeps its store from it now and then (`servers/collector.py`), with all that lives then."""
    fake = Beginning()
    outcomes: list[bytes | CallError] = []
    async with connected(fake) as (line, _server):
        gc.collect()
        gc.disable()
        try:
            for method in ("echo", "fault", "hang", "hang"):
                call = line.begin(method, b"", outcomes.append, timeout_s=60)
            await until(lambda: len(fake.waiting) == 2)
            line.give_up(call)
            await until(lambda: fake.given_up == 1)
            fake.waiting[0](b"at last")
            fake.waiting.clear()
            await until(lambda: len(outcomes) == 3)
            assert [each for each in gc.get_objects() if isinstance(each, _BegunAnswer)] == []
        finally:
            gc.enable()


async def test_what_is_begun_is_given_up_when_its_caller_is_gone() -> None:
    fake = Beginning()
    outcomes: list[bytes | CallError] = []
    server = CallServer(fake)
    async with serving(StreamServer(gate(), calls=server)) as address:
        async with running(CallConnection(dial_for_calls(gate(), address), Random(1))) as line:
            for _ in range(3):
                line.begin("hang", b"", outcomes.append, timeout_s=60)
            await until(lambda: len(fake.waiting) == 3)
        await until(lambda: fake.given_up == 3)
        assert server.counters.in_flight == 0
    assert [type(outcome) for outcome in outcomes] == [Unanswered] * 3


def test_the_deadline_of_what_is_begun_is_kept_by_the_answering_side_alone() -> None:
    async def main() -> None:
        fake = Beginning()
        server = CallServer(fake)
        async with raw(server) as channel:
            for number, timeout_s in enumerate((9.0, 2.0, 9.0)):
                await channel.send(call_frames.ask(number, "hang", timeout_s, b""))
            await trio.sleep(3)
            assert (fake.given_up, server.counters.overdue, server.counters.in_flight) == (1, 1, 2)
            await trio.sleep(7)
            assert (fake.given_up, server.counters.overdue, server.counters.in_flight) == (3, 3, 0)

    simulated(main)


@pytest.mark.parametrize(
    ("method", "code"), [("decline", "not-leader"), ("fault", "fault"), ("too much", "fault")]
)
async def test_what_is_begun_in_vain_says_why_and_spares_the_other_calls(method: str, code: str) -> None:
    async with connected(Beginning()) as (line, server):
        with pytest.raises(Declined) as caught:
            await line.ask(method, b"", timeout_s=5)
        assert caught.value.code == code
        assert await line.ask("echo", b"on", timeout_s=5) == b"on"
        assert (server.counters.in_flight, line.counters.connections) == (0, 1)


async def test_too_many_begun_calls_are_declined_as_busy() -> None:
    fake = Beginning()
    async with connected(fake, limits=CallLimits(calls_per_connection_max=2)) as (line, server):
        for _ in range(2):
            line.begin("hang", b"", lambda _outcome: None, timeout_s=60)
        with pytest.raises(Declined) as caught:
            await line.ask("echo", b"", timeout_s=5)
        assert (caught.value.code, server.counters.busy) == ("busy", 1)
        fake.waiting[0](b"")
        assert await line.ask("echo", b"again", timeout_s=5) == b"again"


async def test_a_number_of_a_begun_call_is_not_taken_twice() -> None:
    server = CallServer(Beginning())
    async with raw(server) as channel:
        await channel.send(call_frames.ask(1, "hang", 60, b""), call_frames.ask(1, "hang", 60, b""))
        with pytest.raises(Lost):
            await channel.receive(idle_s=5)
        await until(lambda: server.counters.in_flight == 0)


NONSENSE = {
    "kind": [-1],
    "empty": [],
    "no number": [0, "x", "echo", 1_000, b""],
    "endless method": [0, 1, "x" * 65, 1_000, b""],
    "no deadline": [0, 1, "echo", 0, b""],
    "endless deadline": [0, 1, "echo", 1 << 60, b""],
    "text for a body": [0, 1, "echo", 1_000, "body"],
    "huge number": [0, 1 << 53, "echo", 1_000, b""],
    "an answer": [1, 1, b""],
}


@asynccontextmanager
async def raw(server: CallServer) -> AsyncIterator[Channel]:
    """A connection for calls, to say on it what a line would not."""
    async with serving(StreamServer(gate(), calls=server)) as address:
        opened = await gate().dial(address, Purpose.CALLS, payload_bytes_max=call_frames.PAYLOAD_BYTES_MAX)
        async with opened.channel:
            yield opened.channel


@pytest.mark.parametrize("fields", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_caller_that_talks_nonsense_is_cut_off(fields: list[object]) -> None:
    server = CallServer(Fake())
    async with raw(server) as channel:
        await channel.send(cbor2.dumps(fields))
        with pytest.raises(Lost):
            await channel.receive(idle_s=5)
        await until(lambda: server.counters.lost == 1)


async def test_a_question_longer_than_is_answered_here_is_not_waited_for() -> None:
    server = CallServer(Fake(), CallLimits(question_bytes_max=1_000))
    async with raw(server) as channel:
        await channel.send(call_frames.ask(1, "hang", 60, bytes(2_000)))
        with pytest.raises(Lost):
            await channel.receive(idle_s=5)
        await until(lambda: server.counters.lost == 1)
    async with raw(server) as channel:
        await channel.send(call_frames.ask(1, "length", 60, bytes(900)))
        assert call_frames.decode(await channel.receive(idle_s=5)) == call_frames.Answered(1, b"900")


async def test_a_stranger_asks_four_kibibytes_at_once_and_not_more() -> None:
    server, server_gate = CallServer(Fake()), gate()
    strangers = StreamServer(server_gate, calls=server, is_member=lambda _peer: False)
    async with serving(strangers) as address:
        line = CallConnection(dial_for_calls(gate(name=b"client"), address), Random(1))
        async with running(line):
            assert await line.ask("length", bytes(4_000), timeout_s=5) == b"4000"
            with pytest.raises(Unanswered):
                await line.ask("length", bytes(4_100), timeout_s=5)
    assert server_gate.unread.counters.refused == {"length": 1}


async def test_a_message_without_answer_that_makes_us_fail_is_dropped_alone() -> None:
    class Stumbling(Fake):
        def hear(self, caller: Peer, topic: str, body: bytes) -> None:
            super().hear(caller, topic, body)
            raise KeyError("hostile")

    fake = Stumbling()
    async with connected(fake) as (line, server):
        assert line.tell("news", b"1")
        assert await line.ask("echo", b"on", timeout_s=5) == b"on"
        assert (len(fake.heard), server.faults.counts["call"], line.counters.connections) == (1, 1, 1)


async def test_a_number_in_use_is_not_taken_twice() -> None:
    server = CallServer(Fake())
    async with raw(server) as channel:
        await channel.send(call_frames.ask(1, "hang", 60, b""), call_frames.ask(1, "hang", 60, b""))
        with pytest.raises(Lost):
            await channel.receive(idle_s=5)
        await until(lambda: server.counters.in_flight == 0)


async def test_kinds_of_later_versions_are_ignored() -> None:
    async with raw(CallServer(Fake())) as channel:
        await channel.send(cbor2.dumps([77, "what"]), call_frames.ask(1, "echo", 5, b"x"))
        assert call_frames.decode(await channel.receive(idle_s=5)) == call_frames.Answered(1, b"x")


async def test_an_answerer_that_asks_is_cut_off() -> None:
    async def main(stream: trio.SocketStream) -> None:
        opened = await gate().welcome(stream, lambda _purpose, _peer: None, payload_bytes_max=1_000)
        await opened.channel.send(call_frames.ask(1, "echo", 5, b""))
        await trio.sleep_forever()

    listener = bind_tcp("127.0.0.1", 0)
    line = CallConnection(dial_for_calls(gate(), Address(*listener.socket.getsockname())), Random(1))
    async with trio.open_nursery() as nursery, running(line):
        await nursery.start(trio.serve_listeners, main, [listener])
        with pytest.raises(Unanswered, match="an answering agent that asks"):
            await line.ask("echo", b"", timeout_s=5)
        nursery.cancel_scope.cancel()


def test_a_caller_that_does_not_read_its_answers_is_not_read_and_then_cut_off() -> None:
    async def main() -> None:
        server = CallServer(Fake())

        async def pour(channel: Channel) -> None:
            for number in range(200):
                await channel.send(call_frames.ask(number, "echo", 60, bytes(1 << 20)))

        async with raw(server) as channel:
            with pytest.raises(NetError):
                await pour(channel)
            assert server.counters.answered < 60

    simulated(main)


async def test_the_outbox_is_bounded() -> None:
    outbox = Outbox(bytes_max=10)
    assert outbox.put(b"12345678")
    assert not outbox.put(b"123")
    assert outbox.put(b"12")
    assert (len(outbox), outbox.bytes) == (2, 10)
    assert outbox.clear() == 2
    assert outbox.bytes == 0


@given(st.binary(max_size=60))
def test_noise_is_malformed_or_unknown_but_never_an_accident(noise: bytes) -> None:
    with suppress(MalformedFrame):
        call_frames.decode(noise)
