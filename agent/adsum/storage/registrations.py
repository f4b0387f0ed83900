"""The registrations of one agent on a disk, as they are read at start.

A damaged file costs the one registration in it: it is set aside under a name the log tells, and never fatal.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from adsum.catalog import saved
from adsum.catalog.saved import Damaged, Saved
from adsum.storage.disk import Disk

log = logging.getLogger("agent.storage")

# A bad sector, or no file at all. Others (permissions, no descriptor left) the operator can mend; then the
# file is whole: for those the agent does not start.
UNREADABLE = (errno.EIO, errno.EISDIR, errno.ELOOP)

Value = TypeVar("Value")


def load(disk: Disk) -> Saved:
    services = _load_folder(disk, saved.SERVICES, saved.decode_service)
    checks = _load_folder(disk, saved.CHECKS, saved.decode_check)
    ttl_states = _load_file(disk, saved.TTL_STATES, saved.decode_ttl_states)
    return Saved(tuple(services), tuple(checks), ttl_states or ())


def _load_folder(disk: Disk, folder: str, decode: Callable[[bytes], Value]) -> list[Value]:
    found = (_load_file(disk, folder + name, decode) for name in disk.names(folder))
    return [value for value in found if value is not None]


def _load_file(disk: Disk, path: str, decode: Callable[[bytes], Value]) -> Value | None:
    try:
        content = disk.read(path)
        return None if content is None else decode(content)
    except Damaged as problem:
        reason = str(problem)
    except OSError as problem:
        if problem.errno not in UNREADABLE:
            raise
        reason = str(problem.strerror)
    aside = disk.set_aside(path)
    log.error("a saved file is damaged (%s); it was set aside as %s and is not used", reason, aside)
    return None
