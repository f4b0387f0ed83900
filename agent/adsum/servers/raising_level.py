"""The leader raises the apply level of the log to what this version knows, once every server of the cluster
reports that it can apply it: then what is new in it may be asked for.

It is tried every second while it is refused: a server of an earlier version may still be there.
"""

from __future__ import annotations

import logging

import trio

from adsum.consensus.errors import Unavailable
from adsum.raft.errors import RaftRefused
from adsum.servers.driver import Driver

LOOK_S = 1.0

log = logging.getLogger("raft")


class RaisingLevel:
    def __init__(self, driver: Driver, level: int) -> None:
        self._driver = driver
        self._level = level
        self._is_under_way = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            if self._driver.is_leader:
                await trio.sleep(LOOK_S)
            else:
                await self._driver.changed()

    def look(self) -> None:
        raft_log = self._driver.core.raft.replica.log
        is_due = self._driver.is_leader and raft_log.last.apply_level < self._level
        if not is_due or self._is_under_way:
            return
        self._is_under_way = True
        try:
            self._driver.propose_level(self._level, self._ended)
        except (RaftRefused, Unavailable):
            self._is_under_way = False

    def _ended(self, outcome: bytes | Exception) -> None:
        self._is_under_way = False
        if not isinstance(outcome, Exception):
            log.info("all servers apply level %d now, and the log goes on at it", self._level)
