"""The catalog between agents, inside the composite: own items go out, everybody else's come in.

    member_changed(now, …)    who replicates with us, and for whom

What this agent publishes comes here when it changes. What gossip carries and members ask is for `replication`
itself, and what that wants of gossip is given to it here and now; what is left are questions to members. A
change of an owner moves the view before anything else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from adsum.agent.deadlines import earliest
from adsum.agent.effects import Effect
from adsum.agent.presence import Presence
from adsum.agent.remote_catalog import RemoteCatalogView
from adsum.agent.saved_catalog import KnownOwner, KnownStore, SavedCopy, SavedOwner, recalled, told_of
from adsum.catalog import records
from adsum.catalog.definitions import CheckStatus as Verdict
from adsum.catalog.own_writer import OwnCatalogWriter, OwnChange
from adsum.catalog.replication.core import Replication
from adsum.catalog.replication.effects import (
    AskPeer,
    CarryThis,
    Confirmed,
    ForeignNews,
    OwnerChanged,
    RootMoved,
)
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.publisher import OwnIdentity, Unpublishable
from adsum.catalog.replication.pushes import Urgency
from adsum.catalog.replication.store_news import StoreNews
from adsum.effects import AskMember, LogLine, Refusal, RefusalCause, Reply, Severity
from adsum.gossip.commands import Carry, SetRoot
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import MemberChanged
from adsum.gossip.order import MemberStatus
from adsum.now import MILLISECOND, MINUTE, Now
from adsum.owners import STORE

RENEWED_EVERY_NS = MINUTE
URGENCY = {
    Verdict.CRITICAL: Urgency.CRITICAL,
    Verdict.WARNING: Urgency.WARNING,
    Verdict.PASSING: Urgency.PASSING,
}


class CatalogSync:
    def __init__(
        self,
        now: Now,
        gossip: GossipCore,
        published: OwnCatalogWriter,
        presence: Presence,
        random: Random,
        keep_generation: Callable[[int], None],  # on disk before the next life begins
        interner: Interner | None = None,
    ) -> None:
        membership = gossip.membership
        identity = OwnIdentity(membership.me.node_id, membership.own_standing.generation)
        self.replication = Replication(now, identity, random, interner, membership.clocks)
        self.mirror = RemoteCatalogView(published.view, presence)
        self._gossip = gossip
        self._membership = membership
        self._own = membership.me.short
        self._presence = presence
        self._logs: list[LogLine] = []
        self._keep_generation = keep_generation
        self._foreign_generation = 0  # told of me, and not outdone yet
        self._foreign_relay = b""  # who told it
        self._renew_ns = 0  # not before
        self._saved: dict[bytes, SavedOwner] = {}  # shown from the last run's copy, and not met since
        published.hand_on_to(now, self._publish)

    # My own.

    def _publish(self, now: Now, change: OwnChange) -> None:
        publisher, now_ns, check = self.replication.publisher, now.monotonic_ns, change.check
        if change.encoded is None:
            if change.state_key:
                publisher.remove(now_ns, change.state_key)
            publisher.remove(now_ns, change.key)
            return
        try:
            publisher.put(now_ns, change.key, change.encoded)
            if check is not None:
                state = records.encode_state(publisher.number(change.key), check)
                publisher.put(now_ns, change.state_key, state, URGENCY[check.status])
        except Unpublishable as problem:
            self._logs.append(LogLine(Severity.WARN, f"not published to other agents: {problem}"))

    # What gossip brought.

    def member_changed(self, now: Now, change: MemberChanged) -> None:
        """After the view knows it."""
        short, after = change.member.short, change.after
        if short == self._own:
            return
        if after is None or after.status is MemberStatus.LEFT:
            if self._saved.pop(short, None) is not None:
                self.mirror.forget(now, short)
            self.replication.member_left(now, short, _over(change))
        elif after.status is MemberStatus.FAILED:
            if short in self._saved:
                self._meet(now, short, after.generation)
            self.replication.member_failed(now, short)
        elif change.before is None or not change.before.is_present:
            self._meet(now, short, after.generation)
        for appeared in self._presence.take_appeared():
            self.mirror.show(now, appeared)
        self._names_are_free(now)

    def store_published(self, now: Now, news: StoreNews) -> None:
        """By the state machine of this server."""
        self.replication.publish_store(now, news)

    def _meet(self, now: Now, short: bytes, generation: int) -> None:
        """Dead or alive; from here on gossip says how it stands."""
        self.replication.joined(now, short, generation)
        saved = self._saved.pop(short, None)
        if saved is not None:
            self.replication.recall(now, short, saved.spans)

    def renewed(self, now: Now, generation: int) -> None:
        """Gossip began another life, for the last one is over to others: so is what was published in it."""
        raised = max(generation, self.replication.publisher.state.generation + 1)
        if raised > generation:
            self._keep_generation(raised)
        self.replication.renew(now, raised)

    # What the last run knew.

    def restore(self, now: Now, copy: SavedCopy) -> None:
        """Shown at once; each node's owner is asked when gossip meets it. One of this agent's own name had
        it before, or comes from the host whose data folder this is a copy of."""
        own_name = self._membership.me.name.casefold()
        for saved in copy.owners:
            short = saved.profile.short
            if short == self._own or saved.profile.name.casefold() == own_name:
                continue
            self._saved[short] = saved
            self._presence.show_saved(now, saved.profile, is_shown=saved.is_shown)
            state = recalled(saved)
            if state is not None:
                self.mirror.changed(now, short, None, state)
        self._presence.take_appeared()
        told = told_of(copy.store)
        if told is not None:
            age_ns = max(0, now.wall_ms - copy.store_wall_ms) * MILLISECOND
            self.replication.recall_store(now, told, age_ns)

    @property
    def saved(self) -> list[SavedOwner]:
        """Those that are shown from the copy."""
        return list(self._saved.values())

    def saved_named(self, name: str) -> SavedOwner | None:
        wanted = name.casefold()
        return next((each for each in self.saved if each.profile.name.casefold() == wanted), None)

    @property
    def shows_saved(self) -> bool:
        return bool(self._saved)

    def forget_saved(self, now: Now) -> None:
        """Nobody has met them: they are gone, or never to be met from here."""
        for saved in self.saved:
            self.forget_one(now, saved)

    def forget_one(self, now: Now, saved: SavedOwner) -> None:
        del self._saved[saved.profile.short]
        self.mirror.forget(now, saved.profile.short)
        self._presence.hide_saved(now, saved.profile)
        self._names_are_free(now)

    def _names_are_free(self, now: Now) -> None:
        for name in self._presence.take_freed():
            self.mirror.external.name_is_free(now, name)

    def known(self) -> Iterator[KnownOwner]:
        """All other owners, for the next copy."""
        for member in self._membership.members():
            state = self.replication.state(member.short)
            if state is not None and not member.standing.departure:
                yield KnownOwner(member.profile, state, self._presence.shows(member.profile.name))

    @property
    def store(self) -> KnownStore | None:
        """What servers publish, for the next copy."""
        state = self.replication.state(STORE)
        if state is None or not state.version:
            return None
        return KnownStore(state, self.replication.store_gone_ns())

    # Time.

    def deadline(self) -> int | None:
        return earliest(self.replication.deadline(), self._renew_ns if self._foreign_generation else None)

    # Effects.

    def settled(self, now: Now) -> list[Effect]:
        wanted: list[Effect] = []
        if self._foreign_generation:
            self._begin_again(now)
        for effect in self.replication.take_effects():
            match effect:
                case CarryThis(key, payload, is_urgent, is_heard):
                    wanted += self._gossip.command(now, Carry(key, payload, is_urgent, is_heard))
                case RootMoved(root):
                    wanted += self._gossip.command(now, SetRoot(root))
                case OwnerChanged(owner, before, after):
                    if owner != self._own:
                        self.mirror.changed(now, owner, before, after)
                case AskPeer(ticket, to, method, body):
                    member = self._membership.member(to)
                    address = member.profile.address if member is not None else None
                    wanted.append(AskMember(ticket, address, method, body))
                case Confirmed(request, error):
                    wanted.append(Reply(request, Refusal(RefusalCause.FAILED, error) if error else None))
                case ForeignNews(relay, generation, _version):
                    self._foreign_generation = max(generation, self._foreign_generation)
                    self._foreign_relay = relay
                    self._begin_again(now)
        logs, self._logs = self._logs, []
        return [*wanted, *logs]

    def _begin_again(self, now: Now) -> None:
        """Somebody tells of me what I never said: from here on all that I say is newer.

        Once a while: a copy of me that runs elsewhere does the same, and neither of us will be the last."""
        if now.monotonic_ns < self._renew_ns:
            return
        mine = self.replication.publisher.state.generation
        raised = max(self._foreign_generation, mine) + 1
        self._foreign_generation = 0
        self._renew_ns = now.monotonic_ns + RENEWED_EVERY_NS
        self._keep_generation(raised)
        self.replication.renew(now, raised)
        relay = self._membership.name_of(self._foreign_relay)
        sentence = (
            f"{relay} knows a later state of this host's services than this "
            "agent ever published: its data folder was copied or lost. All of it is published anew. If a "
            "copy runs elsewhere, stop it and empty its data_dir."
        )
        self._logs.append(LogLine(Severity.WARN, sentence))


def _over(change: MemberChanged) -> int:
    """The generation that is over; none if it was present, gave way to another, and may be right."""
    if change.after is not None:
        return change.after.generation
    return 0 if change.before is None or change.before.is_present else change.before.generation
