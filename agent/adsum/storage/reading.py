"""A saved file that an agent can do without, if the disk cannot give it any more."""

from __future__ import annotations

import errno
import logging

from adsum.storage.disk import Disk

# A bad sector, a folder, a link to itself. What may not be read is still good, and for the operator to mend.
UNREADABLE = (errno.EIO, errno.EISDIR, errno.ELOOP)

log = logging.getLogger("agent.storage")


def read_if_readable(disk: Disk, path: str) -> bytes | None:
    """None where there is none, or none that can be read: that is set aside, and said."""
    try:
        return disk.read(path)
    except OSError as problem:
        if problem.errno not in UNREADABLE:
            raise
        reason = problem.strerror
    set_aside(disk, path, str(reason))
    return None


def set_aside(disk: Disk, path: str, reason: str) -> None:
    aside = disk.set_aside(path)
    log.error("a saved file is damaged (%s); it was set aside as %s and is not used", reason, aside)
