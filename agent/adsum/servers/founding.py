"""Carries out what a server wants that is of no cluster yet (`consensus.founding`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding
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
        self._alive = alive
        self._now = now
        self._questions = 0
        self._asking: dict[int, trio.MemorySendChannel[ServerStanding]] = {}
        self._loop = AskingLoop(core, asks, alive, now, self._carry_out)

    def hear(self, message: Message) -> None:
        self.core.receive(self._now(), message)
        self._loop.wake()

    def join_was_tried(self) -> None:
        """Or there was nobody to ask. Until this is called, this server founds no cluster."""
        self._loop.report(reports.JoinTried())

    async def standing_for(self, founders: tuple[str, ...]) -> ServerStanding:
        """What is told to who would found with these nodes: a consent when it is on disk."""
        self._questions += 1
        ticket = self._questions
        self._asking[ticket], answered = trio.open_memory_channel[ServerStanding](1)
        try:
            for effect in self.core.answer(ticket, founders, self._alive()):
                if isinstance(effect, effects.AnswerStanding):
                    self._answer(effect)
                else:
                    self._loop.want(effect)
            return await answered.receive()
        finally:
            del self._asking[ticket]

    async def until_member(self) -> None:
        """Raises `StoreBroken` when the disk fails."""
        await self._loop.run(lambda: self.core.is_member)

    def _answer(self, effect: effects.AnswerStanding) -> None:
        asking = self._asking.get(effect.ticket)  # none: the caller is gone
        if asking is not None:
            asking.send_nowait(effect.standing)

    async def _carry_out(
        self, effect: log_jobs.FoundingJob | effects.AnswerStanding | effects.ServerBroken
    ) -> None:
        if isinstance(effect, effects.ServerBroken):
            raise StoreBroken(effect.sentence)
        if isinstance(effect, effects.AnswerStanding):
            self._answer(effect)
            return
        self._loop.report(await trio.to_thread.run_sync(log_jobs.founding_done, effect, self._log))
