"""How a server with an empty log comes to belong to a cluster: it founds one with the others, or one takes it
in.

Founding writes the first snapshot (the membership and an empty state) and then the cluster's id, which is the
snapshot's hash: a start between the two finishes it. Being taken in is a message of consensus that is
addressed to this very log, whose id was drawn at random: the leader got it from us, when it asked who we are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus.machine import StateMachine
from adsum.consensus.settings import ServerSettings
from adsum.net.calls import CallError
from adsum.raft.batch import LogChange
from adsum.raft.messages import Message, MessageStamp
from adsum.raft.types import BOOTSTRAP_INDEX, MemberId, Restored, bootstrap
from adsum.servers.bootstrap import (
    AliveServer,
    FoundNow,
    KeepWaiting,
    ServerStanding,
    cluster_id_of,
    decide,
    hindrance,
    to_ask,
)
from adsum.servers.wire import WORD_CHARACTERS_MAX
from adsum.storage.files import DiskFull
from adsum.storage.raft_log import RaftLog

STANDING = "standing"
ASK_S = 2.0
INTERVAL_S = 0.5

log = logging.getLogger("raft")


class AsksFounders(Protocol):
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class Founding:
    """Done before there is a driver; until then nobody else writes the log."""

    def __init__(
        self,
        raft_log: RaftLog,
        restored: Restored,
        machine: StateMachine,
        settings: ServerSettings,
        asks: AsksFounders,
        alive: Callable[[], Sequence[AliveServer]],
    ) -> None:
        self.restored = restored
        self._log = raft_log
        self._machine = machine
        self._settings = settings
        self._asks = asks
        self._alive = alive
        self._adopted: MessageStamp | None = None
        self._has_news = trio.Event()
        self._said = ""

    def standing(self) -> ServerStanding:
        identity, raft_log = self._log.identity, self._log
        is_empty = raft_log.last_index == 0 and raft_log.snapshot is None
        settings = self._settings
        return ServerStanding(
            identity.member, settings.datacenter, settings.expect, identity.cluster, is_empty
        )

    def hear(self, message: Message) -> None:
        """Before we are of any cluster."""
        own = self.standing()
        if message.target == own.member and message.stamp.cluster_id and not own.cluster_id and own.is_empty:
            self._adopted = message.stamp
            self._has_news.set()

    async def until_member(self) -> None:
        """The disk's errors pass through. `restored` is what the core begins with."""
        while not self._log.identity.cluster:
            try:
                await self._try()
            except DiskFull as error:
                log.error("no cluster yet: %s; free some space", error)
                await trio.sleep(INTERVAL_S)

    async def _try(self) -> None:
        if self.restored.snapshot.index:  # founded, and then there was no room to say of which cluster
            await trio.to_thread.run_sync(finish_founding, self._log, self.restored)
        elif self._adopted is not None:
            await self._join(self._adopted)
        elif isinstance(decision := await self._decide(), FoundNow):
            await trio.to_thread.run_sync(self._found, decision)
        else:
            self._say(decision)
            with trio.move_on_after(INTERVAL_S):
                await self._has_news.wait()

    async def _decide(self) -> FoundNow | KeepWaiting:
        own, alive = self.standing(), self._alive()
        reason = hindrance(own, alive)
        if reason is not None:
            return KeepWaiting(reason)
        answers: dict[str, ServerStanding | None] = {}
        async with trio.open_nursery() as nursery:
            for server in to_ask(own, alive):
                nursery.start_soon(self._ask, server.node, answers)
        return decide(self.standing(), self._alive(), answers)

    async def _ask(self, node: str, answers: dict[str, ServerStanding | None]) -> None:
        try:
            answers[node] = decoded(await self._asks.ask_once(node, STANDING, b"", timeout_s=ASK_S))
        except CallError:
            answers[node] = None

    async def _join(self, stamp: MessageStamp) -> None:
        await trio.to_thread.run_sync(partial(self._log.join, stamp.cluster_id, stamp.epoch))
        log.info("this server was taken in by cluster %s", stamp.cluster_id)

    def _found(self, found: FoundNow) -> None:
        meta = bootstrap(found.configuration)
        making = self._log.snapshots.make(meta)
        for piece in self._machine.snapshot():
            making.write(piece)
        self._log.append([LogChange(install=making.finish())])
        self.restored = Restored(snapshot=meta)
        self._log.join(found.cluster_id, 0)
        names = ", ".join(member.node for member in found.configuration.voters)
        log.info("cluster %s was founded by %s", found.cluster_id, names)

    def _say(self, wait: KeepWaiting) -> None:
        """Each reason once."""
        if wait.reason != self._said:
            log.info("no cluster yet: %s", wait.reason)
            self._said = wait.reason


def finish_founding(raft_log: RaftLog, restored: Restored) -> None:
    """The start before this one ended between the first snapshot and the cluster's id."""
    if not raft_log.identity.cluster and restored.snapshot.index == BOOTSTRAP_INDEX:
        raft_log.join(cluster_id_of(restored.snapshot.configuration), 0)


def encoded(standing: ServerStanding) -> bytes:
    member = standing.member
    return cbor2.dumps(
        [
            member.node,
            member.log,
            standing.datacenter,
            standing.expect,
            standing.cluster_id,
            standing.is_empty,
        ]
    )


def decoded(answer: bytes) -> ServerStanding | None:
    """None for what makes no sense: as good as no answer."""
    try:
        fields = strict_loads(answer)
    except BadEncoding:
        return None
    match fields:
        case [str(node), str(log_id), str(datacenter), int(expect), str(cluster_id), bool(is_empty)]:
            words = (node, log_id, datacenter, cluster_id)
            if max(map(len, words)) <= WORD_CHARACTERS_MAX:
                return ServerStanding(MemberId(node, log_id), datacenter, expect, cluster_id, is_empty)
    return None
