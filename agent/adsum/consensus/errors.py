"""What a request to consensus can end in, beside what the core refuses (`adsum.raft.errors`)."""

from __future__ import annotations


class Unavailable(Exception):
    """Nothing was done, and asking again, here or elsewhere, is safe."""


class NoCluster(Unavailable):
    """This server belongs to no cluster yet: it waits for the others, or to be taken in."""


class NoLeader(Unavailable):
    """There was none for as long as a request is held."""


class Superseded(Unavailable):
    """A new leader's log has something else in its place: it will never be applied."""


class DiskIsFull(Unavailable):
    """This server takes nothing new until there is room; what it has can be read."""


class QueueFull(Unavailable):
    """As many proposals wait as may; in a moment there is room."""


class Stopping(Unavailable):
    pass


class StateDiffers(Exception):
    """What this server holds is not what a majority of the voters does: nothing is read here."""


class OutcomeUnknown(Exception):
    """It may have been done or may yet be: ask again only with the same dedup key."""


class StoreBroken(Exception):
    """The disk failed under the log. The process must end, and the next start will read what is truly
    there."""
