"""Servers tell each other who they are. Two cores of consensus ask: one to found a cluster or to be taken in
by one (`consensus.founding`), one to take others in (`consensus.taking_in`). One loop keeps either going.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus.bootstrap import AliveServer, ServerStanding
from adsum.consensus.effects import ASK_S, AskStanding
from adsum.consensus.reports import StandingAnswered
from adsum.effects import LogLine
from adsum.net.calls import CallError
from adsum.now import SECOND, Now
from adsum.raft.changer import MEMBERS_MAX
from adsum.raft.types import MemberId
from adsum.servers.driver import LEVELS
from adsum.servers.wire import WORD_BYTES_MAX, UnreadableMessage

STANDING = "standing"

log = logging.getLogger("raft")


class AsksStandings(Protocol):
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class AskingCore(Protocol):
    def tick(self, now: Now, alive: Sequence[AliveServer]) -> Sequence[Any]: ...

    def report(self, now: Now, report: Any) -> Sequence[Any]: ...

    def deadline(self) -> int | None: ...


class AskingLoop:
    def __init__(
        self,
        core: AskingCore,
        asks: AsksStandings,
        alive: Callable[[], Sequence[AliveServer]],
        now: Callable[[], Now],
        carry_out: Callable[[Any], Awaitable[None]],
    ) -> None:
        """`carry_out` is given what only one of the cores wants."""
        self._core = core
        self._asks = asks
        self._alive = alive
        self._now = now
        self._carry_out = carry_out
        self._wanted = deque[Any]()
        self._woken = trio.Event()

    def wake(self) -> None:
        self._woken.set()

    def want(self, effect: Any) -> None:
        """Of the core, by a verb that is not this loop's."""
        self._wanted.append(effect)
        self.wake()

    def report(self, report: Any) -> None:
        self._wanted += self._core.report(self._now(), report)
        self.wake()

    async def run(self, is_done: Callable[[], bool] = lambda: False) -> None:
        async with trio.open_nursery() as nursery:
            while not is_done():
                self._woken = trio.Event()
                now = self._now()
                self._wanted += self._core.tick(now, self._alive())
                while self._wanted:
                    await self._perform(self._wanted.popleft(), nursery)
                due_ns = self._core.deadline()
                wait_s = math.inf if due_ns is None else max(0, due_ns - now.monotonic_ns) / SECOND
                with trio.move_on_after(wait_s):
                    await self._woken.wait()
            nursery.cancel_scope.cancel()

    async def _perform(self, effect: Any, nursery: trio.Nursery) -> None:
        match effect:
            case AskStanding():
                nursery.start_soon(self._ask, effect)
            case LogLine(severity, sentence):
                log.log(LEVELS[severity], "%s", sentence)
            case _:
                await self._carry_out(effect)

    async def _ask(self, asked: AskStanding) -> None:
        try:
            answer = await self._asks.ask_once(asked.node, STANDING, question(asked), timeout_s=ASK_S)
        except CallError:
            self.report(StandingAnswered(asked.ticket, None))
        else:
            self.report(StandingAnswered(asked.ticket, decoded(answer)))


def question(asked: AskStanding) -> bytes:
    return cbor2.dumps(list(asked.founders))


def founders_in(body: bytes) -> tuple[str, ...]:
    """Of a question."""
    try:
        nodes = _nodes(strict_loads(body))
    except BadEncoding as error:
        raise UnreadableMessage("not the CBOR we speak") from error
    if nodes is None:
        raise UnreadableMessage("no question who this server is")
    return nodes


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
            [list(voter) for voter in standing.voters],
            list(standing.sees),
            standing.is_asking,
        ]
    )


def decoded(answer: bytes) -> ServerStanding | None:
    """None for what makes no sense: as good as no answer."""
    try:
        fields = strict_loads(answer)
    except BadEncoding:
        return None
    match fields:
        case [
            str(node),
            str(log_id),
            str(datacenter),
            int(expect),
            str(cluster_id),
            bool(is_empty),
            list(rows),
            sees,
            bool(is_asking),
        ]:
            voters, nodes = _members(rows), _nodes(sees)
            is_short = all(map(_is_word, (node, log_id, datacenter, cluster_id)))
            if voters is not None and nodes is not None and is_short:
                me = MemberId(node, log_id)
                return ServerStanding(
                    me, datacenter, expect, cluster_id, is_empty, voters, nodes, is_asking=is_asking
                )
    return None


def _nodes(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > MEMBERS_MAX + 1:
        return None
    nodes = [each for each in value if isinstance(each, str) and _is_word(each)]
    return tuple(nodes) if len(nodes) == len(value) else None


def _members(rows: list[object]) -> tuple[MemberId, ...] | None:
    members = []
    for row in rows[: MEMBERS_MAX + 1]:
        match row:
            case [str(node), str(log_id)] if _is_word(node) and _is_word(log_id):
                members.append(MemberId(node, log_id))
            case _:
                return None
    return tuple(members) if len(members) <= MEMBERS_MAX else None


def _is_word(value: str) -> bool:
    """A longer one in the membership would make all messages unreadable that bring it to other servers."""
    return len(value.encode()) <= WORD_BYTES_MAX
