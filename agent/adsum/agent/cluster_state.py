"""The roll inside the composite: gossip, what it carries for the catalog, and the requests that wait for it.

    command(now, request, …)   join, leave, force-leave, an event     receive(now, …)   datagrams, reports
    tick(now)                  a deadline of gossip has come          deadline()

What gossip asks of the network and what it tells for the journal passes through unchanged, in its order; what
it says about members moves the view; what ends a command becomes its `Reply`.
"""

from __future__ import annotations

from dataclasses import field
from random import Random

import cbor2

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.absence import Absence
from adsum.agent.catalog_sync import CatalogSync
from adsum.agent.commands import ConfirmCatalog, MemberAnswered, MemberAsked, RollMessage
from adsum.agent.conflicts import Conflicts
from adsum.agent.deadlines import earliest, is_due
from adsum.agent.effects import Effect
from adsum.agent.known_servers import KnownServers, LeadershipSeen
from adsum.agent.presence import Presence
from adsum.agent.saved_catalog import KEPT_NS, Copying, SavedCopy, SavedOwner, spans_of, with_store
from adsum.agent.saved_catalog import file as copy_file
from adsum.agent.saved_files import COPY, GENERATION, PEERS
from adsum.agent.settings import AgentSettings
from adsum.agent.user_events import UserEvents
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.store_news import StoreNews
from adsum.effects import (
    AnswerMember,
    AnyCommand,
    FileChange,
    LeaderChanged,
    LogLine,
    Refusal,
    RefusalCause,
    RemoveFile,
    Reply,
    Severity,
    WriteFile,
    answer,
)
from adsum.frozen import replace
from adsum.gossip import effects as gossip_effects
from adsum.gossip.commands import Command as GossipCommand
from adsum.gossip.commands import Datagram, Describe, ForceLeave, Join, Leave, Restart
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import (
    CarriedHeard,
    ComparedAgain,
    ConflictSeen,
    EventHeard,
    GenerationAdvised,
    GenerationRaised,
    GossipRefused,
    IsolationChanged,
    JoinEnded,
    LeaveDone,
    MemberChanged,
    Paused,
    RootHeard,
    Send,
)
from adsum.gossip.order import MemberStatus
from adsum.mutable import dataclass
from adsum.now import MILLISECOND, SECOND, Now

PEERS_SAVED_MAX = 1_024  # one that answers is enough to find the others
# The list of peers is worth a file every so often: it only has to be roughly true.
PEERS_SAVE_NS = 5 * SECOND
# But the first: who is killed before it has one would have nobody to ask.
FIRST_PEERS_SAVE_NS = SECOND // 2
# How often it is looked at whether silence means anything again, while it does not.
HOLD_LOOK_NS = SECOND
NOBODY_TO_ASK = (
    "This agent can ask nobody whether what it knows is true ({}); without ?consistent it answers with that."
)


@dataclass(slots=True, eq=False)
class _Join:
    """A request that waits for its attempts."""

    waits_for: set[Address]
    errors: list[str] = field(default_factory=list)
    is_joined: bool = False


class ClusterState:
    def __init__(
        self,
        now: Now,
        gossip: GossipCore,
        published: OwnCatalogWriter,
        settings: AgentSettings,
        random: Random,
        *,
        rejoins: bool = False,
        expects_others: bool = False,
        interner: Interner | None = None,
    ) -> None:
        """What the last arguments mean, `client_agent` says."""
        view = published.view
        self.gossip = gossip
        self.membership = gossip.membership
        self.presence = Presence(view, settings.node.node_id, settings.node.datacenter)
        self.sharing = CatalogSync(
            now, gossip, published, self.presence, random, self._keep_generation, interner
        )
        replication = self.sharing.replication
        self.absence = Absence(now, gossip.membership, replication, expects_others=expects_others)
        self.servers = KnownServers()
        self._is_server = tags.decode(gossip.membership.me.meta).is_server
        replication.servers_changed(now, (), is_one=self._is_server)
        self.conflicts = Conflicts(gossip.membership)
        self.events = UserEvents(view, gossip.membership.me.name)
        self.has_left = False
        self._rejoins = rejoins
        self._joins: dict[int, _Join] = {}
        self._leaving: list[int] = []
        self._changes: list[FileChange] = []  # must be on disk
        self._save_peers_ns: int | None = None
        self._has_saved_peers = False
        self._look_ns: int | None = None
        self._copying = Copying(now) if settings.is_persistent else None
        self._saved_until_ns = 0
        self._saved_wall_ms = 0
        self._held_since_ns = 0

    # The verbs.

    def command(self, now: Now, request: int, command: AnyCommand) -> list[Effect]:
        if isinstance(command, ConfirmCatalog):
            staleness = self.staleness(now)
            if staleness and not self.membership.others_present:
                return [Reply(request, Refusal(RefusalCause.FAILED, NOBODY_TO_ASK.format(staleness)))]
            self.sharing.replication.confirm(now, request)
            return self.sharing.settled(now)
        assert isinstance(command, GossipCommand), "the composite takes those of its other parts out"
        match command:
            case ForceLeave(name) if self.membership.member_named(name) is None:
                if (saved := self.sharing.saved_named(name)) is not None:
                    return [self._take_off(now, saved), answer(request, command, saved.profile.name)]
            case Join(addresses):
                self.has_left = False
                if others := {each for each in addresses if each != self.membership.me.address}:
                    self._joins[request] = _Join(others)
                else:
                    self.absence.expects_others = False
            case Leave() | Restart():
                self._leaving.append(request)
        effects = self._absorb(now, self.gossip.command(now, command), request)
        is_waiting = request in self._joins or request in self._leaving
        if not is_waiting and not any(isinstance(effect, Reply) for effect in effects):
            effects.append(Reply(request, None))
        return effects

    def receive(self, now: Now, message: RollMessage) -> list[Effect]:
        match message:
            case Datagram(source, body, is_authentic):
                return self._absorb(now, self.gossip.receive(now, source, body, is_authentic=is_authentic))
            case MemberAsked(ticket, sender, method, body):
                answered = self.sharing.replication.asked(now, sender, method, body)
                return [AnswerMember(ticket, answered), *self.sharing.settled(now)]
            case LeadershipSeen(leads_in=leads_in):
                before = self.servers.leader
                self.servers.leadership_seen(message)
                moved = self._leader_moved(before)
                epoch, term = leads_in or (0, 0)
                own = tags.decode(self.membership.me.meta)
                described = replace(own, leads_in_epoch=epoch, leads_in_term=term)
                if described == own:
                    return moved
                told = self.gossip.command(now, Describe(tags.encode(described)))
                return [*moved, *self._absorb(now, told)]
            case StoreNews():
                self.sharing.store_published(now, message)
                return self.sharing.settled(now)
            case MemberAnswered(ticket, came):
                self.sharing.replication.answered(now, ticket, came)
                return self.sharing.settled(now)
            case _:
                return self._absorb(now, self.gossip.report(now, message))

    def tick(self, now: Now) -> list[Effect]:
        if is_due(now, self._look_ns):
            self._look_whether_held(now)
        effects: list[Effect] = []
        is_better_known = self.sharing.replication.agreed_ns is not None
        if self.sharing.shows_saved and (is_better_known or now.monotonic_ns >= self._saved_until_ns):
            self.sharing.forget_saved(now)
        if is_due(now, self.sharing.deadline()):
            self.sharing.replication.tick(now)
            effects += self.sharing.settled(now)
        if is_due(now, self.gossip.deadline()):  # what was published just now is pushed with it
            effects += self._absorb(now, self.gossip.tick(now))
        return effects

    def deadline(self) -> int | None:
        own = (self._look_ns, self._save_peers_ns, self._copying.deadline() if self._copying else None)
        return earliest(self.gossip.deadline(), self.sharing.deadline(), *own)

    # Between two lives.

    def restore(self, now: Now, copy: SavedCopy) -> None:
        """What the last run knew is shown until something better is known."""
        left_ns = KEPT_NS - (now.wall_ms - copy.wall_ms) * MILLISECOND
        if left_ns > 0:
            self._saved_until_ns = now.monotonic_ns + left_ns
            self._saved_wall_ms = copy.wall_ms
            self.sharing.restore(now, copy)

    def _take_off(self, now: Now, saved: SavedOwner) -> LogLine:
        """Also off the copy, or the next start would show it again. Nobody else is told: of a member that it
        has not met, this agent knows no life that could be declared over."""
        self.sharing.forget_one(now, saved)
        rest, store = SavedCopy(self._saved_wall_ms, tuple(self.sharing.saved)), self.sharing.store
        if store is not None:
            rest = with_store(now, rest, tuple(spans_of(store.state)), store.gone_ns)
        self._changes.append(copy_file(rest) if rest.owners or rest.store else RemoveFile(COPY))
        name = saved.profile.name
        return LogLine(Severity.INFO, f"a node that only the saved copy knew was taken off: {name}")

    def _answers_from_copy(self, now: Now) -> bool:
        """Also about those whom gossip has met, until the first exchange says more of them."""
        is_kept = now.monotonic_ns < self._saved_until_ns
        return self.sharing.shows_saved or (is_kept and self.absence.is_joining)

    def behind_ns(self, now: Now) -> int:
        """How old what is answered about others may be; nought while it is as they say it is."""
        if self._answers_from_copy(now):
            return KEPT_NS - (self._saved_until_ns - now.monotonic_ns)
        replication = self.sharing.replication
        absent_ns = self.absence.for_ns(now)
        if not self.presence.holds_last_known:
            return max(replication.behind_ns(now), absent_ns)
        return max(now.monotonic_ns - max(self._held_since_ns, replication.agreed_ns or 0), absent_ns)

    def staleness(self, now: Now) -> str:
        """Why what is answered about others may not be as things are now; empty when it is."""
        if self._answers_from_copy(now):
            return "saved copy"
        if self.membership.is_isolated:
            return "isolated"
        return self.absence.reason(now) or ("silence" if self.presence.holds_last_known else "")

    # What must be kept.

    @property
    def has_changes(self) -> bool:
        """Of what must be kept, or of what somebody may wait for."""
        return bool(self._changes) or self.events.has_moved

    def take_changes(self) -> tuple[FileChange, ...]:
        changes, self._changes = tuple(self._changes), []
        return changes

    def kept_files(self) -> tuple[FileChange, ...]:
        """What must be on disk, as it is now."""
        return (_generation_file(self.membership.own_standing.generation),)

    def take_files(self, now: Now) -> tuple[FileChange, ...]:
        """What a restarted agent finds its cluster by, and answers with meanwhile; each when it is due."""
        if self._copying is None:
            return ()
        files: tuple[FileChange, ...] = ()
        if self.sharing.shows_saved:
            self._copying.postpone(now)
        else:
            known, root = self.sharing.known(), self.sharing.replication.root
            files = self._copying.tick(now, known, root, self.sharing.store)
        if is_due(now, self._save_peers_ns):
            self._save_peers_ns = None
            self._has_saved_peers = True
            files = (*files, *self._peers_file())
        return files

    def last_files(self, now: Now) -> tuple[FileChange, ...]:
        if self._copying is None:
            return ()
        if self.has_left and not self._rejoins:
            return (RemoveFile(PEERS), RemoveFile(COPY))
        if self.sharing.shows_saved:
            return tuple(self._peers_file())
        return (*self._peers_file(), *self._copying.last(now, self.sharing.known(), self.sharing.store))

    def _peers_file(self) -> list[FileChange]:
        """One that left for good is not to come back by itself. One who met nobody keeps what it had, and
        those who failed are asked too, after the others: the one cut off may be this agent."""
        if self.has_left and not self._rejoins:
            return [RemoveFile(PEERS)]
        asked = (MemberStatus.ALIVE, MemberStatus.SUSPECT, MemberStatus.FAILED)
        members = [member for member in self.membership.members() if member.standing.status in asked]
        members.sort(key=lambda member: not member.standing.is_present)
        addresses = [list(member.profile.address) for member in members]
        return [WriteFile(PEERS, cbor2.dumps(addresses[:PEERS_SAVED_MAX]))] if addresses else []

    # Effects.

    def _absorb(self, now: Now, effects: list[gossip_effects.Effect], request: int = 0) -> list[Effect]:
        absorbed: list[Effect] = []
        is_shared = False
        for effect in effects:
            if type(effect) is Send:
                absorbed.append(effect)
            elif type(effect) is CarriedHeard:
                self.sharing.replication.hear(now, effect.sender, effect.payloads)
                is_shared = True
            else:
                self._take(now, effect, request, absorbed)
                is_shared = is_shared or type(effect) in _CONCERN_THE_CATALOG
        return [*absorbed, *self.sharing.settled(now)] if is_shared else absorbed

    def _take(self, now: Now, effect: gossip_effects.Effect, request: int, absorbed: list[Effect]) -> None:
        match effect:
            case MemberChanged():
                leader = self.servers.leader
                self._member_changed(now, effect)
                absorbed.append(effect)
                absorbed += self._leader_moved(leader)
            case ConflictSeen():
                absorbed.append(self.conflicts.seen(now, effect))
            case IsolationChanged():
                self._look_whether_held(now)
                absorbed.append(effect)
            case Paused(for_ns):
                self.absence.paused(now, for_ns)
                absorbed.append(effect)
            case ComparedAgain():
                self.absence.compared_again(now)
            case EventHeard(event):
                self.events.heard(event)
            case GenerationRaised(generation):
                self._keep_generation(generation)
                self.sharing.renewed(now, generation)
            case GenerationAdvised(generation):
                self._keep_generation(generation)
                # What was published under the generation of a wild clock, nobody takes.
                self.sharing.replication.renew(now, generation)
            case RootHeard(sender, root):
                self.sharing.replication.root_heard(now, sender, root)
            case JoinEnded(address, error):
                absorbed += self._join_ended(address, error)
            case LeaveDone():
                self.has_left = bool(self.membership.own_standing.departure)
                absorbed += [Reply(waiting, None) for waiting in self._leaving]
                self._leaving.clear()
            case GossipRefused(sentence):
                absorbed.append(Reply(request, Refusal(RefusalCause.FAILED, sentence)))
            case _:
                absorbed.append(effect)

    def _member_changed(self, now: Now, change: MemberChanged) -> None:
        if change.after is not None and change.after.status is MemberStatus.FAILED:
            self._look_whether_held(now)
        self.presence.changed(now, change)
        self.sharing.member_changed(now, change)
        self.servers.changed(change)
        servers, leader = self.servers.shorts, self.servers.leader_short
        self.sharing.replication.servers_changed(now, servers, is_one=self._is_server, leader=leader)
        self.conflicts.changed(change)
        if self._save_peers_ns is None and self._copying is not None:
            wait_ns = PEERS_SAVE_NS if self._has_saved_peers else FIRST_PEERS_SAVE_NS
            self._save_peers_ns = now.monotonic_ns + wait_ns

    def _leader_moved(self, before: bytes | None) -> list[Effect]:
        servers = self.servers
        told = servers.leader or before
        if told is None or servers.leader == before:
            return []
        member = self.membership.member_by_id(told)
        profile = member.profile if member is not None else None
        if told == self.membership.me.node_id:
            profile = self.membership.me
        name, address = (profile.name, profile.address) if profile is not None else ("", None)
        is_leading = servers.leader is not None
        return [LeaderChanged(told, name, address, is_leading, servers.term, servers.cause)]

    def _look_whether_held(self, now: Now) -> None:
        holds = self.membership.holds_last_known(now)
        if holds and not self.presence.holds_last_known:
            self._held_since_ns = now.monotonic_ns
        within_ns = self.membership.silence_ns_max(now)
        self.presence.hold(now, holds=holds, since_ns=now.monotonic_ns - within_ns)
        self._look_ns = now.monotonic_ns + HOLD_LOOK_NS if holds else None

    def _keep_generation(self, generation: int) -> None:
        self._changes.append(_generation_file(generation))

    # Joining.

    def _join_ended(self, address: Address, error: str) -> list[Reply]:
        """It answers all who asked for this address; each is told once none of its own is left."""
        replies = []
        for request, join in list(self._joins.items()):
            if address not in join.waits_for:
                continue
            join.waits_for.discard(address)
            join.is_joined = join.is_joined or not error
            self.absence.expects_others &= not join.is_joined
            if error:
                host = f"[{address.host}]" if ":" in address.host else address.host
                join.errors.append(f"{host}:{address.port}: {error}")
            if not join.waits_for:
                del self._joins[request]
                sentence = "; ".join(join.errors)
                refusal = None if join.is_joined else Refusal(RefusalCause.FAILED, sentence)
                replies.append(Reply(request, refusal))
        return replies


def _generation_file(generation: int) -> WriteFile:
    return WriteFile(GENERATION, str(generation).encode())


_CONCERN_THE_CATALOG = frozenset({MemberChanged, RootHeard, GenerationRaised, GenerationAdvised})
