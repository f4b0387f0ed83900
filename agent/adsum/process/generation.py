"""The generations of an agent: each start has a greater one than every start before, also when the clock went
back. A file that cannot be believed is set aside, and the clock alone decides."""

from __future__ import annotations

import logging

from adsum.agent.saved_files import GENERATION
from adsum.gossip.claims import COUNTER_MAX
from adsum.now import Now
from adsum.storage.disk import Disk
from adsum.storage.reading import read_if_readable

GENERATION_MAX = COUNTER_MAX - 1  # the next one must still be one that claims may have
GENERATION_DIGITS_MAX = 16

log = logging.getLogger("agent")


def next_generation(disk: Disk, now: Now) -> int:
    """Greater than every one before, on disk before it is used."""
    generation = max(_last_generation(disk) + 1, now.wall_ms)
    disk.write_durably(GENERATION, str(generation).encode())
    return generation


def _last_generation(disk: Disk) -> int:
    kept = read_if_readable(disk, GENERATION)
    if kept is None:
        return 0
    if kept.isdigit() and len(kept) <= GENERATION_DIGITS_MAX and int(kept) < GENERATION_MAX:
        return int(kept)
    aside = disk.set_aside(GENERATION)
    log.error("the file of this agent's last generation is damaged; it was set aside as %s", aside)
    return 0
