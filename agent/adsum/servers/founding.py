"""Carries out what a server wants that is of no cluster yet (`consensus.founding`), and the calls by which
servers tell each other who they are.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding
from adsum.consensus.errors import StoreBroken
from adsum.consensus.founding import FoundingCore
from adsum.effects import LogLine
from adsum.net.calls import CallError
from adsum.now import SECOND, Now
from adsum.raft.messages import Message
from adsum.raft.types import MemberId
from adsum.servers.driver import LEVELS
from adsum.servers.wire import WORD_CHARACTERS_MAX
from adsum.storage import log_jobs
from adsum.storage.raft_log import RaftLog

STANDING = "standing"

log = logging.getLogger("raft")


class AsksServers(Protocol):
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class Founding:
    """Done before there is a driver; until then nobody else writes the log."""

    def __init__(
        self,
        core: FoundingCore,
        raft_log: RaftLog,
        asks: AsksServers,
        alive: Callable[[], Sequence[AliveServer]],
        now: Callable[[], Now],
    ) -> None:
        self.core = core
        self._log = raft_log
        self._asks = asks
        self._alive = alive
        self._now = now
        self._woken = trio.Event()

    def hear(self, message: Message) -> None:
        self.core.receive(self._now(), message)
        self._woken.set()

    async def until_member(self) -> None:
        """Raises `StoreBroken` when the disk fails."""
        async with trio.open_nursery() as nursery:
            while not self.core.is_member:
                self._woken = trio.Event()
                now = self._now()
                for effect in self.core.tick(now, self._alive()):
                    if isinstance(effect, effects.AskStanding):
                        nursery.start_soon(self._ask, effect)
                    else:
                        await self._carry_out(effect)
                due_ns = self.core.deadline()
                wait_s = math.inf if due_ns is None else max(0, due_ns - now.monotonic_ns) / SECOND
                with trio.move_on_after(wait_s):
                    await self._woken.wait()
            nursery.cancel_scope.cancel()

    async def _carry_out(self, effect: effects.FoundingEffect) -> None:
        match effect:
            case effects.StoreFirstSnapshot() | effects.WriteClusterId():
                done = await trio.to_thread.run_sync(log_jobs.founding_done, effect, self._log)
                await self._report(done)
            case LogLine(severity, sentence):
                log.log(LEVELS[severity], "%s", sentence)
            case effects.ServerBroken(sentence):
                raise StoreBroken(sentence)

    async def _report(self, report: reports.FoundingReport) -> None:
        for effect in self.core.report(self._now(), report):
            await self._carry_out(effect)
        self._woken.set()

    async def _ask(self, asked: effects.AskStanding) -> None:
        await self._report(reports.StandingAnswered(asked.ticket, await ask_standing(self._asks, asked.node)))


async def ask_standing(asks: AsksServers, node: str) -> ServerStanding | None:
    """None: no answer, or one that makes no sense."""
    try:
        return decoded(await asks.ask_once(node, STANDING, b"", timeout_s=effects.ASK_S))
    except CallError:
        return None


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
