"""Carries out what a server wants that is of no cluster yet (`consensus.founding`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from adsum.consensus import effects
from adsum.consensus.bootstrap import AliveServer
from adsum.consensus.errors import StoreBroken
from adsum.consensus.founding import FoundingCore
from adsum.now import Now
from adsum.raft.messages import Message
from adsum.servers.standing import AskingLoop, AsksStandings
from adsum.storage import log_jobs
from adsum.storage.raft_log import RaftLog


class Founding:
    """Done before there is a driver; until then nobody else writes the log."""

    def __init__(
        self,
        core: FoundingCore,
        raft_log: RaftLog,
        asks: AsksStandings,
        alive: Callable[[], Sequence[AliveServer]],
        now: Callable[[], Now],
    ) -> None:
        self.core = core
        self._log = raft_log
        self._now = now
        self._loop = AskingLoop(core, asks, alive, now, self._carry_out)

    def hear(self, message: Message) -> None:
        self.core.receive(self._now(), message)
        self._loop.wake()

    async def until_member(self) -> None:
        """Raises `StoreBroken` when the disk fails."""
        await self._loop.run(lambda: self.core.is_member)

    async def _carry_out(self, effect: log_jobs.FoundingJob | effects.ServerBroken) -> None:
        if isinstance(effect, effects.ServerBroken):
            raise StoreBroken(effect.sentence)
        self._loop.report(await trio.to_thread.run_sync(log_jobs.founding_done, effect, self._log))
