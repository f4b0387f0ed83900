"""The keeper of sessions on a server: a task that keeps its time, its way to consensus, and what servers ask
each other about hosts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio
from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from adsum.consensus.commands import ProposalUrgency
from adsum.consensus.core import ConsensusCore
from adsum.consensus.errors import NoCluster
from adsum.logs.faults import Faults
from adsum.net.calls import CallError
from adsum.now import SECOND, Now
from adsum.raft.types import Term
from adsum.servers import wire
from adsum.servers.driver import Driver
from adsum.servers.requests import AsksLeader
from adsum.servers.session_keeping import SessionKeeping
from adsum.sessions.effects import VERDICT_S
from adsum.sessions.sees import HostSeen, HostVerdict, SeesHosts
from adsum.sessions.settings import KeeperSettings
from adsum.store.machine import StoreMachine

VERDICT = "session.verdict"
NODE_ID_BYTES = 16
FAULTY_TICK_PAUSE_S = 1.0  # what was due may still be, and must not take all of the loop


class VerdictTold(Struct, frozen=True, array_like=True):
    verdict: int
    generation: int
    is_isolated: bool  # whoever tells it: then it means nothing


_encode = Encoder().encode
_decode = Decoder(VerdictTold).decode


class SessionRim:
    """It is a `LeadersDoor`."""

    def __init__(
        self,
        me: str,
        machine: StoreMachine,
        sees: SeesHosts,
        driver: Callable[[], Driver | None],
        asks: AsksLeader,
        name_of: Callable[[str], str],
        now: Callable[[], Now],
        settings: KeeperSettings,
        faults: Faults,
    ) -> None:
        self.name_of = name_of
        self._driver = driver
        self._sees = sees
        self._asks = asks
        self._now = now
        self._faults = faults
        self._nursery: trio.Nursery | None = None
        self._woken = trio.Event()
        self.keeping = SessionKeeping(me, machine, sees, self, now, settings)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                self._woken = trio.Event()
                try:
                    self.keeping.tick()
                except Exception as error:
                    self._faults.dropped("tick", error)
                    await trio.sleep(FAULTY_TICK_PAUSE_S)
                due_ns = self.keeping.deadline()
                due_s = math.inf
                if due_ns is not None:
                    due_s = trio.current_time() + max(0, due_ns - self._now().monotonic_ns) / SECOND
                with trio.move_on_at(due_s):
                    await self._woken.wait()

    async def answer_verdict(self, body: bytes) -> bytes:
        """To another server, that leads."""
        if len(body) != NODE_ID_BYTES:
            raise wire.UnreadableMessage("no node id")
        seen = self._sees.host((body, ""))
        return _encode(VerdictTold(seen.verdict, seen.generation, self._sees.is_isolated))

    # For `SessionKeeping`.

    @property
    def core(self) -> ConsensusCore | None:
        driver = self._driver()
        return driver.core if driver is not None else None

    def propose(self, data: bytes, answered: Callable[[bytes | Exception], None], term: int) -> None:
        self._running().propose(data, answered, term=Term(term), urgency=ProposalUrgency.SESSION)

    def read(self, answered: Callable[[int | Exception], None]) -> None:
        self._running().read(answered)

    def ask_verdict(self, voter: str, node_id: bytes, answered: Callable[[HostSeen | None], None]) -> None:
        assert self._nursery is not None, "only a tick asks"
        self._nursery.start_soon(self._ask, voter, node_id, answered)

    def wake(self) -> None:
        self._woken.set()

    async def _ask(self, voter: str, node_id: bytes, answered: Callable[[HostSeen | None], None]) -> None:
        seen = None
        try:
            told = _decode(await self._asks.ask_once(voter, VERDICT, node_id, timeout_s=VERDICT_S))
            if not told.is_isolated:
                seen = HostSeen(HostVerdict(told.verdict), told.generation)
        except (CallError, DecodeError, ValueError):
            pass  # it is as good as no answer
        answered(seen)

    def _running(self) -> Driver:
        driver = self._driver()
        if driver is None:
            raise NoCluster("this server belongs to no cluster yet")
        return driver
