"""Which servers' acknowledged data may be harmed, and which may be missing, without asking the impossible.

A disk that rots takes acknowledged records with it. As long as the members that are untouched hold a
quorum of every membership that may come into force, each committed record has a copy among them, and they
can elect whoever has it. One more, and no algorithm can help: then a failed run would say nothing. So
whoever harms a disk, or takes a server away for good, asks here first; a yes is remembered until that
server was seen to have everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from adsum.raft.types import Configuration, MemberId


class FaultAtlas:
    def __init__(self, in_force: Callable[[], Iterable[Configuration]]) -> None:
        """`in_force` names every membership that somebody goes by, or may come to go by."""
        self._in_force = in_force
        self.harmed: dict[MemberId, None] = {}

    def may_harm(self, member: MemberId) -> bool:
        """Ask before every rot, misdirected write or unreadable sector; a yes is remembered."""
        if member in self.harmed:
            return True
        if not self.may_miss([member]):
            return False
        self.harmed[member] = None
        return True

    def may_miss(self, members: Iterable[MemberId]) -> bool:
        """Whether a quorum is left without these and all that are harmed."""
        missed = [*self.harmed, *members]
        return all(has_quorum_without(missed, configuration) for configuration in self._in_force())

    def allows(self, configuration: Configuration) -> bool:
        """Whether this membership could still agree on anything, as a sane operator asks before a change."""
        return has_quorum_without([*self.harmed], configuration)

    def healed(self, member: MemberId) -> None:
        """It holds everything again that it acknowledged."""
        self.harmed.pop(member, None)


def has_quorum_without(missed: list[MemberId], configuration: Configuration) -> bool:
    halves = [half for half in (configuration.voters, configuration.voters_outgoing) if half]
    return all(2 * sum(voter not in missed for voter in half) > len(half) for half in halves)
