"""What clients and files register with this agent, within its limits, and what of it must be on disk.

Every change to the agent's own services and checks comes through here; `catalog.local` then decides what
the checks say. What clients register is kept in files, one a registration; what configuration files define
is not, and wins over the former under the same id. A change is made whole, or refused with nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from adsum.catalog.definitions import CheckDefinition, CheckKind, ServiceDefinition, Status
from adsum.catalog.local import Local, Source
from adsum.catalog.model import NODE_MAINTENANCE, SERVICE_MAINTENANCE
from adsum.catalog.publishable import check_problem, problem_of
from adsum.catalog.replication.items import VALUE_BYTES_MAX
from adsum.catalog.saved import Saved, check_path, encode_check, encode_service, service_path
from adsum.effects import Cause, FileChange, Log, Refusal, RemoveFile, Severity, WriteFile
from adsum.now import Now

# One agent looks after one host. Ten times what the busiest are known to hold, and some 200 MB of memory.
SERVICES_MAX = 50_000
CHECKS_MAX = 100_000
# On disk, with what is not published: as much as may be.
FILE_BYTES_MAX = VALUE_BYTES_MAX

NO_OVERRIDE = (
    'The service "{}" belongs to its agent: register it there. '
    "Only tags can be changed from elsewhere, and only where it was registered with EnableTagOverride."
)
NO_REASON_NODE = "This node is in maintenance; whoever enabled it gave no reason."
NO_REASON_SERVICE = "This service is in maintenance; whoever enabled it gave no reason."


class Registry:
    def __init__(self, own: Local) -> None:
        self.own = own
        self._changes: list[FileChange] = []
        self._logs: list[Log] = []

    def take_changes(self) -> tuple[FileChange, ...]:
        changes, self._changes = tuple(self._changes), []
        return changes

    def take_logs(self) -> list[Log]:
        logs, self._logs = self._logs, []
        return logs

    # What clients ask.

    def register_service(self, now: Now, definition: ServiceDefinition, *, replaces: bool) -> Refusal | None:
        content = encode_service(definition)
        contents = [encode_check(check) for check in definition.checks]
        stays = self._stays(definition, replaces=replaces)
        refusal = self._too_large(content, *contents) or _unpublishable(problem_of(definition, stays))
        refusal = refusal or self._too_many(definition)
        if refusal is not None:
            return refusal
        known = self.own.services.get(definition.service_id)
        if known is None or known.definition != definition:
            self._tell("registered", definition)
        self.own.put_service(now, definition, Source.API)
        self._changes.append(WriteFile(service_path(definition.service_id), content))
        for check, check_content in zip(definition.checks, contents, strict=True):
            self._put_check(now, check, check_content)
        kept = {check.check_id for check in stays}
        for own in self.own.checks_of(definition.service_id):
            if own.definition.check_id not in kept:
                self.deregister_check(now, own.definition.check_id)
        return None

    def _stays(self, definition: ServiceDefinition, *, replaces: bool) -> list[CheckDefinition]:
        """The checks that the service will have."""
        given = {check.check_id for check in definition.checks}
        others = [
            own.definition
            for own in self.own.checks_of(definition.service_id)
            if own.definition.check_id not in given and (own.kind is CheckKind.MAINTENANCE or not replaces)
        ]
        return [*definition.checks, *others]

    def deregister_service(self, now: Now, service_id: str) -> None:
        """An unknown one is as gone as its caller wants it: registrators deregister blindly."""
        if service_id not in self.own.services:
            return
        self._tell("deregistered", self.own.services[service_id].definition)
        for check in self.own.checks_of(service_id):
            self._changes.append(RemoveFile(check_path(check.definition.check_id)))
        self._changes.append(RemoveFile(service_path(service_id)))
        self.own.remove_service(now, service_id)

    def register_check(self, now: Now, definition: CheckDefinition) -> Refusal | None:
        if definition.service_id and definition.service_id not in self.own.services:
            return Refusal(Cause.FAILED, f'ServiceID "{definition.service_id}" does not exist')
        content = encode_check(definition)
        refusal = self._too_large(content) or self._unpublishable_check(definition)
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
        if size <= FILE_BYTES_MAX:
            return None
        sentence = f"The registration is too large: {size} bytes, of which {FILE_BYTES_MAX} are possible"
        return Refusal(Cause.INVALID, f"{sentence}; shorten its longest texts")

    def _unpublishable_check(self, definition: CheckDefinition) -> Refusal | None:
        service = self.own.services.get(definition.service_id)
        return _unpublishable(check_problem(definition, service.definition if service else None))

    def _too_many(self, definition: ServiceDefinition) -> Refusal | None:
        if definition.service_id not in self.own.services and len(self.own.services) >= SERVICES_MAX:
            return _full("services", SERVICES_MAX)
        new_checks = sum(check.check_id not in self.own.checks for check in definition.checks)
        return _full("checks", CHECKS_MAX) if len(self.own.checks) + new_checks > CHECKS_MAX else None

    def deregister_check(self, now: Now, check_id: str) -> None:
        if check_id in self.own.checks:
            self.own.remove_check(now, check_id)
            self._changes.append(RemoveFile(check_path(check_id)))

    def maintain_node(self, now: Now, reason: str, *, is_enabled: bool) -> Refusal | None:
        definition = _maintenance(NODE_MAINTENANCE, "Node", reason or NO_REASON_NODE)
        return self._maintain(now, definition, is_enabled=is_enabled)

    def maintain_service(self, now: Now, service_id: str, reason: str, *, is_enabled: bool) -> Refusal | None:
        if service_id not in self.own.services:
            return Refusal(Cause.UNKNOWN, f'No service registered with ID "{service_id}"')
        check_id = SERVICE_MAINTENANCE + service_id
        definition = _maintenance(check_id, "Service", reason or NO_REASON_SERVICE, service_id=service_id)
        return self._maintain(now, definition, is_enabled=is_enabled)

    def _maintain(self, now: Now, definition: CheckDefinition, *, is_enabled: bool) -> Refusal | None:
        """Of a maintenance check the reason is the notes."""
        if not is_enabled:
            self.deregister_check(now, definition.check_id)
        elif definition.check_id not in self.own.checks:  # the first reason stays, as in Consul
            refusal = self._unpublishable_check(definition)
            if refusal is not None:
                return refusal
            self._put_check(now, definition, encode_check(definition))
        return None

    def override_tags(self, now: Now, service_id: str, tags: tuple[str, ...]) -> Refusal | None:
        """Lasts until the service is registered again, or a file that defines it is read again."""
        known = self.own.services.get(service_id)
        if known is None:
            return Refusal(Cause.UNKNOWN, f'No service registered with ID "{service_id}"')
        if not known.definition.enable_tag_override:
            return Refusal(Cause.INVALID, NO_OVERRIDE.format(service_id))
        definition = replace(known.definition, tags=tags)
        content = encode_service(definition)
        checks = (own.definition for own in self.own.checks_of(service_id))
        refusal = self._too_large(content) or _unpublishable(problem_of(definition, checks))
        if refusal is None:
            self.own.put_service(now, definition, known.source)
            if known.source is Source.API:
                self._changes.append(WriteFile(service_path(service_id), content))
        return refusal

    # What was there before, and what files say.

    def restore(self, now: Now, saved: Saved) -> None:
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

    def objection(
        self, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> Refusal | None:
        """To what files would define: each file was looked at by itself when it was read, but not what it is
        together with what clients registered."""
        pairs = self._mixed(services, checks)
        return _unpublishable(next(filter(None, (check_problem(*pair) for pair in pairs)), ""))

    def _mixed(
        self, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> Iterator[tuple[CheckDefinition, ServiceDefinition]]:
        by_id = {service.service_id: service for service in services}
        replaced = {check.check_id for check in checks}
        replaced.update(check.check_id for service in services for check in service.checks)
        for own in self.own.checks.values():
            service = by_id.get(own.definition.service_id)
            if service and own.source is Source.API and own.definition.check_id not in replaced:
                yield own.definition, service
        for check in checks:
            known = self.own.services.get(check.service_id)
            if known and known.source is Source.API and check.service_id not in by_id:
                yield check, known.definition

    def define(
        self, now: Now, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> None:
        """What files define now; what they defined before and do no more is gone."""
        checks = (*checks, *(check for service in services for check in service.checks))
        self._forget(now, {each.service_id for each in services}, {each.check_id for each in checks})
        for service in services:
            before = self.own.services.get(service.service_id)
            if before is not None and before.source is Source.API:
                self._changes.append(RemoveFile(service_path(service.service_id)))
            self.own.put_service(now, service, Source.CONFIGURATION)
        for check in checks:
            known = self.own.checks.get(check.check_id)
            if known is not None and known.source is Source.API:
                self._changes.append(RemoveFile(check_path(check.check_id)))
            self.own.put_check(now, check, Source.CONFIGURATION)

    def _forget(self, now: Now, wanted_services: set[str], wanted_checks: set[str]) -> None:
        for check_id, check in list(self.own.checks.items()):
            if check.source is Source.CONFIGURATION and check_id not in wanted_checks:
                self.own.remove_check(now, check_id)
        for service_id, service in list(self.own.services.items()):
            if service.source is Source.CONFIGURATION and service_id not in wanted_services:
                self.deregister_service(now, service_id)

    def _tell(self, what: str, service: ServiceDefinition) -> None:
        sentence = f"service {what}: service={service.name} id={service.service_id}"
        self._logs.append(Log(Severity.INFO, sentence))


def _maintenance(check_id: str, what: str, reason: str, *, service_id: str = "") -> CheckDefinition:
    return CheckDefinition(
        check_id=check_id,
        name=f"{what} Maintenance Mode",
        notes=reason,
        status=Status.CRITICAL,
        service_id=service_id,
    )


def _unpublishable(problem: str) -> Refusal | None:
    return Refusal(Cause.INVALID, f"Nothing was changed: {problem}.") if problem else None


def _full(what: str, maximum: int) -> Refusal:
    sentence = f"This agent has {maximum} {what}, which is as many as it takes; deregister some first"
    return Refusal(Cause.FAILED, sentence)
