"""Users and groups as an operator writes them, by name or by number, to what the kernel takes."""

from __future__ import annotations

UNCHANGED = -1  # chown leaves it as it is


def file_owner(user: str, group: str) -> tuple[int, int]:
    """Raises LookupError, naming who is unknown."""
    return _user_id(user), _group_id(group)


def _user_id(user: str) -> int:
    if not user or user.isdecimal():
        return int(user or UNCHANGED)
    import pwd

    return pwd.getpwnam(user).pw_uid


def _group_id(group: str) -> int:
    if not group or group.isdecimal():
        return int(group or UNCHANGED)
    import grp

    return grp.getgrnam(group).gr_gid
