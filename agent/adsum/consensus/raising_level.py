"""The apply level of the log: what is new in it may be asked for when every server can apply it.

A leader raises it to what it knows itself as soon as each voter and learner has said that it knows as much;
until then it looks again with every tick, and says nothing. A level that is in force stays so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.effects import LogLine, Severity
from adsum.raft.errors import RaftRefused
from adsum.raft.types import MemberId

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore


class RaisingLevel:
    def __init__(self, core: ConsensusCore) -> None:
        self._core = core

    @property
    def in_force(self) -> int:
        """That of the last entry applied here: it never falls. What the log goes on at may be lost yet."""
        log = self._core.raft.replica.log
        return log.level_at(log.applied)

    def waits_for(self) -> list[MemberId]:
        """Who has not said yet that it can apply what this server can, as the leader knows."""
        newest = self._core.settings.raft.apply_level_max
        members = self._core.raft.status().members
        return [each.member for each in members if each.apply_level_max < newest]

    def look(self) -> None:
        core = self._core
        newest = core.settings.raft.apply_level_max
        if not core.is_leader or core.is_stopping or core.raft.replica.log.last.apply_level >= newest:
            return
        if not core.storing.has_room or self.waits_for():
            return
        try:
            core.raft.propose_level(newest)
        except RaftRefused:  # something else is under way
            return
        core.emit(LogLine(Severity.INFO, f"all servers know apply level {newest}: the log goes on at it"))
