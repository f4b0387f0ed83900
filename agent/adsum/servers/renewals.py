"""Renewals of sessions: gathered here for a moment, and renewed by whoever leads, for only a proven leader
can say that a session goes on.

A batch of another agent's is tried once, for that agent holds it and knows other servers. What this server's
own clients ask is held and tried again. A renewal that was done twice was done once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import trio
from msgspec import DecodeError

from adsum import forwarded
from adsum.consensus.errors import NoLeader, Unavailable
from adsum.forwarded import RENEWALS_MAX, Renewed, RenewSessions
from adsum.kv import KeyCause, KeyRefusal
from adsum.net.calls import CallError, Declined
from adsum.raft.types import MemberId
from adsum.servers import wire
from adsum.servers.requests import UNAVAILABLE, AsksLeader, OneAnswer
from adsum.session import Session
from adsum.store_requests import RenewAnswered

GATHERING_S = 0.005
BATCHES_APART_S = 0.1  # each is a question to the quorum
RETRY_S = 0.05
PASSED_ON_S = 1.0  # it may have noticed that it leads no more, and the agent asks another
WAITING_MAX = 32_768  # renewals of this server's own clients
NOBODY_KEEPS = "nobody keeps sessions here"
MALFORMED_ANSWER = "the leader's answer to renewals makes no sense to this version"
TOO_MANY = f"{WAITING_MAX} renewals of sessions wait for a leader"

# In the order of their ids; None: that session is gone.
Renewals: TypeAlias = "list[Session | None]"
AllRenewed: TypeAlias = Callable[["Renewals | Exception"], None]


class KeepsSessions(Protocol):
    """On the leader. It refuses where this server does not lead, or not any more."""

    def renew(self, ids: Sequence[str], answered: AllRenewed) -> None: ...


class RenewsSessions(Protocol):
    """As the endpoints of this server, and the questions of agents, see it."""

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        """For a client of this server. Returns what `give_up` takes."""

    def renew_all(self, ids: Sequence[str], answered: AllRenewed) -> object:
        """Tried once."""

    def give_up(self, asked: object) -> None: ...


class RenewsWithoutLeader:
    """It `RenewsSessions`, where nothing keeps them."""

    def renew(self, _session_id: str, answered: RenewAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_LEADER, NOBODY_KEEPS))
        return None

    def renew_all(self, _ids: Sequence[str], answered: AllRenewed) -> object:
        answered(Unavailable(NOBODY_KEEPS))
        return None

    def give_up(self, asked: object) -> None:
        """It was answered at once."""


class KnowsLeader(Protocol):
    @property
    def me(self) -> MemberId: ...

    @property
    def leader(self) -> MemberId | None: ...

    @property
    def waits_for(self) -> str: ...


class ServerRenewals:
    """It `RenewsSessions`."""

    def __init__(self, server: KnowsLeader, keeper: KeepsSessions, links: AsksLeader, hold_s: float) -> None:
        self.passed_on = 0  # batches
        self._server = server
        self._keeper = keeper
        self._links = links
        self._hold_s = hold_s
        self._gathered: dict[_Renewal, None] = {}
        self._next_batch_s = 0.0  # not before
        self._waiting = 0
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        renewal = _Renewal(session_id, answered)
        if self._nursery is None or self._waiting >= WAITING_MAX:
            answered(KeyRefusal(KeyCause.BUSY, TOO_MANY))
            return None
        self._waiting += 1
        if not self._gathered:
            self._nursery.start_soon(self._renew_gathered)
        self._gathered[renewal] = None
        return renewal

    def renew_all(self, ids: Sequence[str], answered: AllRenewed) -> object:
        if self._nursery is None:
            answered(Unavailable("this server has not begun"))
            return None
        scope = trio.CancelScope()
        self._nursery.start_soon(self._renew_for_agent, scope, ids, answered)
        return scope

    def give_up(self, asked: object) -> None:
        if isinstance(asked, _Renewal):
            asked.is_over = True
        elif isinstance(asked, trio.CancelScope):
            asked.cancel()

    async def answer(self, body: bytes) -> bytes:
        """To another server, which takes this one for the leader."""
        try:
            ids = forwarded.decode_renewals(body).ids
        except DecodeError as error:
            raise wire.UnreadableMessage("no renewals") from error
        if self._server.leader != self._server.me:
            raise Declined(UNAVAILABLE, "this server does not lead")
        renewed = await self._once(ids)
        if isinstance(renewed, Exception):
            raise Declined(UNAVAILABLE, str(renewed))
        return forwarded.encode(Renewed(renewed))

    async def _renew_for_agent(
        self, scope: trio.CancelScope, ids: Sequence[str], answered: AllRenewed
    ) -> None:
        with scope:
            renewed = await self._once(ids)
            if not scope.cancel_called:
                answered(renewed)

    async def _renew_gathered(self) -> None:
        await trio.sleep_until(max(trio.current_time() + GATHERING_S, self._next_batch_s))
        now_s = trio.current_time()
        until_s, self._next_batch_s = now_s + self._hold_s, now_s + BATCHES_APART_S
        gathered, self._gathered = list(self._gathered), {}
        for place in range(0, len(gathered), RENEWALS_MAX):
            assert self._nursery is not None, "it runs within"
            self._nursery.start_soon(self._renew_batch, gathered[place : place + RENEWALS_MAX], until_s)

    async def _renew_batch(self, batch: list[_Renewal], until_s: float) -> None:
        ids = list(dict.fromkeys([renewal.session_id for renewal in batch]))
        renewed = await self._once(ids)
        while isinstance(renewed, Exception) and trio.current_time() < until_s:
            await trio.sleep(RETRY_S)
            renewed = await self._once(ids)
        self._waiting -= len(batch)
        if isinstance(renewed, Exception):
            cause = renewed.cause if isinstance(renewed, KeyRefusal) else KeyCause.NO_LEADER
            refusal = KeyRefusal(cause, f"it was held for {self._hold_s:.0f} s, and at last: {renewed}")
            for renewal in batch:
                renewal.end(refusal)
            return
        session_of = dict(zip(ids, renewed, strict=True))
        for renewal in batch:
            renewal.end(session_of[renewal.session_id])

    async def _once(self, ids: Sequence[str]) -> Renewals | Exception:
        leader = self._server.leader
        if leader is None:
            return NoLeader(self._server.waits_for)
        if leader == self._server.me:
            answer = OneAnswer[Renewals]()
            self._keeper.renew(ids, answer)
            try:
                return await answer.wait()
            except (KeyRefusal, Unavailable) as error:
                return error
        self.passed_on += 1
        body = forwarded.encode(RenewSessions(tuple(ids)))
        try:
            told = await self._links.ask_once(leader.node, forwarded.RENEW, body, timeout_s=PASSED_ON_S)
            renewed = forwarded.decode_renewed(told).sessions
        except CallError as error:
            return Unavailable(str(error))
        except DecodeError:
            return Unavailable(MALFORMED_ANSWER)
        return renewed if len(renewed) == len(ids) else Unavailable(MALFORMED_ANSWER)


class _Renewal:
    __slots__ = ("_answered", "is_over", "session_id")

    def __init__(self, session_id: str, answered: RenewAnswered) -> None:
        self.session_id = session_id
        self.is_over = False
        self._answered = answered

    def end(self, outcome: Session | KeyRefusal | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._answered(outcome)
