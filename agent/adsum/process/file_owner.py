"""Users and groups as an operator writes them, by name or by number, to what the kernel takes."""

from __future__ import annotations

UNCHANGED = -1  # chown leaves it as it is


def file_owner(user: str, group: str) -> tuple[int, int]:
    """Raises LookupError, naming who is unknown."""
    import grp
    import pwd

    user_id = int(user or UNCHANGED) if not user or user.isdecimal() else pwd.getpwnam(user).pw_uid
    group_id = int(group or UNCHANGED) if not group or group.isdecimal() else grp.getgrnam(group).gr_gid
    return user_id, group_id
