"""The registrations of one agent on a disk, as they are read at start.

A damaged file costs the one registration in it: it is set aside under a name the log tells, and never fatal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from adsum.catalog import saved
from adsum.catalog.saved import DamagedFile, Saved
from adsum.storage.disk import Disk
from adsum.storage.reading import read_if_readable, set_aside

Value = TypeVar("Value")


def load(disk: Disk) -> Saved:
    services = _load_folder(disk, saved.SERVICES, saved.decode_service)
    checks = _load_folder(disk, saved.CHECKS, saved.decode_check)
    ttl_states = _load_file(disk, saved.TTL_STATES, saved.decode_ttl_states)
    return Saved(tuple(services), tuple(checks), ttl_states or ())


def paths(disk: Disk) -> tuple[str, ...]:
    """Of what lies there, whatever it is."""
    return tuple(folder + name for folder in (saved.SERVICES, saved.CHECKS) for name in disk.names(folder))


def _load_folder(disk: Disk, folder: str, decode: Callable[[bytes], Value]) -> list[Value]:
    found = (_load_file(disk, folder + name, decode) for name in disk.names(folder))
    return [value for value in found if value is not None]


def _load_file(disk: Disk, path: str, decode: Callable[[bytes], Value]) -> Value | None:
    content = read_if_readable(disk, path)
    try:
        return None if content is None else decode(content)
    except DamagedFile as problem:
        set_aside(disk, path, str(problem))
    return None
