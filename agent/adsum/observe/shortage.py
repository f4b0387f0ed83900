"""The system gave no file, socket or memory: what to tell an operator, and how to recognise it.

It says nothing about whoever was to be served, and passes: what met it is counted, dropped or put off, and
tried again.
"""

from __future__ import annotations

import errno
import os

REMEDIES = {
    errno.EMFILE: "raise the agent's limit, by LimitNOFILE= in its systemd unit or by ulimit -n",
    errno.ENFILE: "see which process of this host holds them, or raise fs.file-max",
    errno.ENOBUFS: "see what takes this host's memory, its network's above all",
    errno.ENOMEM: "see what takes this host's memory",
}


def is_shortage(error: BaseException) -> bool:
    return _number(error) in REMEDIES


def told(error: BaseException) -> str:
    """What the system said, and for a shortage what to do."""
    number = _number(error)
    if number in REMEDIES:
        return f"{os.strerror(number).lower()}: {REMEDIES[number]}"
    return getattr(error, "strerror", None) or str(error)


def _number(error: BaseException) -> int:
    """Also of a library that could not be loaded, whose loader says it in words only."""
    if isinstance(error, ImportError):
        # the words for the whole system begin with those for one process
        return next((each for each in (errno.ENFILE, errno.EMFILE) if os.strerror(each) in str(error)), 0)
    return (error.errno or 0) if isinstance(error, OSError) else 0
