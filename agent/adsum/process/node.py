"""The rim around the composite core: it keeps time for it, and has its effects carried out in their order.
Nothing is decided here.

Every verb of the core is called from the one loop, and its effects are performed before anything else runs: a
result of a check, a finished write and a request of a client take turns, as they do in simulation. Wake-ups,
replies and lines of the log are performed here; all else is handed to `carry_out`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import cast

import trio

from adsum.agent.commands import CheckRan, CommandRefused, Message, NotPersisted, Persisted
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.saved_catalog import SavedCopy
from adsum.effects import AnsweredWith, LogLine, Notify, Persist, Reply, Save, Severity, Value
from adsum.health_checks.runner import CheckResult
from adsum.logs.faults import Faults
from adsum.now import SECOND, Now
from adsum.process.system_clock import system_now
from adsum.process.watches import Watches

log = logging.getLogger("agent")

FAULTY_TICK_PAUSE_S = 1.0  # what was due may still be, and must not take all of the loop

LEVELS = {Severity.INFO: logging.INFO, Severity.WARN: logging.WARNING, Severity.ERROR: logging.ERROR}


class _Pending:
    """A request that waits for its reply."""

    __slots__ = ("answered", "reply")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.reply: Reply | None = None


class AgentRim:
    def __init__(
        self,
        core: AgentCore,
        carry_out: Callable[[Effect], None],
        faults: Faults,
    ) -> None:
        self.core = core
        self.faults = faults
        self.watches = Watches()
        self._carry_out = carry_out
        self._pending: dict[int, _Pending] = {}  # one for each request being answered
        self._requests = 0
        self._nap = trio.CancelScope()
        self._alarm_ns: int | None = None

    def start(self, copy: SavedCopy | None) -> None:
        """With what was saved of others. One of them that cannot be recalled is left out alone."""
        self.perform(self.core.start(self.now()))
        alone = [copy._replace(owners=(owner,)) for owner in copy.owners] if copy is not None else []
        for each in alone:
            try:
                effects = self.core.recall(self.now(), each)
            except Exception as error:
                self.faults.dropped("saved", error)
            else:
                self.perform(effects)

    async def submit(self, command: AnsweredWith[Value]) -> Value:
        """As `Submit` says."""
        self._requests += 1
        request, pending = self._requests, _Pending()
        self._pending[request] = pending
        self.perform(self.core.command(self.now(), request, command))
        try:
            await pending.answered.wait()
        finally:
            del self._pending[request]
        assert pending.reply is not None
        if pending.reply.refusal is not None:
            raise CommandRefused(pending.reply.refusal)
        return cast("Value", pending.reply.value)  # as `adsum.effects.answer` has made sure

    def now(self) -> Now:
        return system_now()

    # What comes in from those who carry effects out.

    def receive(self, message: Message) -> None:
        self.perform(self.core.receive(self.now(), message))

    def written(self, ticket: int, refusal: str) -> None:
        self.receive(NotPersisted(ticket, refusal) if refusal else Persisted(ticket))

    def check_ran(self, check_id: str, run: int, result: CheckResult) -> None:
        self.receive(CheckRan(check_id, run, result.status, result.output))

    async def keep_time(self) -> None:
        while True:
            with trio.CancelScope() as self._nap:
                self._alarm_ns = None
                self._set_alarm()
                await trio.sleep_forever()
            try:
                self.perform(self.core.tick(self.now()))
            except Exception as error:  # what others said may be what it stumbles over now
                self.faults.dropped("tick", error)
                await trio.sleep(FAULTY_TICK_PAUSE_S)

    # Effects.

    def perform(self, effects: list[Effect]) -> None:
        """One that fails, fails alone, for what it says may come from anywhere; but for the disk's, on which
        somebody relies."""
        for effect in effects:
            if isinstance(effect, Persist | Save):
                self._carry_out(effect)
                continue
            try:
                self._perform(effect)
            except Exception as error:
                self.faults.dropped("effect", error)
        self._set_alarm()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Notify(topics):
                self.watches.notify(topics)
            case Reply(request):
                pending = self._pending.get(request)
                if pending is not None:  # else whoever asked has hung up
                    pending.reply = effect
                    pending.answered.set()
            case LogLine(severity, sentence):
                log.log(LEVELS[severity], sentence)
            case _:
                self._carry_out(effect)

    def _set_alarm(self) -> None:
        alarm_ns = self.core.deadline()
        if alarm_ns == self._alarm_ns:
            return
        self._alarm_ns = alarm_ns
        if alarm_ns is None:
            self._nap.deadline = math.inf
        else:
            self._nap.deadline = trio.current_time() + (alarm_ns - self.now().monotonic_ns) / SECOND
