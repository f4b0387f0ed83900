"""What a server's log says about who leads, and why that changed: a line for each turn that an operator would
look for, and none for an election that goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from adsum.consensus.effects import Turned
from adsum.raft.types import MemberId, Role, Term, TurnCause

log = logging.getLogger("raft")

STEPPED_DOWN = {
    TurnCause.QUORUM_SILENT: (
        logging.WARNING,
        "no majority of the voters answered within the election timeout: see which servers run and reach it",
    ),
    TurnCause.DISK: (logging.WARNING, "its disk failed, or did not answer within the election timeout"),
    TurnCause.NO_VOTER: (logging.INFO, "it is no voter any more"),
    TurnCause.STATE_DIFFERS: (logging.ERROR, "its state differs from that of a majority"),
}


class LeadershipLog:
    def __init__(self, name_of: Callable[[MemberId], str]) -> None:
        self._name_of = name_of
        self._role = Role.FOLLOWER
        self._leader: MemberId | None = None
        self._term = Term(0)  # in which that one led

    def log(self, turned: Turned) -> None:
        was_leading, before = self._role is Role.LEADER, self._leader
        self._role, self._leader = turned.role, turned.leader
        if was_leading and turned.role is not Role.LEADER:
            self._stepped_down(turned)
        elif before is not None and turned.turn.cause is TurnCause.LEADER_SILENT:
            log.warning(
                "lost contact to %s, which led in term %d: nothing was heard of it within the election "
                "timeout, so an election begins",
                *(self._name_of(before), self._term),
            )
        if turned.leader is None or (turned.leader == before and turned.term == self._term):
            return
        self._term = turned.term
        if turned.role is Role.LEADER:
            log.info("elected in term %d: this server leads, %s", turned.term, self._votes(turned))
        else:
            log.info("%s leads in term %d", self._name_of(turned.leader), turned.term)

    def _stepped_down(self, turned: Turned) -> None:
        cause, by = turned.turn
        level, why = STEPPED_DOWN.get(cause, (logging.INFO, ""))
        if cause is TurnCause.HANDED_OVER:
            why = f"leadership is handed over to {self._names(by)}"
        elif not why:
            why = f"{self._names(by)} began term {turned.term}"
        log.log(level, "stepped down, after leading in term %d: %s", self._term, why)

    def _votes(self, turned: Turned) -> str:
        others = [voter for voter in turned.turn.by if voter != turned.leader]
        return f"with the votes of {self._names(others)} and its own" if others else "with its own vote alone"

    def _names(self, members: Sequence[MemberId]) -> str:
        return ", ".join(map(self._name_of, members))
