"""The composite core: everything one agent decides, behind four verbs and without I/O.

    command(now, request, command)   somebody asks        -> effects, among them or later one Reply(request)
    receive(now, message)            something came in    -> effects
    tick(now)                        a deadline passed    -> effects
    deadline()                       when it wants the next tick, in monotonic nanoseconds

Reads do not come here: DNS, health and catalog answers are taken straight from `view`, own state from `own`.
Today its parts are the catalog's view and this agent's own services and checks. The roll, consensus and the
store will stand beside them behind the same verbs; the order of effects is decided here, so it is simulated.

A change is visible at once and acknowledged when it is on disk: of the effects of one verb, runs and wake-ups
come first, then `Persist`, and the `Reply` follows from `receive(Persisted)`.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass
from random import Random

from adsum.agent.commands import (
    CheckRan,
    Command,
    DeregisterCheck,
    DeregisterService,
    Message,
    Persisted,
    RegisterCheck,
    RegisterService,
    Reload,
    ReportTtl,
    SetNodeMaintenance,
    SetServiceMaintenance,
)
from adsum.agent.settings import Settings
from adsum.catalog.definitions import CheckDefinition, CheckKind, ServiceDefinition, Status
from adsum.catalog.local import Local, LocalSettings, Source
from adsum.catalog.model import NODE_MAINTENANCE, SERVICE_MAINTENANCE
from adsum.catalog.saved import (
    TTL_STATES,
    Saved,
    TtlState,
    check_path,
    encode_check,
    encode_service,
    encode_ttl_states,
    service_path,
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
    RemoveFile,
    Reply,
    Severity,
    WriteFile,
)
from adsum.now import MILLISECOND, SECOND, Now
from adsum.timers import Timers

# Commands that wait for the disk. Past it new ones are refused: their callers can try again, memory cannot.
WAITING_MAX = 10_000
# One agent looks after one host. Ten times what the busiest are known to hold, and some 200 MB of memory.
SERVICES_MAX = 50_000
CHECKS_MAX = 100_000
# A registration travels to every host, whole (ARCHITECTURE 6).
ITEM_BYTES_MAX = 64 * 1024
# TTL states are worth a file a second at most: they only bridge a restart.
TTL_SAVE_NS = 1 * SECOND

NO_REASON_NODE = "This node is in maintenance; whoever enabled it gave no reason."
NO_REASON_SERVICE = "This service is in maintenance; whoever enabled it gave no reason."


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
        self.own = Local(self.view, _local_settings(settings), random)
        self._chores: Timers[Chore] = Timers()
        self._ttl_changes_saved = 0
        self._changes: list[FileChange] = []
        self._logs: list[Effect] = []
        self._tickets = 0
        self._on_its_way: dict[
            int, list[int]
        ] = {}  # tickets of the disk, with the requests that wait for them
        self._waiting = 0

    # The four verbs, and the start.

    def start(self, now: Now, saved: Saved) -> list[Effect]:
        """This node answers the roll; then what clients registered before, then what files define."""
        self.view.put_node(now, self.settings.node.node_id, self.settings.node)
        self.view.set_presence(now, self.settings.node.name, is_present=True)
        if self.settings.server is not None:
            self.view.put_service(now, self.settings.node.name, self.settings.server)
        self._restore(now, saved)
        self._define(now, self.settings)
        for state in saved.ttl_states:
            left_ns = (state.expires_wall_ms - now.wall_ms) * MILLISECOND
            if left_ns > 0:
                self.own.restore_ttl(now, state.check_id, state.status, state.output, left_ns)
        return self._settled(now)

    def command(self, now: Now, request: int, command: Command) -> list[Effect]:
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
        return self._settled(now)

    def tick(self, now: Now) -> list[Effect]:
        for service_id in self.own.tick(now):
            self.counters.deregistered_critical += 1
            self._logs.append(Log(Severity.WARN, f"a service was critical for too long: id={service_id}"))
            self._deregister_service(now, service_id)
        saves = [self._save_ttl_states() for _chore in self._chores.take_due(now.monotonic_ns)]
        return [*self._settled(now), *saves]

    def stop(self) -> list[Effect]:
        """An orderly end is near: what would be saved a moment later is saved now."""
        return [self._save_ttl_states()] if Chore.SAVE_TTL_STATES in self._chores else []

    def deadline(self) -> int | None:
        deadlines = [each for each in (self.own.deadline(), self._chores.earliest()) if each is not None]
        return min(deadlines, default=None)

    # Commands: each makes its whole change, or refuses with nothing changed.

    def _obey(self, now: Now, command: Command) -> Refusal | None:
        match command:
            case RegisterService(definition, replace_existing_checks):
                return self._register_service(now, definition, replaces=replace_existing_checks)
            case DeregisterService(service_id):
                self._deregister_service(now, service_id)
            case RegisterCheck(definition):
                return self._register_check(now, definition)
            case DeregisterCheck(check_id):
                self._deregister_check(now, check_id)
            case ReportTtl(check_id, status, output):
                return self._report_ttl(now, check_id, status, output)
            case SetNodeMaintenance(is_enabled, reason):
                definition = _maintenance(NODE_MAINTENANCE, "Node", reason or NO_REASON_NODE)
                self._maintain(now, definition, is_enabled=is_enabled)
            case SetServiceMaintenance():
                return self._maintain_service(now, command)
            case Reload(settings):
                self._reload(now, settings)
        return None

    def _too_busy(self) -> Refusal | None:
        if self._waiting < WAITING_MAX:
            return None
        return Refusal(Cause.FAILED, "Too many registrations are waiting for the disk; try again shortly")

    def _register_service(self, now: Now, definition: ServiceDefinition, *, replaces: bool) -> Refusal | None:
        content = encode_service(definition)
        contents = [encode_check(check) for check in definition.checks]
        refusal = self._too_large(content, *contents) or self._too_many(definition)
        if refusal is not None:
            return refusal
        known = self.own.services.get(definition.service_id)
        if known is None or known.definition != definition:
            self._tell("registered", definition)
        self.own.put_service(now, definition, Source.API)
        self._changes.append(WriteFile(service_path(definition.service_id), content))
        for check, check_content in zip(definition.checks, contents, strict=True):
            self._put_check(now, check, check_content)
        if replaces:
            kept = {check.check_id for check in definition.checks}
            for own in self.own.checks_of(definition.service_id):
                if own.definition.check_id not in kept and own.kind is not CheckKind.MAINTENANCE:
                    self._deregister_check(now, own.definition.check_id)
        return None

    def _deregister_service(self, now: Now, service_id: str) -> None:
        """An unknown one is as gone as its caller wants it: registrators deregister blindly."""
        if service_id not in self.own.services:
            return
        self._tell("deregistered", self.own.services[service_id].definition)
        for check in self.own.checks_of(service_id):
            self._changes.append(RemoveFile(check_path(check.definition.check_id)))
        self._changes.append(RemoveFile(service_path(service_id)))
        self.own.remove_service(now, service_id)

    def _register_check(self, now: Now, definition: CheckDefinition) -> Refusal | None:
        if definition.service_id and definition.service_id not in self.own.services:
            return Refusal(Cause.FAILED, f'ServiceID "{definition.service_id}" does not exist')
        content = encode_check(definition)
        refusal = self._too_large(content)
        if (
            refusal is None
            and definition.check_id not in self.own.checks
            and len(self.own.checks) >= CHECKS_MAX
        ):
            refusal = _full("checks", CHECKS_MAX)
        if refusal is None:
            self._put_check(now, definition, content)
        return refusal

    def _put_check(self, now: Now, definition: CheckDefinition, content: bytes) -> None:
        self.own.put_check(now, definition, Source.API)
        self._changes.append(WriteFile(check_path(definition.check_id), content))

    def _too_large(self, *contents: bytes) -> Refusal | None:
        size = max(map(len, contents))
        if size <= ITEM_BYTES_MAX:
            return None
        sentence = f"The registration is too large: {size} bytes, of which {ITEM_BYTES_MAX} are possible"
        return Refusal(Cause.INVALID, sentence)

    def _too_many(self, definition: ServiceDefinition) -> Refusal | None:
        if definition.service_id not in self.own.services and len(self.own.services) >= SERVICES_MAX:
            return _full("services", SERVICES_MAX)
        new_checks = sum(check.check_id not in self.own.checks for check in definition.checks)
        return _full("checks", CHECKS_MAX) if len(self.own.checks) + new_checks > CHECKS_MAX else None

    def _deregister_check(self, now: Now, check_id: str) -> None:
        if check_id in self.own.checks:
            self.own.remove_check(now, check_id)
            self._changes.append(RemoveFile(check_path(check_id)))

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

    def _maintain_service(self, now: Now, command: SetServiceMaintenance) -> Refusal | None:
        service_id = command.service_id
        if service_id not in self.own.services:
            return Refusal(Cause.UNKNOWN, f'No service registered with ID "{service_id}"')
        reason = command.reason or NO_REASON_SERVICE
        check_id = SERVICE_MAINTENANCE + service_id
        definition = _maintenance(check_id, "Service", reason, service_id=service_id)
        self._maintain(now, definition, is_enabled=command.is_enabled)
        return None

    def _maintain(self, now: Now, definition: CheckDefinition, *, is_enabled: bool) -> None:
        if not is_enabled:
            self._deregister_check(now, definition.check_id)
        elif definition.check_id not in self.own.checks:  # the first reason stays, as in Consul
            self._put_check(now, definition, encode_check(definition))

    def _reload(self, now: Now, settings: Settings) -> None:
        wanted_services = {definition.service_id for definition in settings.services}
        wanted_checks = {check.check_id for check in _checks_defined_by(settings)}
        for check_id, check in list(self.own.checks.items()):
            if check.source is Source.CONFIGURATION and check_id not in wanted_checks:
                self.own.remove_check(now, check_id)
        for service_id, service in list(self.own.services.items()):
            if service.source is Source.CONFIGURATION and service_id not in wanted_services:
                self._deregister_service(now, service_id)
        self.settings = settings
        self.own.settings = _local_settings(settings)
        self.view.put_node(now, settings.node.node_id, settings.node)
        self._define(now, settings)
        self.own.publish_all(now)

    # Start.

    def _restore(self, now: Now, saved: Saved) -> None:
        if saved.services or saved.checks:
            found = f"found {len(saved.services)} services and {len(saved.checks)} checks registered before"
            self._logs.append(Log(Severity.INFO, found))
        for service in saved.services:
            self.own.put_service(now, service, Source.API)
        for check in saved.checks:
            if check.service_id and check.service_id not in self.own.services:
                # Power went between the files of one registration or deregistration, before its reply.
                self._changes.append(RemoveFile(check_path(check.check_id)))
            else:
                self.own.put_check(now, check, Source.API)

    def _define(self, now: Now, settings: Settings) -> None:
        """What files define wins over what clients registered under the same id before."""
        for service in settings.services:
            before = self.own.services.get(service.service_id)
            if before is not None and before.source is Source.API:
                self._changes.append(RemoveFile(service_path(service.service_id)))
            self.own.put_service(now, service, Source.CONFIGURATION)
        for check in _checks_defined_by(settings):
            known = self.own.checks.get(check.check_id)
            if known is not None and known.source is Source.API:
                self._changes.append(RemoveFile(check_path(check.check_id)))
            self.own.put_check(now, check, Source.CONFIGURATION)

    # Effects.

    def _tell(self, what: str, service: ServiceDefinition) -> None:
        sentence = f"service {what}: service={service.name} id={service.service_id}"
        self._logs.append(Log(Severity.INFO, sentence))

    def _settled(self, now: Now) -> list[Effect]:
        """After a change: what checks must do, who must wake, and last what must be on disk."""
        moved = self.own.refresh_aliases(now, self.view.changes())
        effects, self._logs = [*self._logs, *self.own.take_effects()], []
        if moved:
            effects.append(Notify(moved))
        has_news = self.own.ttl_changes != self._ttl_changes_saved
        if has_news and self.settings.is_persistent and Chore.SAVE_TTL_STATES not in self._chores:
            self._chores.set(Chore.SAVE_TTL_STATES, now.monotonic_ns + TTL_SAVE_NS)
        changes, self._changes = tuple(self._changes), []
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


def _checks_defined_by(settings: Settings) -> list[CheckDefinition]:
    return [*settings.checks, *(check for service in settings.services for check in service.checks)]


def _maintenance(check_id: str, what: str, reason: str, *, service_id: str = "") -> CheckDefinition:
    return CheckDefinition(
        check_id=check_id,
        name=f"{what} Maintenance Mode",
        notes=reason,
        status=Status.CRITICAL,
        service_id=service_id,
    )


def _full(what: str, maximum: int) -> Refusal:
    sentence = f"This agent has {maximum} {what}, which is as many as it takes; deregister some first"
    return Refusal(Cause.FAILED, sentence)


def _local_settings(settings: Settings) -> LocalSettings:
    return LocalSettings(
        node_name=settings.node.name,
        check_update_interval_ns=settings.check_update_interval_ns,
        discard_check_output=settings.discard_check_output,
    )
