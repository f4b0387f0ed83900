"""Why the core will not do what it was asked. Nothing has changed when one of these is raised."""

from __future__ import annotations


class RaftRefused(Exception):
    """The request cannot be taken as things stand; the class says what the caller may do about it."""


class NotLeader(RaftRefused):
    """Normal at any time: ask the leader, if one is known."""


class TermMoved(RaftRefused):
    """We lead, but not in the term it was made for: what it was based on must be looked at again."""


class Transferring(RaftRefused):
    """Leadership is being handed over: try again shortly, elsewhere."""


class TooMuchUncommitted(RaftRefused):
    """The followers do not keep up: slow down."""


class TooLarge(RaftRefused):
    """No message could carry it: the caller's mistake."""


class ChangeRefused(RaftRefused):
    """This change of the membership is not possible now; the sentence says why."""


class LevelUnsupported(RaftRefused):
    """Some member could not apply the log from there on; the sentence names it."""


class TooManyReads(RaftRefused):
    """More reads wait for a quorum than the API has connections: slow down."""
