"""The composite core: everything one agent decides, behind four verbs and without I/O.

    command(now, request, command)   somebody asks        -> effects, among them or later one Reply(request)
    receive(now, message)            something came in    -> effects
    tick(now)                        a deadline passed    -> effects
    deadline()                       when it wants the next tick, in monotonic nanoseconds

Reads do not come here: DNS, health and catalog answers are taken straight from `view`, own state from `own`.
Its parts are `local`, this agent's own node, services and checks in the view, which answered DNS before
there was more of the agent, and `cluster`, what it hears of others and lets them hear. This is a client,
complete as `client_agent` makes it; a server has it beside consensus (`server_agent`). The order of effects
is decided here, so it is simulated.

A change is on disk before it is made, and acknowledged when it is made: a command gives `Persist`, and the
rest follows from `receive(Persisted)`. One that the disk refuses was never visible to anybody, so that there
is nothing to take back. Of the effects of one verb, runs and wake-ups come first, then what is for the disk,
then replies.
"""

from __future__ import annotations

from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import (
    FolderLost,
    Message,
    OwnCommand,
    Reload,
    ReportTtl,
    WriteAll,
)
from adsum.agent.deadlines import earliest, is_due
from adsum.agent.effects import Effect
from adsum.agent.line import NOBODY, WaitingCommands
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.saved_catalog import SavedCopy
from adsum.catalog.definitions import CheckKind
from adsum.catalog.effects import CheckRan
from adsum.catalog.saved import TTL_STATES, TtlState, encode_ttl_states
from adsum.effects import (
    AnyCommand,
    LogLine,
    Notify,
    NotPersisted,
    Persisted,
    Refusal,
    RefusalCause,
    Reply,
    Save,
    Severity,
    WriteFile,
)
from adsum.mutable import dataclass
from adsum.now import SECOND, Now

# Commands that wait for the disk. Past it new ones are refused: their callers can try again, memory cannot.
WAITING_MAX = 10_000
# TTL states are worth a file a second at most: they only bridge a restart.
TTL_SAVE_NS = 1 * SECOND

TOO_BUSY = "Too many registrations are waiting for the disk; try again shortly"
NOT_PERSISTED = "Nothing was changed, because it could not be kept in data_dir: {}, and try again"


@dataclass(slots=True)
class CoreCounters:
    refusals: int = 0
    deregistered_critical: int = 0


class AgentCore:
    def __init__(self, local: LocalCatalog, cluster: ClusterState) -> None:
        self.local = local
        self.cluster = cluster
        self.view = local.view
        self.published = local.published
        self.own = local.own
        self.counters = CoreCounters()
        self._registry = local.registry
        self._logs: list[LogLine] = []
        self._save_ttl_ns: int | None = None
        self._ttl_changes_saved = 0
        self._line = WaitingCommands()
        self._settled_index = 0

    # The four verbs, and the start.

    def start(self, now: Now) -> list[Effect]:
        """From here on others are heard, and hear of us."""
        return self._settled(now)

    def recall(self, now: Now, copy: SavedCopy) -> list[Effect]:
        """What the agent knew of others before it was started again, all of it or a part."""
        self.cluster.restore(now, copy)
        return self._settled(now)

    def command(self, now: Now, request: int, command: AnyCommand) -> list[Effect]:
        if not isinstance(command, OwnCommand):
            return self._with_news(now, self.cluster.command(now, request, command))
        if isinstance(command, ReportTtl):
            refusal = self._report_ttl(now, command)
            reply = Reply(request, None) if refusal is None else self._refused(request, refusal)
            return [*self._settled(now), reply]
        if len(self._line) >= WAITING_MAX:
            return [self._refused(request, Refusal(RefusalCause.FAILED, TOO_BUSY))]
        self._line.waiting.append((request, command))
        return self._go_on(now)

    def receive(self, now: Now, message: Message) -> list[Effect]:
        match message:
            case Persisted(ticket):
                begun = self._line.end(ticket)
                self._registry.make(now, begun.plan)
                return self._go_on(now, Reply(begun.request, None), has_changed=True)
            case NotPersisted(ticket, reason):
                begun = self._line.end(ticket)
                refusal = Refusal(RefusalCause.FAILED, NOT_PERSISTED.format(reason))
                return self._go_on(now, self._refused(begun.request, refusal))
            case FolderLost(found):
                self._line.waiting.append((NOBODY, WriteAll(found)))
                return self._go_on(now)
            case CheckRan(check_id, run, status, output):
                self.own.ran(now, check_id, run, status, output)
            case _:
                return self._with_news(now, self.cluster.receive(now, message))
        return self._settled(now)

    def tick(self, now: Now) -> list[Effect]:
        called = self.cluster.tick(now)
        for service_id in self.own.tick(now):
            self._deregister_critical(now, service_id)
        saves = []
        if is_due(now, self._save_ttl_ns):
            self._save_ttl_ns = None
            saves.append(self._save_ttl_states())
        if files := self.cluster.take_files(now):
            saves.append(Save(files, is_synced=False))
        return [*called, *self._settled(now), *saves]

    def stop(self, now: Now) -> list[Effect]:
        """An orderly end is near: what would be saved a moment later is saved now."""
        saves = [self._save_ttl_states()] if self._save_ttl_ns is not None else []
        if files := self.cluster.last_files(now):
            saves.append(Save(files, is_synced=False))
        return [*saves]

    def deadline(self) -> int | None:
        return earliest(self.own.deadline(), self._save_ttl_ns, self.cluster.deadline())

    # Commands: each makes its whole change, or is refused with nothing changed.

    def _go_on(self, now: Now, *replies: Reply, has_changed: bool = False) -> list[Effect]:
        """Gives their turn to all who need not wait for what is on its way to the disk."""
        line, answered, for_disk = self._line, [*replies], list[Effect]()
        while line.waiting:
            request, command = line.waiting.popleft()
            if isinstance(command, Reload | WriteAll):
                if line.has_begun:  # these two touch every file
                    line.waiting.appendleft((request, command))
                    break
                if isinstance(command, WriteAll):
                    for_disk += self._all_files(now, command.found)
                    continue
                refusal = self.local.reload(now, command.settings)
                answered.append(Reply(request, None) if refusal is None else self._refused(request, refusal))
                for_disk += self._settled(now)
                continue
            plan = self._registry.planners[type(command)](command, line)
            if plan is None:
                line.waiting.appendleft((request, command))
                break
            if isinstance(plan, Refusal):
                answered.append(self._refused(request, plan))
            elif plan.files and self._is_persistent:
                for_disk.append(line.begin(request, plan))
            else:
                has_changed = True
                self._registry.make(now, plan)
                answered.append(Reply(request, None))
        return [*(self._settled(now) if has_changed else ()), *for_disk, *answered]

    def _refused(self, request: int, refusal: Refusal) -> Reply:
        self.counters.refusals += 1
        return Reply(request, refusal)

    def _deregister_critical(self, now: Now, service_id: str) -> None:
        """Not while somebody changes it: then it may be about to recover, and has its time again."""
        if not self._line.is_free(self._registry.files_of(service_id)):
            self.own.watch_for_deregistration(now, service_id)
            return
        self.counters.deregistered_critical += 1
        self._logs.append(LogLine(Severity.WARN, f"a service was critical for too long: id={service_id}"))
        self._registry.remove_service(now, service_id)

    def _report_ttl(self, now: Now, report: ReportTtl) -> Refusal | None:
        check_id = report.check_id
        check = self.own.checks.get(check_id)
        if check is None:
            advice = "Ensure that the check ID is passed, not the check name."
            return Refusal(RefusalCause.UNKNOWN, f'Unknown check ID "{check_id}". {advice}')
        if check.kind is not CheckKind.TTL:
            return Refusal(RefusalCause.FAILED, f'CheckID "{check_id}" does not have associated TTL')
        self.own.report_ttl(now, check_id, report.status, report.output)
        return None

    # The cluster.

    def _with_news(self, now: Now, effects: list[Effect]) -> list[Effect]:
        """Most datagrams change nothing that anybody could see; they cost no more than that."""
        if self.view.index == self._settled_index and not self.cluster.has_changes:
            return effects
        return [*effects, *self._settled(now)]

    # Effects.

    def _settled(self, now: Now) -> list[Effect]:
        """After a change: what checks must do, who must wake, and last what must be on disk."""
        moved = (*self.own.refresh_aliases(now, self.view.changes()), *self.cluster.events.take_moved())
        shared = self.cluster.sharing.settled(now)
        self._settled_index = self.view.index
        effects: list[Effect] = [*self._logs, *self._registry.take_logs(), *self.own.take_effects(), *shared]
        self._logs.clear()
        if moved:
            effects.append(Notify(moved))
        has_news = self.own.ttl_changes != self._ttl_changes_saved
        if has_news and self._is_persistent and self._save_ttl_ns is None:
            self._save_ttl_ns = now.monotonic_ns + TTL_SAVE_NS
        changes = (*self._registry.take_changes(), *self.cluster.take_changes())
        if changes and self._is_persistent:
            effects.append(Save(changes, is_synced=True))
        return effects

    @property
    def _is_persistent(self) -> bool:
        return self.local.settings.is_persistent

    def _save_ttl_states(self) -> Save:
        self._ttl_changes_saved = self.own.ttl_changes
        states = [
            TtlState(check_id, check.status, check.output, check.expires_at.wall_ms)
            for check_id, check in self.own.checks.items()
            if check.expires_at is not None
        ]
        return Save((WriteFile(TTL_STATES, encode_ttl_states(states)),), is_synced=False)

    def _all_files(self, now: Now, found: tuple[str, ...]) -> list[Save]:
        if not self._is_persistent:
            return []
        passing = self.cluster.last_files(now)
        files = (*self.cluster.kept_files(), *self._registry.files(found))
        saves = [Save(files, is_synced=True), self._save_ttl_states()]
        return [*saves, Save(passing, is_synced=False)] if passing else saves
