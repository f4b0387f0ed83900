"""An agent that ends again and again right after its start may be ended by what it saved of others.

So each start is noted in a file, which an orderly end empties. Whoever finds that the last three starts
within a minute had no such end starts without the peers and the copy of the catalog, and says so: an agent
that has forgotten the others is found by them, and one that cannot start is found by nobody. What the agent
itself is (its id, registrations and keys) is never set aside.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from adsum.now import MILLISECOND, MINUTE
from adsum.storage.disk import Disk
from adsum.storage.reading import read_if_readable

log = logging.getLogger("agent")

STARTS = "starts"  # the file: when each start without an orderly end was, in ms of wall time, a line each
CRASHES = 3
WITHIN_MS = MINUTE // MILLISECOND
LINE_DIGITS_MAX = 16


def begin(disk: Disk, wall_ms: int, saved: Sequence[str]) -> None:
    """Notes this start; sets `saved` aside when it is one too many."""
    lines = (read_if_readable(disk, STARTS) or b"").split()
    starts = [int(line) for line in lines if line.isdigit() and len(line) <= LINE_DIGITS_MAX]
    recent = [each for each in starts if abs(wall_ms - each) <= WITHIN_MS]
    disk.replace(STARTS, "".join(f"{each}\n" for each in (*recent[-CRASHES:], wall_ms)).encode())
    if len(recent) < CRASHES:
        return
    aside = [disk.set_aside(path) for path in saved if read_if_readable(disk, path) is not None]
    if aside:
        log.error(
            "this agent ended %d times within a minute without being asked to. In case that is because of "
            "what it saved of other agents, it starts without: %s. It finds its cluster by retry_join, or by "
            "`adsum join`; please report this with those files",
            *(len(recent), " and ".join(aside)),
        )


def end(disk: Disk) -> None:
    """This process ended in order, or by something that a start without saved copies would not mend."""
    disk.replace(STARTS, b"")
