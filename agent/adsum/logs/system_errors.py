"""What the system refused, in a sentence that says what to do about it; none of these needs a restart.

Some are a shortage: no file, socket or memory. That says nothing about whoever was to be served, and passes:
what met it is counted, dropped or put off, and tried again.
"""

from __future__ import annotations

import errno
import os

OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT)
UNWRITABLE = (*OUT_OF_ROOM, errno.EROFS)  # as a whole, whatever the permissions
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)

SHORTAGES = {
    errno.EMFILE: "raise the agent's limit, by LimitNOFILE= in its systemd unit or by ulimit -n",
    errno.ENFILE: "see which process of this host holds them, or raise fs.file-max",
    errno.ENOBUFS: "see what takes this host's memory, its network's above all",
    errno.ENOMEM: "see what takes this host's memory",
}
# What a fork or a new thread is refused with. Of a socket it says that there is nothing yet, so it is a
# shortage to nobody but who starts a program.
NO_PROCESS = errno.EAGAIN
NO_THREAD = "can't start new thread"  # Python says it in words only
REMEDIES = {
    **SHORTAGES,
    NO_PROCESS: "see what takes the processes and threads of the agent's user, or raise TasksMax= in its "
    "systemd unit or ulimit -u",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room within the quota of its user",
    errno.EROFS: "mount it writable again",
    errno.EACCES: "let the agent's user read and write there",
    errno.EPERM: "let the agent's user read and write there",
    errno.EIO: "look at its disk: the kernel's log says what is wrong with it",
}


def is_shortage(error: BaseException) -> bool:
    return _number(error) in SHORTAGES


def is_shortage_at_start(error: BaseException) -> bool:
    """Of a program."""
    return is_shortage(error) or _number(error) == NO_PROCESS


def told(error: BaseException) -> str:
    """What the system said, and what to do: "no space left on device: make room on its disk"."""
    number = _number(error)
    if number in REMEDIES:
        return f"{os.strerror(number).lower()}: {REMEDIES[number]}"
    return getattr(error, "strerror", None) or str(error)


def _number(error: BaseException) -> int:
    """Also of a library that could not be loaded, whose loader says it in words only, and of a thread."""
    if isinstance(error, ImportError):
        # the words for the whole system begin with those for one process
        return next((each for each in (errno.ENFILE, errno.EMFILE) if os.strerror(each) in str(error)), 0)
    if isinstance(error, RuntimeError):
        return NO_PROCESS if str(error) == NO_THREAD else 0
    return (error.errno or 0) if isinstance(error, OSError) else 0
