"""One agent's shipped core, alone, on a simulated clock and disk, driven to wherever a test wants it.

The world performs effects as `process.running` does, from one seed: runs of checks answer what the test
scripted, and disk writes take a while, so that a crash can fall between a change and its acknowledgement.
What happened is in `trace`, one line an effect, for scenarios and for comparing two runs of one seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

from adsum.address import Address
from adsum.agent.client_agent import client_agent
from adsum.agent.commands import CheckRan, Command, Message, NotPersisted, Persisted
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.presence import uuid_bytes
from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.effects import RunCheck, StopCheck
from adsum.effects import FileChange, LogLine, Notify, Persist, Refusal, Reply, Save
from adsum.gossip.claims import Profile
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.logs.system_errors import told
from adsum.now import MILLISECOND, SECOND
from adsum.storage import registrations
from adsum.storage.owed import Owed
from adsum.storage.writer import ROUND_S
from adsum.testing.clock import SimulatedClock
from adsum.testing.disk import SimulatedDisk
from adsum.topics import Topic

Outcome = tuple[CheckStatus, str]

DISK_NS_MIN, DISK_NS_MAX = MILLISECOND // 10, 5 * MILLISECOND
RUN_NS_MIN, RUN_NS_MAX = MILLISECOND, 50 * MILLISECOND


class LoneAgent:
    def __init__(self, settings: AgentSettings, *, seed: int = 0, disk: SimulatedDisk | None = None) -> None:
        self.random = Random(seed)
        self.clock = SimulatedClock()
        self.disk = disk or SimulatedDisk()
        self.outcomes: dict[str, Callable[[], Outcome]] = {}  # by check id; what its next run says
        self.replies: dict[int, Refusal | None] = {}
        self.notified: list[Topic] = []
        self.trace: list[str] = []
        self._settings = settings
        self._requests = 0
        self._sequence = 0
        self._arrivals: list[tuple[int, int, Effect, Message | None]] = []
        self._round_ns = ROUND_S * SECOND
        self.core = self._boot()

    def command(self, command: Command) -> int:
        """Gives a command and goes on at once; the number finds its reply in `replies`."""
        self._requests += 1
        self._perform(self.core.command(self.clock.now(), self._requests, command))
        return self._requests

    def receive(self, message: Message) -> None:
        """Something comes in that no effect asked for."""
        self._perform(self.core.receive(self.clock.now(), message))

    def ask(self, command: Command) -> Refusal | None:
        """Gives a command and lets time pass until it is answered."""
        request = self.command(command)
        while request not in self.replies:
            assert self._step(), "a command was never answered"
        return self.replies[request]

    def run_for(self, duration_ns: int) -> None:
        end_ns = self.clock.now().monotonic_ns + duration_ns
        while (next_ns := self._next_ns()) is not None and next_ns <= end_ns:
            self._step()
        self.clock.advance_to(end_ns)

    def crash(self, *, loses_power: bool = False) -> None:
        """The process ends between two effects and starts again; runs and writes in flight are gone."""
        self._arrivals.clear()
        if loses_power:
            self.disk.lose_power()
        self.trace.append("crash, power lost" if loses_power else "crash")
        self.core = self._boot()

    # The loop.

    def _boot(self) -> AgentCore:
        self.owed = Owed(self.disk)
        now, node, random = self.clock.now(), self._settings.node, Random(self.random.getrandbits(64))
        local = LocalCatalog(now, self._settings, random)
        local.restore(now, registrations.load(self.disk))
        profile = Profile(uuid_bytes(node.node_id), node.name, Address(node.address, 8301))
        identity = MemberIdentity(profile, generation=now.wall_ms)
        core = client_agent(now, local, identity, GossipSettings(), random)
        self._perform(core.start(now))
        return core

    def _next_ns(self) -> int | None:
        pending = [self._arrivals[0][0]] if self._arrivals else []
        if self.owed:
            pending.append(max(self._round_ns, self.clock.now().monotonic_ns))
        deadline_ns = self.core.deadline()
        if deadline_ns is not None:
            pending.append(max(deadline_ns, self.clock.now().monotonic_ns))
        return min(pending, default=None)

    def _step(self) -> bool:
        next_ns = self._next_ns()
        if next_ns is None:
            return False
        self.clock.advance_to(next_ns)
        if self._arrivals and self._arrivals[0][0] <= next_ns:
            _due_ns, _sequence, effect, message = heapq.heappop(self._arrivals)
            message = self._finished(effect, message)
            if message is not None:
                self._perform(self.core.receive(self.clock.now(), message))
        elif self.owed and self._round_ns <= next_ns:
            self.owed.retry()
            self._round_ns = next_ns + ROUND_S * SECOND
        else:
            self._perform(self.core.tick(self.clock.now()))
        return True

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.trace.append(f"{self.clock.now().monotonic_ns / 1e9:.6f} {_told(effect)}")
            match effect:
                case Persist() | Save():
                    self._arrive(effect, None, DISK_NS_MIN, DISK_NS_MAX)
                case RunCheck(check_id, run):
                    status, output = self._outcome(check_id)
                    ran = CheckRan(check_id, run, status, output)
                    self._arrive(effect, ran, RUN_NS_MIN, RUN_NS_MAX)
                case StopCheck(check_id):
                    self._stop(check_id)
                case Reply(request, refusal):
                    self.replies[request] = refusal
                case Notify(topics):
                    self.notified.extend(topics)

    def _arrive(self, effect: Effect, message: Message | None, ns_min: int, ns_max: int) -> None:
        self._sequence += 1
        due_ns = self.clock.now().monotonic_ns + self.random.randrange(ns_min, ns_max)
        if isinstance(effect, Persist | Save):  # one writer: writes end in the order they were asked for
            waiting = [due for due, _n, pending, _m in self._arrivals if isinstance(pending, Persist | Save)]
            due_ns = max([due_ns, *waiting])
        heapq.heappush(self._arrivals, (due_ns, self._sequence, effect, message))

    def _finished(self, effect: Effect, message: Message | None) -> Message | None:
        match effect:
            case Persist(ticket):
                problem = self.owed.persist(effect)
                return Persisted(ticket) if problem is None else NotPersisted(ticket, told(problem))
            case Save():
                self.owed.save(effect)
        return message

    def _outcome(self, check_id: str) -> Outcome:
        return self.outcomes.get(check_id, lambda: (CheckStatus.PASSING, "fine"))()

    def _stop(self, check_id: str) -> None:
        self._arrivals = [
            arrival
            for arrival in self._arrivals
            if not (isinstance(arrival[2], RunCheck) and arrival[2].check_id == check_id)
        ]
        heapq.heapify(self._arrivals)


def _told(effect: Effect) -> str:
    match effect:
        case Persist(ticket, changes):
            return f"persist {ticket} {_paths(changes)}"
        case Save(changes, is_synced):
            return f"save {'synced' if is_synced else 'unsynced'} {_paths(changes)}"
        case RunCheck(check_id, run, CheckDefinition()):
            return f"run {check_id} {run}"
        case StopCheck(check_id):
            return f"stop {check_id}"
        case Reply(request, refusal):
            return f"reply {request} {refusal.sentence if refusal else 'done'}"
        case Notify(topics):
            return "notify " + " ".join(f"{family}:{name}" for family, name in topics)
        case LogLine(severity, sentence):
            return f"log {severity.value} {sentence}"
        case _:
            return f"roll {type(effect).__name__}"


def _paths(changes: tuple[FileChange, ...]) -> str:
    return " ".join(change.path for change in changes)
