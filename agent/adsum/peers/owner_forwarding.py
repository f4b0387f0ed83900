"""Other agents as owners of what they registered: what only they can change or know, asked of them.

A node is changed by its own agent alone. Whoever asks this agent for such a change is answered when the owner
has made it, on its disk, and this agent's own copy shows it, or a second later. Owners that are not present
cannot be asked; the error names them. Each change may be asked for twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import Submit
from adsum.agent.presence import uuid_bytes
from adsum.catalog.indexes import Family
from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.view import CatalogHost, View
from adsum.gossip.commands import ForceLeave
from adsum.gossip.members import Member
from adsum.mutable import dataclass
from adsum.net.calls import CallError, Declined, NotSent, Unanswered
from adsum.net.framing import MalformedFrame, read
from adsum.peers.owner_calls import (
    AFTER_OWNER,
    DEREGISTER,
    DEREGISTRATION,
    OWNERS,
    RETAG,
    RETAGGING,
    TOLD_OWNERS,
    OwnerRow,
)
from adsum.peers.peer_handlers import (
    FAILED,
    REFUSED,
    SERF_HEALTH_SENTENCE,
    PeerHandlers,
    deregistration,
    retagging,
)
from adsum.peers.peer_rpc import AsksMembers
from adsum.topics import Topic, WaitsOnTopics, Watching

log = logging.getLogger("agent")

ASK_S = 5.0
SEEN_S = 1.0
PAGES_MAX = 64

NO_OWNER = 'No agent owns the node "{}": `adsum catalog owners` lists whose agents are known here'
PRESENT = (
    'The agent of node "{0}" is present, and the node comes and goes with it: `adsum leave` on that host '
    "takes it off, or deregister single services and checks."
)
GONE = (
    'The agent of node "{0}" owns this and cannot be asked: {1}. `adsum explain {0}` tells why; if it will '
    "not come back, `adsum force-leave {0}` takes the node off as a whole."
)
UNKNOWN = 'The agent of node "{}" did not answer ({}); it may have done it all the same'


class OwnerError(Exception):
    """Nothing was changed, unless the sentence says otherwise."""


class NoOwner(OwnerError):
    """No agent has such a node."""


class OwnerRefuses(OwnerError):
    """The caller must ask for something else."""


class OwnerAway(OwnerError):
    """It cannot be asked, did not answer, or could not do it; the same may work later."""


@dataclass(slots=True)
class OwnersCounters:
    forwarded: int = 0
    forward_failures: int = 0
    unseen: int = 0  # done, and not in our own copy a second later


class OwnerForwarding:
    def __init__(
        self,
        cluster: ClusterState,
        view: View,
        mine: PeerHandlers,
        peer_rpc: AsksMembers,
        watches: WaitsOnTopics,
        submit: Submit,
    ) -> None:
        self.counters = OwnersCounters()
        self.mine = mine
        self._cluster = cluster
        self._view = view
        self._peer_rpc = peer_rpc
        self._watches = watches
        self._submit = submit

    # Changes: each raises an `OwnerError`, or `Refused`.

    async def deregister(self, node: str, service_id: str, check_id: str) -> None:
        """A service, a check, or with neither the node. A node that is not there is gone already."""
        host = self._view.node(node)
        if host is None:
            return
        if not service_id and not check_id:
            await self._deregister_node(host)
        elif self._is_mine(host):
            await self._do_here(self.mine.deregister(service_id, check_id))
        else:
            if not service_id and check_id == SERF_HEALTH:
                raise OwnerRefuses(SERF_HEALTH_SENTENCE)
            change = deregistration(service_id, check_id)
            await self._change(host, change, DEREGISTER, DEREGISTRATION.bytes_of(service_id, check_id))
            family = Family.NODE if service_id else Family.NODE_CHECKS

            def is_gone() -> bool:
                found = self._found(host)
                if found is None:
                    return True
                return service_id not in found.instances if service_id else check_id not in found.checks

            await self._until_seen(host, family, is_gone)

    async def retag(self, node: str, service_id: str, tags: tuple[str, ...]) -> None:
        host = self._host(node)
        if self._is_mine(host):
            await self._do_here(self.mine.retag(service_id, tags))
            return
        change = retagging(service_id, tags)
        await self._change(host, change, RETAG, RETAGGING.bytes_of(service_id, tags))

        def is_retagged() -> bool:
            found = self._found(host)
            instance = found.instances.get(service_id) if found is not None else None
            return instance is None or instance.service.value.tags == tags

        await self._until_seen(host, Family.NODE, is_retagged)

    async def _deregister_node(self, host: CatalogHost) -> None:
        """One whose agent is dead is declared gone, as by force-leave: everywhere, with all that is on it."""
        member = self._member(host)
        if self._is_mine(host) or (member is not None and member.standing.is_present):
            raise OwnerRefuses(PRESENT.format(host.name))
        if member is None:
            raise OwnerAway(GONE.format(host.name, "this agent has not met it since it started"))
        await self._submit(ForceLeave(member.profile.name))
        await self._until_seen(host, Family.NODES, lambda: self._found(host) is None, topic="")

    # What a member holds.

    async def rows_of(self, node: str) -> list[OwnerRow]:
        """Everything that the agent of a node has of every owner."""
        host, rows, after = self._host(node), list[OwnerRow](), b""
        for _ in range(PAGES_MAX):
            answer = await self._forward(host, OWNERS, AFTER_OWNER.bytes_of(after))
            try:
                page, is_more = read(TOLD_OWNERS, answer)
            except MalformedFrame as problem:
                raise OwnerAway(f'The agent of node "{host.name}" answers with {problem}') from None
            rows += page
            if not is_more or not page:
                break
            after = page[-1].owner
        return rows

    # Whose it is.

    def _host(self, node: str) -> CatalogHost:
        host = self._view.node(node)
        if host is None:
            raise NoOwner(NO_OWNER.format(node))
        return host

    def _found(self, host: CatalogHost) -> CatalogHost | None:
        """As it is by now."""
        found = self._view.node(host.name)
        return found if found is not None and found.owner == host.owner else None

    def is_mine(self, node: str) -> bool:
        return self._is_mine(self._host(node))

    def _is_mine(self, host: CatalogHost) -> bool:
        return uuid_bytes(host.owner) == self._cluster.membership.me.node_id

    def _member(self, host: CatalogHost) -> Member | None:
        return self._cluster.membership.member_by_id(uuid_bytes(host.owner))

    # The way to it.

    async def ask(self, host: CatalogHost, method: str, body: bytes, *, timeout_s: float) -> bytes:
        """Raises a `CallError`, and `OwnerAway` when there is nobody to ask."""
        member = self._member(host)
        if member is None:
            raise OwnerAway(GONE.format(host.name, "this agent has not met it since it started"))
        if not member.standing.is_present:
            raise OwnerAway(GONE.format(host.name, f"it has {member.status.value}"))
        return await self._peer_rpc.ask(member.profile.address, method, body, timeout_s=timeout_s)

    async def _change(self, host: CatalogHost, change: str, method: str, body: bytes) -> None:
        try:
            await self._forward(host, method, body)
        except OwnerError as error:
            log.info("not done by the agent of node %s, as asked here: %s: %s", host.name, change, error)
            raise
        log.info("done by the agent of node %s, as asked here: %s", host.name, change)

    async def _forward(self, host: CatalogHost, method: str, body: bytes) -> bytes:
        self.counters.forwarded += 1
        try:
            return await self.ask(host, method, body, timeout_s=ASK_S)
        except (OwnerAway, CallError) as error:
            self.counters.forward_failures += 1
            match error:
                case OwnerAway():
                    raise
                case Declined(code=code, text=text) if code == REFUSED:
                    raise OwnerRefuses(text) from None
                case Unanswered():
                    sentence = UNKNOWN.format(host.name, error)
                case NotSent():
                    sentence = f'The agent of node "{host.name}" could not be asked: {error}'
                case _:
                    sentence = f'The agent of node "{host.name}" did not do it: {error}'
            raise OwnerAway(sentence) from None

    async def _do_here(self, doing: Awaitable[None]) -> None:
        try:
            await doing
        except Declined as no:
            raise (OwnerAway if no.code == FAILED else OwnerRefuses)(no.text) from None

    async def _until_seen(
        self, host: CatalogHost, family: Family, is_seen: Callable[[], bool], *, topic: str | None = None
    ) -> None:
        """At most a second: our copy will show it, only later."""
        watched = Topic(family, host.name.lower() if topic is None else topic)
        with trio.move_on_after(SEEN_S) as patience:
            while not is_seen():
                moved = trio.Event()
                with Watching(self._watches, (watched,), moved.set):
                    await moved.wait()
        self.counters.unseen += patience.cancelled_caught
