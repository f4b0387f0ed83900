"""Why the core will not do what it was asked. Nothing has changed when one of these is raised."""

from __future__ import annotations


class Refused(Exception):
    """The request cannot be taken as things stand; the class says what the caller may do about it."""


class NotLeader(Refused):
    """Normal at any time: ask the leader, if one is known."""


class TermMoved(Refused):
    """We lead, but not in the term it was made for: what it was based on must be looked at again."""


class Transferring(Refused):
    """Leadership is being handed over: try again shortly, elsewhere."""


class TooMuchUncommitted(Refused):
    """The followers do not keep up: slow down."""


class TooLarge(Refused):
    """No message could carry it: the caller's mistake."""


class ChangeRefused(Refused):
    """This change of the membership is not possible now; the sentence says why."""


class LevelUnsupported(Refused):
    """Some member could not apply the log from there on; the sentence names it."""


class TooManyReads(Refused):
    """More reads wait for a quorum than the API has connections: slow down."""
