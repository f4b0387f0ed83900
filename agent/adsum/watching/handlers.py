"""What a change is handed to: a program, with JSON on its standard input and the index in its environment; or
a request, with JSON in its body and the index in a header.

A program may take ten minutes, then it is killed with all that it started; a request what its configuration
says. Both wait for their turn where many run, and of what they print or answer the end is kept. They end with
the agent, and with their watch when a reload takes that away.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import trio

from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.config.config import HttpHandler, WatchDefinition
from adsum.durations import format_duration
from adsum.health_checks.attempt import CheckFailed, Options, Surroundings
from adsum.health_checks.attempt import Counters as RunCounters
from adsum.health_checks.http import HttpAttempt
from adsum.health_checks.output import Tail
from adsum.health_checks.script import run_process
from adsum.logs.system_errors import is_shortage, is_shortage_at_start
from adsum.now import MINUTE, SECOND
from adsum.watching.counters import WatchCounters
from adsum.watching.watch import Handle, HandlerFailed

OUTPUT_BYTES_MAX = 4096  # Consul's
HANDLER_NS_MAX = 10 * MINUTE
USER_AGENT = "Adsum Watch"

log = logging.getLogger("agent.watch")


class Handlers:
    def __init__(self, counters: WatchCounters, at_once_max: int) -> None:
        self._counters = counters
        self._turns = trio.CapacityLimiter(at_once_max)
        options = Options(output_bytes_max=OUTPUT_BYTES_MAX, user_agent=USER_AGENT, environ=os.environ)
        self._surroundings = Surroundings(options, RunCounters())

    def of(self, definition: WatchDefinition) -> Handle:
        http = definition.http

        async def handle(index: int, said: bytes) -> None:
            async with self._turns:
                if http is not None:
                    await self._request(http, index, said)
                else:
                    await self._program(definition.args, index, said)

        return handle

    async def _program(self, args: tuple[str, ...], index: int, said: bytes) -> None:
        tail = Tail(OUTPUT_BYTES_MAX)
        stdin = os.memfd_create("watch")  # a file, so that nobody waits for who does not read it
        try:
            with os.fdopen(os.dup(stdin), "wb") as file:
                file.write(said)
            os.lseek(stdin, 0, os.SEEK_SET)
            environment = os.environ | {"CONSUL_INDEX": str(index)}
            with trio.move_on_after(HANDLER_NS_MAX / SECOND) as time:
                code = await run_process(
                    args, tail, self._surroundings.counters, stdin=stdin, environment=environment
                )
        except CheckFailed as problem:
            _raise_cause(problem, is_shortage_at_start)
            raise HandlerFailed(str(problem)) from None
        finally:
            os.close(stdin)
        output = tail.captured_text().strip()
        if time.cancelled_caught:
            self._counters.handlers_timed_out += 1
            raise HandlerFailed(_with(f"killed after {format_duration(HANDLER_NS_MAX)}", output))
        if code:
            how = f"exit status {code}" if code > 0 else f"signal {-code}"
            raise HandlerFailed(_with(f"{args[0]}: {how}", output))
        log.debug("handler %s: %s", args[0], output)

    async def _request(self, http: HttpHandler, index: int, said: bytes) -> None:
        header: dict[str, list[str]] = {"X-Consul-Index": [str(index)]}
        if not any(name.lower() == "content-type" for name, _ in http.header):
            header["Content-Type"] = ["application/json"]
        for name, value in http.header:
            header.setdefault(name, []).append(value)
        definition = CheckDefinition(
            http=http.url,
            method=http.method,
            header=header,
            body=said.decode(),
            tls_skip_verify=http.tls_skip_verify,
            timeout_ns=http.timeout_ns,
        )
        attempt = HttpAttempt(definition, self._surroundings)
        try:
            with trio.move_on_after(http.timeout_ns / SECOND) as time:
                result = await attempt.run()
        except CheckFailed as problem:
            _raise_cause(problem, is_shortage)
            raise HandlerFailed(str(problem)) from None
        if time.cancelled_caught:
            self._counters.handlers_timed_out += 1
            result = attempt.timed_out()
        if result.status is not CheckStatus.PASSING:
            raise HandlerFailed(result.output)
        log.debug("handler: %s", result.output)


def _raise_cause(problem: CheckFailed, passes: Callable[[BaseException], bool]) -> None:
    """Raises what the system refused for want of something, which passes."""
    cause = problem.__cause__
    if cause is not None and passes(cause):
        raise cause


def _with(sentence: str, output: str) -> str:
    return f"{sentence}: {output}" if output else sentence
