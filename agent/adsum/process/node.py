"""The rim around the composite core: it performs effects, and keeps time for it. Nothing is decided here.

Every verb of the core is called from the one loop, and its effects are performed before anything else runs,
in their order: a result of a check, a finished write and a request of a client take turns, as they do in
simulation.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from adsum.agent.commands import (
    CheckRan,
    Command,
    CommandRefused,
    FolderLost,
    Message,
    NotPersisted,
    Persisted,
)
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.catalog.effects import Notify, RunCheck, StopCheck
from adsum.catalog.own_services import OwnServices
from adsum.catalog.view import View
from adsum.effects import LogLine, Persist, Refusal, Reply, Save, Severity
from adsum.logs.faults import Faults
from adsum.now import MILLISECOND, SECOND, Now
from adsum.process.watches import Watches
from adsum.storage.writer import DiskWriter

if TYPE_CHECKING:
    from adsum.agent.saved_catalog import SavedCopy
    from adsum.health_checks.runner import CheckResult, Runner
    from adsum.journal.journal import Journal
    from adsum.peers.keyrings import Keyrings
    from adsum.peers.outputs import Outputs
    from adsum.peers.owner_forwarding import OwnerForwarding
    from adsum.process.cluster_rim import ClusterRim

log = logging.getLogger("agent")

FAULTY_TICK_PAUSE_S = 1.0  # what was due may still be, and must not take all of the loop

LEVELS = {Severity.INFO: logging.INFO, Severity.WARN: logging.WARNING}


def monotonic_ns() -> int:
    """By a clock that goes on while the host is suspended, so that this is a pause like any other."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def system_now() -> Now:
    return Now(monotonic_ns(), time.time_ns() // MILLISECOND)


class _Pending:
    """A request that waits for its reply."""

    __slots__ = ("answered", "refusal")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.refusal: Refusal | None = None


class AgentRim:
    def __init__(self, core: AgentCore, clock: Callable[[], Now] = system_now) -> None:
        self.core = core
        self.faults = Faults()
        self.watches = Watches()
        self._clock = clock
        self._pending: dict[int, _Pending] = {}  # one for each request being answered
        self._requests = 0
        self._nap = trio.CancelScope()
        self._alarm_ns: int | None = None
        self._writer: DiskWriter | None = None
        self._runner: Runner | None = None
        self._cluster_rim: ClusterRim | None = None

    @property
    def view(self) -> View:
        return self.core.view

    @property
    def own(self) -> OwnServices:
        return self.core.own

    async def submit(self, command: Command) -> None:
        """Returns once the change is made and, where it must survive, on disk. Raises `CommandRefused`."""
        self._requests += 1
        request, pending = self._requests, _Pending()
        self._pending[request] = pending
        self.perform(self.core.command(self._clock(), request, command))
        try:
            await pending.answered.wait()
        finally:
            del self._pending[request]
        if pending.refusal is not None:
            raise CommandRefused(pending.refusal)

    def attach_writer(self, writer: DiskWriter) -> None:
        self._writer = writer

    def attach_runner(self, runner: Runner) -> None:
        """Until then no check runs: the core asks for none before its first tick."""
        self._runner = runner

    def start_gossip(self, cluster_rim: ClusterRim, copy: SavedCopy | None) -> None:
        """Until then nobody is heard, and the core asks nothing of the network."""
        self._cluster_rim = cluster_rim
        self.perform(self.core.start_gossip(self._clock(), cluster_rim.cluster))
        if copy is not None:
            for owner in copy.owners:
                self._recall(copy._replace(owners=(owner,)))

    def _recall(self, copy: SavedCopy) -> None:
        try:
            effects = self.core.recall(self._clock(), copy)
        except Exception as error:
            self.faults.dropped("saved", error)
        else:
            self.perform(effects)

    @property
    def journal(self) -> Journal:
        assert self._cluster_rim is not None, "nobody asks before the roll is called"
        return self._cluster_rim.journal

    @property
    def keyrings(self) -> Keyrings:
        assert self._cluster_rim is not None, "nobody asks before the roll is called"
        return self._cluster_rim.keyrings

    @property
    def owners(self) -> OwnerForwarding:
        assert self._cluster_rim is not None, "nobody asks before the roll is called"
        return self._cluster_rim.owners

    @property
    def outputs(self) -> Outputs:
        assert self._cluster_rim is not None, "nobody asks before the roll is called"
        return self._cluster_rim.outputs

    @property
    def unsaved_files(self) -> int:
        return self._writer.counters.unsaved if self._writer is not None else 0

    def now(self) -> Now:
        return self._clock()

    # What comes in from those who perform effects.

    def receive(self, message: Message) -> None:
        self.perform(self.core.receive(self._clock(), message))

    def written(self, ticket: int, refusal: str) -> None:
        self.receive(NotPersisted(ticket, refusal) if refusal else Persisted(ticket))

    def write_anew(self, found: tuple[str, ...]) -> None:
        """Everything that is kept in the data folder, which has lost it. `found`: registrations there."""
        self.receive(FolderLost(found))
        if self._cluster_rim is not None:
            self._cluster_rim.write_anew()

    def check_ran(self, check_id: str, run: int, result: CheckResult) -> None:
        self.receive(CheckRan(check_id, run, result.status, result.output))

    async def keep_time(self) -> None:
        while True:
            with trio.CancelScope() as self._nap:
                self._alarm_ns = None
                self._set_alarm()
                await trio.sleep_forever()
            try:
                self.perform(self.core.tick(self._clock()))
            except Exception as error:  # what others said may be what it stumbles over now
                self.faults.dropped("tick", error)
                await trio.sleep(FAULTY_TICK_PAUSE_S)

    # Effects.

    def perform(self, effects: list[Effect]) -> None:
        """One that fails, fails alone, for what it says may come from anywhere; but for the disk's, on which
        somebody relies."""
        for effect in effects:
            if isinstance(effect, Persist | Save):
                assert self._writer is not None
                self._writer.write(effect)
                continue
            try:
                self._perform(effect)
            except Exception as error:
                self.faults.dropped("effect", error)
        self._set_alarm()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case RunCheck(check_id, run, definition):
                assert self._runner is not None
                self._runner.start(check_id, run, definition)
            case StopCheck(check_id):
                assert self._runner is not None
                self._runner.stop(check_id)
            case Notify(topics):
                self.watches.notify(topics)
            case Reply(request, refusal):
                self._answer(request, refusal)
            case LogLine(severity, sentence):
                log.log(LEVELS[severity], sentence)
            case _:
                assert self._cluster_rim is not None
                self._cluster_rim.perform(effect)

    def _answer(self, request: int, refusal: Refusal | None) -> None:
        pending = self._pending.get(request)
        if pending is not None:  # else whoever asked has hung up
            pending.refusal = refusal
            pending.answered.set()

    def _set_alarm(self) -> None:
        alarm_ns = self.core.deadline()
        if alarm_ns == self._alarm_ns:
            return
        self._alarm_ns = alarm_ns
        if alarm_ns is None:
            self._nap.deadline = math.inf
        else:
            self._nap.deadline = trio.current_time() + (alarm_ns - self._clock().monotonic_ns) / SECOND
