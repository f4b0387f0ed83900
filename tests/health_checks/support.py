"""Small servers on loopback that behave in exactly one way, and a runner to point at them."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio
import trio.testing

from adsum.catalog.definitions import CheckDefinition
from adsum.catalog.effects import CheckRan
from adsum.health_checks.runner import CheckResult, Counters, Options, Runner
from adsum.now import SECOND

Handler = Callable[[trio.abc.Stream], Awaitable[None]]


def ignore_report(ran: CheckRan) -> None:
    raise AssertionError("run_once does not report")


@dataclass
class Bench:
    nursery: trio.Nursery
    counters: Counters = field(default_factory=Counters)

    def runner(self, options: Options | None = None) -> Runner:
        return Runner(self.nursery, ignore_report, options, self.counters)

    async def run(self, definition: CheckDefinition, options: Options | None = None) -> CheckResult:
        return await self.runner(options).run_once(definition)

    async def run_past_its_deadline(
        self,
        definition: CheckDefinition,
        clock: trio.testing.MockClock,
        when: Callable[[], Awaitable[object]],
        options: Options | None = None,
    ) -> CheckResult:
        """The result if the deadline comes once `when` has returned and all is quiet."""
        results: list[CheckResult] = []

        async def check() -> None:
            results.append(await self.run(definition, options))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            await when()
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(definition.effective_timeout_ns / SECOND)
        return results[0]

    async def serve(self, handler: Handler, tls: ssl.SSLContext | None = None) -> int:
        """The port of a server that gives each connection to `handler` and closes it afterwards."""

        async def one(stream: trio.SocketStream) -> None:
            speaking: trio.abc.Stream = stream
            if tls is not None:
                speaking = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
            try:
                await handler(speaking)
            except trio.BrokenResourceError:
                pass  # the check hung up, as it should
            finally:
                await trio.aclose_forcefully(speaking)

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await self.nursery.start(trio.serve_listeners, one, listeners)
        return int(listeners[0].socket.getsockname()[1])

    async def serve_answer(self, answer: bytes, tls: ssl.SSLContext | None = None) -> int:
        async def handler(stream: trio.abc.Stream) -> None:
            await read_head(stream)
            await stream.send_all(answer)

        return await self.serve(handler, tls)

    async def serve_recording(self, answers: list[bytes]) -> tuple[int, list[bytes]]:
        """Gives each answer in turn, the last one for ever; keeps the requests."""
        requests: list[bytes] = []

        async def handler(stream: trio.abc.Stream) -> None:
            requests.append(await read_request(stream))
            await stream.send_all(answers[min(len(requests), len(answers)) - 1])

        return await self.serve(handler), requests


async def read_head(stream: trio.abc.Stream) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        data = await stream.receive_some()
        if not data:
            break
        received += data
    return received


async def read_request(stream: trio.abc.Stream) -> bytes:
    received = await read_head(stream)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += await stream.receive_some()
    return head + b"\r\n\r\n" + body


async def hang(stream: trio.abc.Stream) -> None:
    await trio.sleep_forever()


async def listen_only(stream: trio.abc.Stream) -> None:
    while await stream.receive_some():
        pass
