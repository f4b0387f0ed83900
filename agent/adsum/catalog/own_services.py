"""What this agent owns: its services, their checks, and what each check says right now.

The only writer of this agent's part of the view. Everything that moves a check's status with time is
decided here, so that it is simulated: when a check runs next, how many results it takes to believe it, when
a TTL runs out, when output that did not change the status is worth publishing, and when a service that stays
critical goes.

A run is asked for by `RunCheck` and answered by `ran()`. The next one is due an interval after the answer:
runs of one check never overlap, and a slow check is never chased. The first is at a random point of its
interval, so that agents started together do not knock together.
"""

from __future__ import annotations

import enum
from random import Random

from adsum.catalog import aliases, records
from adsum.catalog.definitions import CheckDefinition, CheckKind, CheckStatus, ServiceDefinition
from adsum.catalog.effects import OwnServicesEffect, RunCheck, StopCheck
from adsum.catalog.flapping import Flapping
from adsum.catalog.model import NODE_MAINTENANCE, SERVICE_MAINTENANCE, Check, Service
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.thresholds import Thresholds
from adsum.effects import LogLine, Severity
from adsum.frozen import replace
from adsum.named import NamedTuple
from adsum.now import MILLISECOND, Now
from adsum.timers import Timers
from adsum.topics import Topic

# Aliases of aliases settle in as many rounds as the chain is long; a ring of them must end too.
ALIAS_ROUNDS_MAX = 8

LOGGED_OUTPUT_LENGTH_MAX = 200

NOT_RUN_HERE = frozenset({CheckKind.TTL, CheckKind.ALIAS, CheckKind.MAINTENANCE, CheckKind.NONE})


class DefinedBy(enum.Enum):
    """Who defined it: what a file defines goes when the file stops defining it, the rest is kept on disk."""

    API = "api"
    CONFIGURATION = "configuration"


class CheckTimer(enum.Enum):
    RUN = "run"
    TTL = "ttl"
    OUTPUT = "output"
    DEREGISTER = "deregister"


class OwnService:
    __slots__ = ("definition", "encoded", "published", "source")

    def __init__(self, definition: ServiceDefinition, source: DefinedBy) -> None:
        self.definition = definition
        self.source = source
        self.published = Service(
            service_id=definition.service_id,
            name=definition.name,
            kind=definition.kind,
            tags=definition.tags,
            address=definition.address,
            port=definition.port,
            tagged_addresses=definition.tagged_addresses,
            meta=definition.meta,
            weight_passing=definition.weights.passing,
            weight_warning=definition.weights.warning,
            enable_tag_override=definition.enable_tag_override,
            proxy=definition.proxy,
            connect=definition.connect,
        )
        self.encoded = records.encode_service(self.published)  # as all others hold it


class OwnCheck:
    __slots__ = (
        *("definition", "encoded", "expires_at", "flapping", "kind", "output", "published", "run", "source"),
        *("status", "thresholds"),
    )

    def __init__(
        self, definition: CheckDefinition, source: DefinedBy, service: ServiceDefinition | None
    ) -> None:
        self.definition = definition
        self.source = source
        is_maintenance = definition.check_id.startswith((NODE_MAINTENANCE, SERVICE_MAINTENANCE))
        self.kind = CheckKind.MAINTENANCE if is_maintenance else definition.kind
        self.describe(service)
        self.status = CheckStatus(definition.status or CheckStatus.CRITICAL)
        self.output = ""
        self.thresholds = Thresholds(definition)
        self.flapping = Flapping()
        self.run = 0  # the run whose result is awaited; another's is ignored
        self.expires_at: Now | None = None  # when a TTL runs out, by both clocks

    def describe(self, service: ServiceDefinition | None) -> None:
        """With the name and the tags of the service that it belongs to."""
        definition = self.definition
        self.published = Check(  # but for what it says
            check_id=definition.check_id,
            name=definition.name,
            status=CheckStatus.CRITICAL,
            notes=definition.notes,
            service_id=definition.service_id,
            service_name=service.name if service else "",
            service_tags=service.tags if service else (),
            kind=self.kind,
        )
        self.encoded = records.encode_check(self.published)  # as all others hold the definition

    @property
    def is_run_here(self) -> bool:
        return self.kind not in NOT_RUN_HERE


class LocalSettings(NamedTuple):
    node_name: str
    check_update_interval_ns: int
    discard_check_output: bool


class OwnServices:
    def __init__(self, published: OwnCatalogWriter, settings: LocalSettings, random: Random) -> None:
        self.services: dict[str, OwnService] = {}
        self.checks: dict[str, OwnCheck] = {}
        self.settings = settings
        self.transitions = dict.fromkeys(CheckStatus, 0)  # how often a check has turned to each
        self.ttl_changes = 0  # moves whenever a TTL state worth saving does
        self._published = published
        self._view = published.view
        self._random = random
        self._timers: Timers[tuple[CheckTimer, str]] = Timers()
        self._aliases: dict[str, OwnCheck] = {}
        self._runs = 0
        self._effects: list[OwnServicesEffect] = []

    def take_effects(self) -> list[OwnServicesEffect]:
        effects, self._effects = self._effects, []
        return effects

    # Registrations.

    def put_service(self, now: Now, service: OwnService) -> None:
        """The service alone; its checks are put one by one."""
        definition = service.definition
        known = self.services.get(definition.service_id)
        before = known.published if known is not None else None
        self.services[definition.service_id] = service
        self._published.put_service(now, service.published, service.encoded)
        carried = (definition.name, definition.tags)  # by its checks
        is_same = before is not None and (before.name, before.tags) == carried
        for check in self.checks_of(definition.service_id):
            if not is_same:
                check.describe(definition)
            self._publish(now, check)

    def remove_service(self, now: Now, service_id: str) -> None:
        for check in self.checks_of(service_id):
            self.remove_check(now, check.definition.check_id)
        del self.services[service_id]
        self._published.remove_service(now, service_id)

    def checks_of(self, service_id: str) -> list[OwnCheck]:
        """Also those that a file defines of a service which is not registered yet."""
        host = self._published.host
        if host is None:
            return []
        instance = host.instances.get(service_id)
        rows = instance.checks if instance is not None else host.early_checks.get(service_id, ())
        return [self.checks[row.value.check_id] for row in rows]

    def put_check(self, now: Now, check: OwnCheck) -> None:
        """A check that is already known keeps its status and output: registering again is not a flap."""
        definition, check_id = check.definition, check.definition.check_id
        before = self.checks.get(check_id)
        if before is not None:
            check.status, check.output, check.flapping = before.status, before.output, before.flapping
        if before is not None and before.definition == definition and check.is_run_here:
            check.thresholds, check.run = before.thresholds, before.run
            self.checks[check_id] = check
        else:
            self._end(before)
            self._begin(now, check)
        self._publish(now, check)
        self._watch_for_deregistration(now, check)

    def restore_ttl(self, now: Now, check_id: str, status: CheckStatus, output: str, left_ns: int) -> None:
        """What a TTL check said before the restart still counts for the rest of its time."""
        check = self.checks.get(check_id)
        if check is None or check.kind is not CheckKind.TTL:
            return
        self._expect_ttl(now, check, min(left_ns, check.definition.ttl_ns))
        self._believe(now, check, status, output)

    def remove_check(self, now: Now, check_id: str) -> None:
        self._end(self.checks.pop(check_id))
        self._published.remove_check(now, check_id)

    def watch_for_deregistration(self, now: Now, service_id: str) -> None:
        """Its critical checks have their time again."""
        for check in self.checks_of(service_id):
            self._watch_for_deregistration(now, check)

    def publish_all(self, now: Now) -> None:
        """After settings changed that decide what is published."""
        for check in self.checks.values():
            self._publish(now, check)

    # What checks say.

    def report_ttl(self, now: Now, check_id: str, status: CheckStatus, output: str) -> None:
        check = self.checks[check_id]
        bytes_max, raw = check.definition.output_max_size, output.encode()
        if len(raw) > bytes_max:
            kept = raw[:bytes_max].decode(errors="ignore")
            output = f"{kept} ... (captured {bytes_max} of {len(raw)} bytes)"
        self._expect_ttl(now, check, check.definition.ttl_ns)
        self._believe(now, check, status, output)

    def ran(self, now: Now, check_id: str, run: int, status: CheckStatus, output: str) -> None:
        check = self.checks.get(check_id)
        if check is None or check.run != run:
            return  # it was deregistered or replaced while it ran
        next_ns = now.monotonic_ns + check.definition.effective_interval_ns
        self._timers.set((CheckTimer.RUN, check_id), next_ns)
        believed = check.thresholds.believe(status)
        self._believe(now, check, believed or check.status, output)

    def refresh_aliases(self, now: Now, moved: tuple[Topic, ...]) -> tuple[Topic, ...]:
        """Repeat what changed elsewhere; the topics that moved in all, for those who wait."""
        if not self._aliases:
            return moved
        everything = dict.fromkeys(moved)
        for _round in range(ALIAS_ROUNDS_MAX):
            moved_now = frozenset(moved)
            for check in self._aliases.values():
                if not moved_now.isdisjoint(aliases.topics(self.settings.node_name, check.definition)):
                    self._follow(now, check)
            moved = self._view.changes()
            if not moved:
                break
            everything.update(dict.fromkeys(moved))
        return tuple(everything)

    def tick(self, now: Now) -> list[str]:
        """Services that have been critical for too long: the composite deregisters them, as it would for a
        client."""
        gone = []
        for timer, check_id in self._timers.take_due(now.monotonic_ns):
            check = self.checks[check_id]
            match timer:
                case CheckTimer.RUN:
                    self._runs += 1
                    check.run = self._runs
                    self._effects.append(RunCheck(check_id, check.run, check.definition))
                case CheckTimer.TTL:
                    last = f" (last output before timeout follows): {check.output}" if check.output else ""
                    check.expires_at = None
                    self.ttl_changes += 1
                    self._believe(now, check, CheckStatus.CRITICAL, f"TTL expired{last}")
                case CheckTimer.OUTPUT:
                    self._publish(now, check)
                case CheckTimer.DEREGISTER:
                    gone.append(check.definition.service_id)
        return list(dict.fromkeys(gone))

    def deadline(self) -> int | None:
        return self._timers.earliest()

    # How a check moves.

    def _begin(self, now: Now, check: OwnCheck) -> None:
        check_id = check.definition.check_id
        self.checks[check_id] = check
        match check.kind:
            case CheckKind.TTL:
                self._expect_ttl(now, check, check.definition.ttl_ns)
            case CheckKind.ALIAS:
                self._aliases[check_id] = check
                self._follow(now, check)
            case _ if check.is_run_here:
                delay_ns = self._random.randrange(check.definition.effective_interval_ns)
                self._timers.set((CheckTimer.RUN, check_id), now.monotonic_ns + delay_ns)

    def _end(self, check: OwnCheck | None) -> None:
        if check is None:
            return
        check_id = check.definition.check_id
        self._aliases.pop(check_id, None)
        for timer in CheckTimer:
            self._timers.cancel((timer, check_id))
        if check.is_run_here:
            self._effects.append(StopCheck(check_id))

    def _expect_ttl(self, now: Now, check: OwnCheck, left_ns: int) -> None:
        self._timers.set((CheckTimer.TTL, check.definition.check_id), now.monotonic_ns + left_ns)
        check.expires_at = Now(now.monotonic_ns + left_ns, now.wall_ms + left_ns // MILLISECOND)
        self.ttl_changes += 1

    def _follow(self, now: Now, check: OwnCheck) -> None:
        status, output = aliases.verdict(self._view, self.settings.node_name, check.definition)
        self._believe(now, check, status, output)

    def _believe(self, now: Now, check: OwnCheck, status: CheckStatus, output: str) -> None:
        before, check.status = check.status, status
        was_silent = not check.output
        has_new_output, check.output = check.output != output, output
        if status is not before:
            self._tell(now, check, "now")
            self.transitions[status] += 1
            self._publish(now, check)
            self._watch_for_deregistration(now, check)
        elif has_new_output and was_silent and status is not CheckStatus.PASSING:
            # A check begins as critical. Whoever registered it waits for the first word on why it stays so.
            self._tell(now, check, "still")
            self._publish(now, check)
        elif has_new_output:
            self._publish_later(now, check)

    def _tell(self, now: Now, check: OwnCheck, since: str) -> None:
        """With the first line of why, so that the log alone tells the story; what passes needs none."""
        if not check.flapping.admits(now.monotonic_ns):
            return
        output = "" if self.settings.discard_check_output else check.output
        sentence = f"check is {since} {check.status}: check={check.definition.check_id}"
        if untold := check.flapping.take_untold():
            sentence += f" changes_not_logged={untold}"
        if check.status is CheckStatus.PASSING:
            self._effects.append(LogLine(Severity.INFO, sentence))
            return
        first_line = output.strip().partition("\n")[0][:LOGGED_OUTPUT_LENGTH_MAX]
        told = f"{sentence} output={first_line!r}" if first_line else sentence
        self._effects.append(LogLine(Severity.WARN, told))

    def _publish(self, now: Now, check: OwnCheck) -> None:
        self._timers.cancel((CheckTimer.OUTPUT, check.definition.check_id))
        self._published.put_check(now, self.published_check(check), check.encoded)

    def _publish_later(self, now: Now, check: OwnCheck) -> None:
        """Output alone is worth a change only now and then: Consul's check_update_interval, d/2 to 3d/2."""
        interval_ns = self.settings.check_update_interval_ns
        timer = (CheckTimer.OUTPUT, check.definition.check_id)
        if interval_ns == 0:
            self._publish(now, check)
        elif timer not in self._timers:
            delay_ns = interval_ns // 2 + self._random.randrange(interval_ns)
            self._timers.set(timer, now.monotonic_ns + delay_ns)

    def _watch_for_deregistration(self, now: Now, check: OwnCheck) -> None:
        timer = (CheckTimer.DEREGISTER, check.definition.check_id)
        patience_ns = check.definition.effective_deregister_ns
        if check.status is not CheckStatus.CRITICAL or not patience_ns or not check.definition.service_id:
            self._timers.cancel(timer)
        elif timer not in self._timers:
            self._timers.set(timer, now.monotonic_ns + patience_ns)

    def published_check(self, check: OwnCheck) -> Check:
        output = "" if self.settings.discard_check_output else check.output
        return replace(check.published, status=check.status, output=output)
