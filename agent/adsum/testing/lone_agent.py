"""One agent alone in its world, driven to wherever a test wants it.

What happened is in `trace`, one line an effect, for scenarios and for comparing two runs of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adsum.address import Address
from adsum.agent.commands import Message
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.presence import uuid_bytes
from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckDefinition
from adsum.catalog.effects import RunCheck, StopCheck
from adsum.effects import AnyCommand, FileChange, LogLine, Notify, Persist, Refusal, Reply, Save
from adsum.gossip.claims import Profile
from adsum.now import MINUTE
from adsum.testing.cluster import AgentCluster
from adsum.testing.hosts import SimulatedHost
from adsum.testing.world import PORT
from adsum.topics import Topic


class LoneAgent:
    def __init__(self, settings: AgentSettings, *, seed: int = 0) -> None:
        self.replies: dict[int, Refusal | None] = {}
        self.world = _WorldOfOne(settings, seed)
        self.trace, self.notified, self.outcomes = self.world.trace, self.world.notified, self.world.outcomes
        self.disk = self.world.hosts[0].disk
        self.run_for = self.world.run_for
        self.world.start(0)

    @property
    def core(self) -> AgentCore:
        return self.world.agent(0).core

    def command(self, command: AnyCommand) -> int:
        """Gives a command and goes on at once; the number finds its reply in `replies`."""
        return self.world.submit(self.world.hosts[0], command, self._note)

    def receive(self, message: Message) -> None:
        """Something comes in that no effect asked for."""
        self.world.tell(self.world.hosts[0], message)

    def ask(self, command: AnyCommand) -> Refusal | None:
        """Gives a command and lets time pass until it is answered."""
        request = self.command(command)
        is_answered = self.world.run_until_so(lambda: request in self.replies, within_ns=MINUTE)
        assert is_answered, "a command was never answered"
        return self.replies[request]

    def crash(self, *, loses_power: bool = False) -> None:
        """The process ends between two effects and starts again; runs and writes in flight are gone."""
        self.world.kill(0)
        if loses_power:
            self.disk.lose_power()
        self.trace.append("crash, power lost" if loses_power else "crash")
        self.world.start(0)

    def _note(self, reply: Reply) -> None:
        self.replies[reply.request] = reply.refusal


class _WorldOfOne(AgentCluster):
    def __init__(self, settings: AgentSettings, seed: int) -> None:
        super().__init__(1, seed=seed)
        self.trace: list[str] = []
        self.notified: list[Topic] = []
        self._agent_settings = settings
        node, (host,) = settings.node, self.hosts
        host.profile = Profile(uuid_bytes(node.node_id), node.name, Address(node.address, PORT))

    def _settings_of(self, _host: SimulatedHost) -> AgentSettings:
        return self._agent_settings

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        for effect in effects:
            self.trace.append(f"{self.now_ns / 1e9:.6f} {_told(effect)}")
            if isinstance(effect, Notify):
                self.notified.extend(effect.topics)
        super()._do(host, effects)


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
