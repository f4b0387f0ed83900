"""Carries out what a leader wants that takes other servers in (`consensus.taking_in`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from adsum.consensus.bootstrap import AliveServer
from adsum.consensus.effects import ChangeMembership
from adsum.consensus.errors import Unavailable
from adsum.consensus.reports import ChangeEnded
from adsum.consensus.taking_in import TakingInCore
from adsum.now import Now
from adsum.raft.changer import ConfigurationChange
from adsum.raft.errors import RaftRefused
from adsum.servers.driver import Driver
from adsum.servers.standing import AskingLoop, AsksStandings


class TakingIn:
    def __init__(
        self,
        driver: Driver,
        asks: AsksStandings,
        alive: Callable[[], Sequence[AliveServer]],
        left: Callable[[], Collection[str]],
        now: Callable[[], Now],
    ) -> None:
        self._driver = driver
        self._loop = AskingLoop(TakingInCore(driver.core, now(), left), asks, alive, now, self._carry_out)
        self.run = self._loop.run

    async def _carry_out(self, effect: ChangeMembership) -> None:
        try:
            self._driver.propose_change(effect.change, partial(self._ended, effect.change))
        except (RaftRefused, Unavailable) as refusal:
            self._ended(effect.change, refusal)

    def _ended(self, change: ConfigurationChange, outcome: bytes | Exception) -> None:
        self._loop.report(ChangeEnded(change, outcome if isinstance(outcome, Exception) else None))
