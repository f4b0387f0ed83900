"""What clients and files register with this agent, within its limits, and what of it must be on disk.

Every change to the agent's own services and checks comes through here; `OwnServices` then decides what the
checks say. What clients register is kept in files, one a registration; what configuration files define
is not, and wins over the former under the same id. A change of a client is planned, then on disk, then made:
whole, or refused with nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from adsum.agent.commands import (
    DeregisterCheck,
    DeregisterService,
    OverrideTags,
    RegisterCheck,
    RegisterService,
    SetNodeMaintenance,
    SetServiceMaintenance,
)
from adsum.agent.line import Coming, RegistrationPlan, WaitingCommands
from adsum.catalog.definitions import CheckDefinition, CheckKind, CheckStatus, ServiceDefinition
from adsum.catalog.model import NODE_MAINTENANCE, SERVICE_MAINTENANCE
from adsum.catalog.own_services import DefinedBy, OwnCheck, OwnService, OwnServices
from adsum.catalog.publishable import check_problem, problem_of
from adsum.catalog.replication.items import VALUE_BYTES_MAX
from adsum.catalog.saved import Saved, check_path, encode_check, encode_service, service_path
from adsum.effects import FileChange, LogLine, Refusal, RefusalCause, RemoveFile, Severity, WriteFile
from adsum.frozen import replace
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
Maintenance = SetNodeMaintenance | SetServiceMaintenance

NO_REASON_NODE = "This node is in maintenance; whoever enabled it gave no reason."
NO_REASON_SERVICE = "This service is in maintenance; whoever enabled it gave no reason."


class Registry:
    def __init__(self, own: OwnServices) -> None:
        self.own = own
        self._changes: list[FileChange] = []
        self._logs: list[LogLine] = []
        # What a command would change, or why not; nothing is changed yet. None: a file that it touches is on
        # its way to the disk, so it must wait.
        self.planners: dict[type, Callable[[Any, WaitingCommands], RegistrationPlan | Refusal | None]] = {
            RegisterService: self._plan_service,
            DeregisterService: self._plan_service_end,
            RegisterCheck: self._plan_check,
            DeregisterCheck: self._plan_check_end,
            SetNodeMaintenance: self._plan_maintenance,
            SetServiceMaintenance: self._plan_maintenance,
            OverrideTags: self._plan_tags,
        }

    def take_changes(self) -> tuple[FileChange, ...]:
        changes, self._changes = tuple(self._changes), []
        return changes

    def take_logs(self) -> list[LogLine]:
        logs, self._logs = self._logs, []
        return logs

    # What clients ask: first what it would need of the disk, and when that is done, the change.

    def make(self, now: Now, plan: RegistrationPlan) -> None:
        """Nothing that it touches has changed since it was planned."""
        if plan.log:
            self._logs.append(LogLine(Severity.INFO, plan.log))
        if plan.service is not None:
            self.own.put_service(now, plan.service)
        for check in plan.checks:
            self.own.put_check(now, check)
        for check_id in plan.checks_gone:
            self.own.remove_check(now, check_id)
        if plan.service_gone:
            self.own.remove_service(now, plan.service_gone)

    def remove_service(self, now: Now, service_id: str) -> None:
        """By no client, so that nobody waits until its files are gone."""
        plan = self._end_of(service_id, self.files_of(service_id))
        self._changes.extend(plan.files)
        self.make(now, plan)

    def files(self, found: tuple[str, ...]) -> tuple[FileChange, ...]:
        """All that clients registered, and none of what lies there besides."""
        services = (own.definition for own in self.own.services.values() if own.source is DefinedBy.API)
        checks = (own.definition for own in self.own.checks.values() if own.source is DefinedBy.API)
        written = (
            *(WriteFile(service_path(each.service_id), encode_service(each)) for each in services),
            *(WriteFile(check_path(each.check_id), encode_check(each)) for each in checks),
        )
        wanted = {each.path for each in written}
        return (*written, *(RemoveFile(path) for path in found if path not in wanted))

    # Services.

    def _plan_service(
        self, command: RegisterService, line: WaitingCommands
    ) -> RegistrationPlan | Refusal | None:
        definition = command.definition
        given = (check_path(check.check_id) for check in definition.checks)
        touched = (*self.files_of(definition.service_id), *given)
        if not line.is_free(touched):
            return None
        contents = {check.check_id: encode_check(check) for check in definition.checks}
        stays, gone = list[OwnCheck](), list[OwnCheck]()
        for own in self.own.checks_of(definition.service_id):
            if own.definition.check_id in contents:
                continue
            if command.replace_existing_checks and own.kind is not CheckKind.MAINTENANCE:
                gone.append(own)
            else:
                stays.append(OwnCheck(own.definition, own.source, definition))
        content = encode_service(definition)
        service = OwnService(definition, DefinedBy.API)
        checks = [OwnCheck(check, DefinedBy.API, definition) for check in definition.checks]
        problem = problem_of(service, [*checks, *stays])
        refusal = _too_large(content, *contents.values()) or _unpublishable(problem)
        refusal = refusal or self._too_many(definition, line.coming)
        if refusal is not None:
            return refusal
        known = self.own.services.get(definition.service_id)
        is_news = known is None or known.definition != definition
        return RegistrationPlan(
            files=(
                WriteFile(service_path(definition.service_id), content),
                *(WriteFile(check_path(check_id), each) for check_id, each in contents.items()),
                *(change for own in gone for change in self._removal(own)),
            ),
            touched=touched,
            coming=Coming(1, len(checks)),
            service=service,
            checks=tuple(checks),
            checks_gone=tuple(own.definition.check_id for own in gone),
            log=_told("registered", definition) if is_news else "",
        )

    def files_of(self, service_id: str) -> tuple[str, ...]:
        """With those of its checks."""
        checks = (check_path(own.definition.check_id) for own in self.own.checks_of(service_id))
        return (service_path(service_id), *checks)

    def _plan_service_end(self, command: DeregisterService, line: WaitingCommands) -> RegistrationPlan | None:
        touched = self.files_of(command.service_id)
        return self._end_of(command.service_id, touched) if line.is_free(touched) else None

    def _end_of(self, service_id: str, touched: tuple[str, ...]) -> RegistrationPlan:
        """An unknown one is as gone as its caller wants it: registrators deregister blindly."""
        known = self.own.services.get(service_id)
        if known is None:
            return RegistrationPlan()
        # The checks first: a check without its service is no state that the agent passed through.
        files = [change for own in self.own.checks_of(service_id) for change in self._removal(own)]
        if known.source is DefinedBy.API:
            files.append(RemoveFile(service_path(service_id)))
        log = _told("deregistered", known.definition)
        return RegistrationPlan(tuple(files), touched, service_gone=service_id, log=log)

    def _plan_tags(self, command: OverrideTags, line: WaitingCommands) -> RegistrationPlan | Refusal | None:
        """Lasts until the service is registered again, or a file that defines it is read again."""
        service_id = command.service_id
        touched = self.files_of(service_id)
        if not line.is_free(touched):
            return None
        known = self.own.services.get(service_id)
        if known is None:
            return Refusal(RefusalCause.UNKNOWN, f'No service registered with ID "{service_id}"')
        if not known.definition.enable_tag_override:
            return Refusal(RefusalCause.INVALID, NO_OVERRIDE.format(service_id))
        definition = replace(known.definition, tags=command.tags)
        content = encode_service(definition)
        service = OwnService(definition, known.source)
        checks = [OwnCheck(own.definition, own.source, definition) for own in self.own.checks_of(service_id)]
        refusal = _too_large(content) or _unpublishable(problem_of(service, checks))
        if refusal is not None:
            return refusal
        is_kept = known.source is DefinedBy.API
        files = (WriteFile(service_path(service_id), content),) if is_kept else ()
        return RegistrationPlan(files, touched, service=service)

    # Checks.

    def _plan_check(self, command: RegisterCheck, line: WaitingCommands) -> RegistrationPlan | Refusal | None:
        definition = command.definition
        touched = _files_of_check(definition)
        if not line.is_free(touched):
            return None
        if definition.service_id and definition.service_id not in self.own.services:
            return Refusal(RefusalCause.FAILED, f'ServiceID "{definition.service_id}" does not exist')
        content = encode_check(definition)
        check = self._own_check(definition, DefinedBy.API)
        refusal = _too_large(content) or _unpublishable(check_problem(check, self._service_of(definition)))
        is_new = definition.check_id not in self.own.checks
        if refusal is None and is_new and len(self.own.checks) + line.coming.checks >= CHECKS_MAX:
            refusal = _full("checks", CHECKS_MAX)
        files = (WriteFile(check_path(definition.check_id), content),)
        return refusal or RegistrationPlan(files, touched, Coming(0, 1), checks=(check,))

    def _plan_check_end(self, command: DeregisterCheck, line: WaitingCommands) -> RegistrationPlan | None:
        touched = (check_path(command.check_id),)
        return self._end_of_check(command.check_id, touched) if line.is_free(touched) else None

    def _end_of_check(self, check_id: str, touched: tuple[str, ...]) -> RegistrationPlan:
        known = self.own.checks.get(check_id)
        if known is None:
            return RegistrationPlan()
        return RegistrationPlan(self._removal(known), touched, checks_gone=(check_id,))

    def _own_check(self, definition: CheckDefinition, source: DefinedBy) -> OwnCheck:
        return OwnCheck(definition, source, self._service_of(definition))

    def _service_of(self, check: CheckDefinition) -> ServiceDefinition | None:
        service = self.own.services.get(check.service_id)
        return service.definition if service is not None else None

    def _too_many(self, definition: ServiceDefinition, coming: Coming) -> Refusal | None:
        is_new = definition.service_id not in self.own.services
        if is_new and len(self.own.services) + coming.services >= SERVICES_MAX:
            return _full("services", SERVICES_MAX)
        new_checks = sum(check.check_id not in self.own.checks for check in definition.checks)
        is_over = new_checks and len(self.own.checks) + coming.checks + new_checks > CHECKS_MAX
        return _full("checks", CHECKS_MAX) if is_over else None

    def _removal(self, own: OwnCheck) -> tuple[FileChange, ...]:
        return (RemoveFile(check_path(own.definition.check_id)),) if own.source is DefinedBy.API else ()

    # Maintenance.

    def _plan_maintenance(
        self, command: Maintenance, line: WaitingCommands
    ) -> RegistrationPlan | Refusal | None:
        definition = _maintenance(command)
        touched = _files_of_check(definition)
        if not line.is_free(touched):
            return None
        service_id = definition.service_id
        if service_id and service_id not in self.own.services:
            return Refusal(RefusalCause.UNKNOWN, f'No service registered with ID "{service_id}"')
        if not command.is_enabled:
            return self._end_of_check(definition.check_id, touched)
        if definition.check_id in self.own.checks:
            return RegistrationPlan()  # the first reason stays, as in Consul
        check = self._own_check(definition, DefinedBy.API)
        files = (WriteFile(check_path(definition.check_id), encode_check(definition)),)
        refusal = _unpublishable(check_problem(check, self._service_of(definition)))
        return refusal or RegistrationPlan(files, touched, checks=(check,))

    # What was there before, and what files say.

    def restore_services(self, now: Now, saved: Saved) -> None:
        if saved.services or saved.checks:
            found = f"found {len(saved.services)} services and {len(saved.checks)} checks registered before"
            self._logs.append(LogLine(Severity.INFO, found))
        for service in saved.services:
            self.own.put_service(now, OwnService(service, DefinedBy.API))

    def restore_checks(self, now: Now, saved: Saved) -> None:
        """Those of services that files define as well, and a maintenance of one: so after `define`."""
        for check in saved.checks:
            is_orphan = check.service_id and check.service_id not in self.own.services
            if is_orphan or check.check_id in self.own.checks:
                # Power went between the files of one registration or deregistration, before its reply; or a
                # file defines it now.
                self._changes.append(RemoveFile(check_path(check.check_id)))
            else:
                self.own.put_check(now, self._own_check(check, DefinedBy.API))

    def objection(
        self, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> Refusal | None:
        """To what files would define: each file was looked at by itself when it was read, but not what it is
        together with what clients registered."""
        problems = (check_problem(*pair) for pair in self._mixed(services, checks))
        return _unpublishable(next(filter(None, problems), ""))

    def _mixed(
        self, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> Iterator[tuple[OwnCheck, ServiceDefinition]]:
        by_id = {service.service_id: service for service in services}
        replaced = {check.check_id for check in checks}
        replaced.update(check.check_id for service in services for check in service.checks)
        for own in self.own.checks.values():
            service = by_id.get(own.definition.service_id)
            if service and own.source is DefinedBy.API and own.definition.check_id not in replaced:
                yield OwnCheck(own.definition, own.source, service), service
        for check in checks:
            known = self.own.services.get(check.service_id)
            if known and known.source is DefinedBy.API and check.service_id not in by_id:
                yield OwnCheck(check, DefinedBy.CONFIGURATION, known.definition), known.definition

    def define(
        self, now: Now, services: tuple[ServiceDefinition, ...], checks: tuple[CheckDefinition, ...]
    ) -> None:
        """What files define now; what they defined before and do no more is gone."""
        checks = (*checks, *(check for service in services for check in service.checks))
        self._forget(now, {each.service_id for each in services}, {each.check_id for each in checks})
        for service in services:
            before = self.own.services.get(service.service_id)
            if before is not None and before.source is DefinedBy.API:
                self._changes.append(RemoveFile(service_path(service.service_id)))
            self.own.put_service(now, OwnService(service, DefinedBy.CONFIGURATION))
        for check in checks:
            known = self.own.checks.get(check.check_id)
            if known is not None and known.source is DefinedBy.API:
                self._changes.append(RemoveFile(check_path(check.check_id)))
            self.own.put_check(now, self._own_check(check, DefinedBy.CONFIGURATION))

    def _forget(self, now: Now, wanted_services: set[str], wanted_checks: set[str]) -> None:
        for check_id, check in list(self.own.checks.items()):
            if check.source is DefinedBy.CONFIGURATION and check_id not in wanted_checks:
                self.own.remove_check(now, check_id)
        for service_id, service in list(self.own.services.items()):
            if service.source is DefinedBy.CONFIGURATION and service_id not in wanted_services:
                self.remove_service(now, service_id)


def _files_of_check(check: CheckDefinition) -> tuple[str, ...]:
    """With that of its service, without which there is no check."""
    mine = (check_path(check.check_id),)
    return (service_path(check.service_id), *mine) if check.service_id else mine


def _maintenance(command: Maintenance) -> CheckDefinition:
    """Of a maintenance check the reason is the notes."""
    match command:
        case SetNodeMaintenance(_, reason):
            what, check_id, service_id, otherwise = "Node", NODE_MAINTENANCE, "", NO_REASON_NODE
        case SetServiceMaintenance(service_id, _, reason):
            what, check_id, otherwise = "Service", SERVICE_MAINTENANCE + service_id, NO_REASON_SERVICE
    return CheckDefinition(
        check_id=check_id,
        name=f"{what} Maintenance Mode",
        notes=reason or otherwise,
        status=CheckStatus.CRITICAL,
        service_id=service_id,
    )


def _told(what: str, service: ServiceDefinition) -> str:
    return f"service {what}: service={service.name} id={service.service_id}"


def _too_large(*contents: bytes) -> Refusal | None:
    size = max(map(len, contents))
    if size <= FILE_BYTES_MAX:
        return None
    sentence = f"The registration is too large: {size} bytes, of which {FILE_BYTES_MAX} are possible"
    return Refusal(RefusalCause.INVALID, f"{sentence}; shorten its longest texts")


def _unpublishable(problem: str) -> Refusal | None:
    return Refusal(RefusalCause.INVALID, f"Nothing was changed: {problem}.") if problem else None


def _full(what: str, maximum: int) -> Refusal:
    sentence = f"This agent has {maximum} {what}, which is as many as it takes; deregister some first"
    return Refusal(RefusalCause.FAILED, sentence)
