"""The rim around the composite core: it keeps time for it, and has its effects carried out in their order.
Nothing is decided here: for each type of effect there is one function in `performers`.

Every verb of the core is called from the one loop, and its effects are performed before anything else runs: a
result of a check, a finished write and a request of a client take turns, as they do in simulation. Wake-ups,
replies and lines of the log are performed here; whoever makes the agent adds the others.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any, cast

import trio

from adsum.agent.commands import CommandRefused, Message
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.saved_catalog import SavedCopy
from adsum.effects import AnsweredWith, LogLine, Notify, Persist, Reply, Save, Severity, Value
from adsum.logs.faults import Faults
from adsum.now import SECOND, Now
from adsum.process.alarm import Alarm
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
        faults: Faults,
    ) -> None:
        self.core = core
        self.faults = faults
        self.watches = Watches()
        self.performers: dict[type, Callable[[Any], None]] = {
            Notify: self.watches.notify,
            Reply: self._reply,
            LogLine: _log,
        }
        self._pending: dict[int, _Pending] = {}  # one for each request being answered
        self._requests = 0
        self._alarm = Alarm()
        self._alarm_ns: int | None = None

    def start(self, copy: SavedCopy | None) -> None:
        """With what was saved of others. One of them that cannot be recalled is left out alone."""
        self.perform(self.core.start(self.now()))
        alone = [copy._replace(owners=(owner,), store=()) for owner in copy.owners] if copy else []
        for each in (*alone, *([copy._replace(owners=())] if copy and copy.store else [])):
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

    async def keep_time(self) -> None:
        self._set_alarm()
        while True:
            await self._alarm.rings()
            try:
                self.perform(self.core.tick(self.now()))
            except Exception as error:  # what others said may be what it stumbles over now
                self.faults.dropped("tick", error)
                await trio.sleep(FAULTY_TICK_PAUSE_S)

    # Effects.

    def perform(self, effects: list[Effect]) -> None:
        """One that fails, fails alone, for what it says may come from anywhere; but for the disk's, on which
        somebody relies."""
        performers = self.performers
        for effect in effects:
            try:
                performers[type(effect)](effect)
            except Exception as error:
                if isinstance(effect, Persist | Save):
                    raise
                self.faults.dropped("effect", error)
        self._set_alarm()

    def _reply(self, reply: Reply) -> None:
        pending = self._pending.get(reply.request)
        if pending is not None:  # else whoever asked has hung up
            pending.reply = reply
            pending.answered.set()

    def _set_alarm(self) -> None:
        alarm_ns = self.core.deadline()
        if alarm_ns == self._alarm_ns:
            return
        self._alarm_ns = alarm_ns
        if alarm_ns is None:
            self._alarm.set(math.inf)
        else:
            self._alarm.set(trio.current_time() + (alarm_ns - self.now().monotonic_ns) / SECOND)


def _log(line: LogLine) -> None:
    log.log(LEVELS[line.severity], line.sentence)
