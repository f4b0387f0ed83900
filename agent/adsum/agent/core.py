"""The composite core: everything one agent decides, behind four verbs and without I/O.

    command(now, request, command)   somebody asks        -> effects, among them or later one Reply(request)
    receive(now, message)            something came in    -> effects
    tick(now)                        a deadline passed    -> effects
    deadline()                       when it wants the next tick, in monotonic nanoseconds

Reads do not come here: DNS, health and catalog answers are taken straight from `view`, own state from `own`.
Its parts are the catalog's view, this agent's own services and checks, and the roll, which is called once DNS
answers from what was saved. Consensus and the store will stand beside them behind the same verbs; the order
of effects is decided here, so it is simulated.

A change is visible at once and acknowledged when it is on disk: of the effects of one verb, runs and wake-ups
come first, then `Persist`, and the `Reply` follows from `receive(Persisted)`.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from adsum.agent.commands import (
    CheckRan,
    Command,
    DeregisterCheck,
    DeregisterService,
    Message,
    OverrideTags,
    OwnCommand,
    Persisted,
    RegisterCheck,
    RegisterService,
    Reload,
    ReportTtl,
    SetNodeMaintenance,
    SetServiceMaintenance,
)
from adsum.agent.registry import Registry
from adsum.agent.settings import Settings
from adsum.catalog.definitions import CheckKind, Status
from adsum.catalog.local import Local, LocalSettings
from adsum.catalog.published import Published
from adsum.catalog.saved import (
    TTL_STATES,
    Saved,
    TtlState,
    encode_ttl_states,
)
from adsum.catalog.view import View
from adsum.effects import (
    Cause,
    Effect,
    FileChange,
    Log,
    Notify,
    Persist,
    Refusal,
    Reply,
    Severity,
    WriteFile,
)
from adsum.now import MILLISECOND, SECOND, Now
from adsum.timers import Timers

if TYPE_CHECKING:  # comes later, see `call_roll`
    from adsum.agent.commands import RollCommand
    from adsum.agent.roll import Roll
    from adsum.agent.warm import SavedCopy

# Commands that wait for the disk. Past it new ones are refused: their callers can try again, memory cannot.
WAITING_MAX = 10_000
# TTL states are worth a file a second at most: they only bridge a restart.
TTL_SAVE_NS = 1 * SECOND


class Chore(enum.Enum):
    SAVE_TTL_STATES = "save TTL states"


@dataclass(slots=True)
class CoreCounters:
    refusals: int = 0
    deregistered_critical: int = 0


class Core:
    def __init__(self, now: Now, settings: Settings, random: Random) -> None:
        self.settings = settings
        self.counters = CoreCounters()
        self.view = View(now, tag=zlib.crc32(settings.node.node_id.encode()) & 0xFF)
        node = settings.node
        self.published = Published(self.view, node.node_id, node.name)
        self.own = Local(self.published, _local_settings(settings), random)
        self.roll: Roll | None = None
        self._registry = Registry(self.own)
        self._logs: list[Log] = []
        self._chores: Timers[Chore] = Timers()
        self._ttl_changes_saved = 0
        self._tickets = 0
        self._on_its_way: dict[int, list[int]] = {}  # tickets of the disk -> the requests that wait for them
        self._waiting = 0
        self._settled_index = 0

    # The four verbs, and the start.

    def start(self, now: Now, saved: Saved) -> list[Effect]:
        """This node answers the roll; then what clients registered before, then what files define."""
        self.published.put_node(now, self.settings.node)
        self.view.set_presence(now, self.settings.node.name, is_present=True)
        if self.settings.server is not None:
            self.published.put_service(now, self.settings.server)
        self._registry.restore(now, saved)
        self._registry.define(now, self.settings.services, self.settings.checks)
        for state in saved.ttl_states:
            left_ns = (state.expires_wall_ms - now.wall_ms) * MILLISECOND
            if left_ns > 0:
                self.own.restore_ttl(now, state.check_id, state.status, state.output, left_ns)
        return self._settled(now)

    def call_roll(self, now: Now, roll: Roll) -> list[Effect]:
        """From here on others are heard, and hear of us."""
        self.roll = roll
        return self._settled(now)

    def recall(self, now: Now, copy: SavedCopy) -> list[Effect]:
        """What the agent knew of others before it was started again, all of it or a part."""
        assert self.roll is not None, "the roll is called before"
        self.roll.restore(now, copy)
        return self._settled(now)

    def command(self, now: Now, request: int, command: Command) -> list[Effect]:
        if not isinstance(command, OwnCommand):
            return self._command_roll(now, request, command)
        refusal = self._too_busy() or self._obey(now, command)
        effects = self._settled(now)
        if refusal is not None:
            self.counters.refusals += 1
        elif self._on_its_way and not isinstance(command, ReportTtl):
            # Also with nothing of its own to write: what it found done may have been done a moment ago, and
            # not be on disk yet.
            last_ticket = next(reversed(self._on_its_way))
            self._on_its_way[last_ticket].append(request)
            self._waiting += 1
            return effects
        return [*effects, Reply(request, refusal)]

    def receive(self, now: Now, message: Message) -> list[Effect]:
        match message:
            case Persisted(ticket):
                requests = self._on_its_way.pop(ticket, [])
                self._waiting -= len(requests)
                return [Reply(request, None) for request in requests]
            case CheckRan(check_id, run, status, output):
                self.own.ran(now, check_id, run, status, output)
            case _:
                assert self.roll is not None, "nobody is heard before the roll is called"
                return self._with_news(now, self.roll.receive(now, message))
        return self._settled(now)

    def tick(self, now: Now) -> list[Effect]:
        called = self.roll.tick(now) if self.roll is not None else []
        for service_id in self.own.tick(now):
            self.counters.deregistered_critical += 1
            self._logs.append(Log(Severity.WARN, f"a service was critical for too long: id={service_id}"))
            self._registry.deregister_service(now, service_id)
        saves = [self._save_ttl_states() for _chore in self._chores.take_due(now.monotonic_ns)]
        files = self.roll.take_files(now) if self.roll is not None else ()
        if files:
            saves.append(self._persist(files, is_synced=False))
        return [*called, *self._settled(now), *saves]

    def stop(self, now: Now) -> list[Effect]:
        """An orderly end is near: what would be saved a moment later is saved now."""
        saves = [self._save_ttl_states()] if Chore.SAVE_TTL_STATES in self._chores else []
        files = self.roll.last_files(now) if self.roll is not None else ()
        if files:
            saves.append(self._persist(files, is_synced=False))
        return [*saves]

    def deadline(self) -> int | None:
        roll_ns = self.roll.deadline() if self.roll is not None else None
        deadlines = (self.own.deadline(), self._chores.earliest(), roll_ns)
        return min((each for each in deadlines if each is not None), default=None)

    # Commands: each makes its whole change, or refuses with nothing changed.

    def _obey(self, now: Now, command: Command) -> Refusal | None:
        registry = self._registry
        match command:
            case RegisterService(definition, replace_existing_checks):
                return registry.register_service(now, definition, replaces=replace_existing_checks)
            case DeregisterService(service_id):
                registry.deregister_service(now, service_id)
            case RegisterCheck(definition):
                return registry.register_check(now, definition)
            case DeregisterCheck(check_id):
                registry.deregister_check(now, check_id)
            case ReportTtl(check_id, status, output):
                return self._report_ttl(now, check_id, status, output)
            case SetNodeMaintenance(is_enabled, reason):
                return registry.maintain_node(now, reason, is_enabled=is_enabled)
            case SetServiceMaintenance(service_id, is_enabled, reason):
                return registry.maintain_service(now, service_id, reason, is_enabled=is_enabled)
            case OverrideTags(service_id, tags):
                return registry.override_tags(now, service_id, tags)
            case Reload(settings):
                return self._reload(now, settings)
        return None

    def _too_busy(self) -> Refusal | None:
        if self._waiting < WAITING_MAX:
            return None
        return Refusal(Cause.FAILED, "Too many registrations are waiting for the disk; try again shortly")

    def _report_ttl(self, now: Now, check_id: str, status: Status, output: str) -> Refusal | None:
        check = self.own.checks.get(check_id)
        if check is None:
            sentence = (
                f'Unknown check ID "{check_id}". Ensure that the check ID is passed, not the check name.'
            )
            return Refusal(Cause.UNKNOWN, sentence)
        if check.kind is not CheckKind.TTL:
            return Refusal(Cause.FAILED, f'CheckID "{check_id}" does not have associated TTL')
        self.own.report_ttl(now, check_id, status, output)
        return None

    def _reload(self, now: Now, settings: Settings) -> Refusal | None:
        refusal = self._registry.objection(settings.services, settings.checks)
        if refusal is not None:
            return refusal
        self.settings = settings
        self.own.settings = _local_settings(settings)
        self.published.put_node(now, settings.node)
        self._registry.define(now, settings.services, settings.checks)
        self.own.publish_all(now)
        return None

    # The roll.

    def _command_roll(self, now: Now, request: int, command: RollCommand) -> list[Effect]:
        if self.roll is None:
            return [Reply(request, Refusal(Cause.FAILED, "The agent is starting; try again shortly"))]
        return self._with_news(now, self.roll.command(now, request, command))

    def _with_news(self, now: Now, effects: list[Effect]) -> list[Effect]:
        """Most datagrams change nothing that anybody could see; they cost no more than that."""
        assert self.roll is not None
        if self.view.index == self._settled_index and not self.roll.has_changes:
            return effects
        return [*effects, *self._settled(now)]

    # Effects.

    def _settled(self, now: Now) -> list[Effect]:
        """After a change: what checks must do, who must wake, and last what must be on disk."""
        shared = self.roll.share(now) if self.roll is not None else []
        moved = self.own.refresh_aliases(now, self.view.changes())
        if self.roll is not None:
            shared += self.roll.share(now)  # what aliases repeat is published as well
        self._settled_index = self.view.index
        effects: list[Effect] = [*self._logs, *self._registry.take_logs(), *self.own.take_effects(), *shared]
        self._logs.clear()
        if moved:
            effects.append(Notify(moved))
        has_news = self.own.ttl_changes != self._ttl_changes_saved
        if has_news and self.settings.is_persistent and Chore.SAVE_TTL_STATES not in self._chores:
            self._chores.set(Chore.SAVE_TTL_STATES, now.monotonic_ns + TTL_SAVE_NS)
        called = self.roll.take_changes() if self.roll is not None else ()
        changes = (*self._registry.take_changes(), *called)
        if changes and self.settings.is_persistent:
            effects.append(self._persist(changes, is_synced=True))
        return effects

    def _save_ttl_states(self) -> Persist:
        self._ttl_changes_saved = self.own.ttl_changes
        states = [
            TtlState(check_id, check.status, check.output, check.expires_at.wall_ms)
            for check_id, check in self.own.checks.items()
            if check.expires_at is not None
        ]
        return self._persist((WriteFile(TTL_STATES, encode_ttl_states(states)),), is_synced=False)

    def _persist(self, changes: tuple[FileChange, ...], *, is_synced: bool) -> Persist:
        self._tickets += 1
        if is_synced:
            self._on_its_way[self._tickets] = []
        return Persist(self._tickets, changes, is_synced)


def _local_settings(settings: Settings) -> LocalSettings:
    return LocalSettings(
        node_name=settings.node.name,
        check_update_interval_ns=settings.check_update_interval_ns,
        discard_check_output=settings.discard_check_output,
    )
