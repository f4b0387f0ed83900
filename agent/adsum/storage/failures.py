"""What a disk can do to somebody who relies on it.

Nearly every error of the system changes nothing: no room, mounted read-only, not allowed. Those stay
`OSError`, and whoever asked is refused. `StorageFailed` is the other kind, and rare: a sync failed, or a
rename or removal among others that were already made. Then nobody knows what the disk holds.
"""

from __future__ import annotations


class StorageFailed(BaseException):
    """The disk refused to write, sync or rename. Nobody knows what it holds now: end the process, and let
    the next start read what is truly there.

    It passes every `except Exception` of those who go on after one faulty input or request, for whoever
    caught it would go on answering from what may not be kept."""
