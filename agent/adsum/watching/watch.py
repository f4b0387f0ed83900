"""One watch of the configuration: asks the agent's own API, as the router would be asked by a connection, and
hands each change to its handler.

While a handler runs nothing is asked, so that it is handed what there is now and not each step of the way.
What cannot be asked, or handed over for want of a file, a process or a thread, is tried again; a handler that
fails is not, until there is another change. Each is said once a minute.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from random import Random
from urllib.parse import quote, urlencode

import trio

from adsum.config.config import WatchDefinition
from adsum.http.request import Headers, Request
from adsum.http.response import Response
from adsum.logs.complaints import Complaints
from adsum.logs.faults import Faults
from adsum.logs.system_errors import is_shortage_at_start, told
from adsum.watch_plan import HAS_MET_NOBODY, JOINING, STALE, News, Watcher
from adsum.watching.counters import WatchCounters

INTERVAL_S_MIN = 0.25  # between two questions: a busy catalog changes a hundred times a second
RETRY_S_MIN, RETRY_S_MAX = 1.0, 30.0
INLINE_BYTES_MAX = 256 * 1024  # a longer answer is read in a thread, as it takes more than a few milliseconds
SENTENCE_LENGTH_MAX = 512  # of a refusal that is repeated in the log
OK, NOT_FOUND = 200, 404

log = logging.getLogger("agent.watch")

Ask = Callable[[Request], Awaitable[Response]]


class HandlerFailed(Exception):
    """The sentence says how, with the end of what it printed or answered."""


Handle = Callable[[int, bytes], Awaitable[None]]  # an index and what there is; raises HandlerFailed


class NotAnswered(Exception):
    """The agent cannot say it now."""


class Inside:
    """The other end of a question that came over no connection: it never hangs up."""

    def __init__(self) -> None:
        self._woken = trio.Event()

    async def until_gone(self) -> None:
        await self._woken.wait()

    def wake(self) -> None:
        self._woken.set()

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        raise AssertionError(f"asked in a task: {request.method} {response.status} {varying!r}")


class ConfiguredWatch:
    def __init__(
        self,
        definition: WatchDefinition,
        ask: Ask,
        handle: Handle,
        counters: WatchCounters,
        random: Random,
        faults: Faults,
    ) -> None:
        self._watcher = Watcher(definition.plan)
        self._token = definition.token
        self._ask = ask
        self._handle = handle
        self._counters = counters
        self._random = random
        self._faults = faults
        self._complaints = Complaints(log)
        self._shown = f"{definition.plan.kind} {definition.plan.path}"

    async def run(self) -> None:
        retry_s = RETRY_S_MIN
        while True:
            soonest_s = trio.current_time() + INTERVAL_S_MIN
            try:
                news = await self._question()
                if news is not None:
                    await self._hand_over(news)
                retry_s = RETRY_S_MIN
                await trio.sleep_until(soonest_s)
            except Exception as error:
                self._counters.questions_failed += 1
                if isinstance(error, NotAnswered):
                    self._complaints.say("question", "watch of %s: not answered: %s", self._shown, error)
                else:
                    self._faults.dropped("watch", error)
                await trio.sleep(retry_s * self._random.uniform(0.8, 1.2))
                retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _question(self) -> News | None:
        plan = self._watcher.plan
        target = f"{quote(plan.path)}?{urlencode(self._watcher.query())}"
        request = Request(
            *("GET", target.encode()),
            headers=Headers(((b"x-consul-token", self._token.encode()),) if self._token else ()),
            body=b"",
            peer="unix",
            is_on_loopback=True,
            client=Inside(),
        )
        response = await self._ask(request)
        body = response.body.plain
        is_absent = response.status == NOT_FOUND and plan.is_of_keys
        if response.status != OK and not is_absent:
            raise NotAnswered(body[:SENTENCE_LENGTH_MAX].decode(errors="replace") or f"{response.status}")
        if _header(response, STALE) == JOINING:
            raise NotAnswered(HAS_MET_NOBODY)
        answer = None
        if not is_absent:
            is_long = len(body) > INLINE_BYTES_MAX
            answer = await trio.to_thread.run_sync(json.loads, body) if is_long else json.loads(body)
        return self._watcher.heard(_index(response), answer)

    async def _hand_over(self, news: News) -> None:
        said = json.dumps(news.data, separators=(",", ":")).encode() + b"\n"
        while True:
            try:
                await self._handle(news.index, said)
                self._counters.handled += 1
                return
            except HandlerFailed as problem:
                self._counters.handlers_failed += 1
                self._complaints.say("handler", "watch of %s: its handler failed: %s", self._shown, problem)
                return
            except (OSError, RuntimeError) as error:
                if not is_shortage_at_start(error):
                    raise
                self._complaints.say(
                    "shortage", "watch of %s: its handler is tried again: %s", self._shown, told(error)
                )
            await trio.sleep(RETRY_S_MAX)


def _index(response: Response) -> int:
    return max(int(_header(response, "X-Consul-Index") or 1), 1)


def _header(response: Response, wanted: str) -> str:
    return next((value for name, value in response.headers if name.lower() == wanted.lower()), "")
