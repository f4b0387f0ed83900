"""What a disk can do to somebody who relies on it.

Nearly every error of the system changes nothing: no room, mounted read-only, not allowed. Those stay
`OSError`, and whoever asked is refused. `StorageFailed` is the other kind, and rare: a sync failed, or a
rename or removal among others that were already made. Then nobody knows what the disk holds.
"""

from __future__ import annotations

import errno

OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (*OUT_OF_ROOM, errno.EROFS)  # as a whole, whatever the permissions
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)

# What whoever reads the error can do; none of these needs a restart.
ADVICE = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room within the quota of its user",
    errno.EROFS: "mount it writable again",
    errno.EACCES: "let the agent's user read and write there",
    errno.EPERM: "let the agent's user read and write there",
    errno.EMFILE: "let the agent open more files (LimitNOFILE= in its unit)",
    errno.ENFILE: "let the host open more files (sysctl fs.file-max)",
    errno.EIO: "look at its disk: the kernel's log says what is wrong with it",
}
ELSE = "look at its disk"


class StorageFailed(Exception):
    """The disk refused to write, sync or rename. Nobody knows what it holds now: end the process, and let
    the next start read what is truly there."""


def told(problem: OSError) -> str:
    """Why, and what to do: "No space left on device: make room on its disk"."""
    return f"{problem.strerror or problem}: {ADVICE.get(problem.errno or 0, ELSE)}"
