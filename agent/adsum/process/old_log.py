"""The log of a server that is a client now. It is set aside, not removed: it may be all that is left.

A server that comes back later is a new member of consensus with a log of its own, and learns everything from
the others. With the old log it would count on votes and on a membership of long ago.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

RAFT_FOLDER = "raft"

log = logging.getLogger("raft")


def set_old_log_aside(data_dir: str) -> None:
    folder = Path(data_dir) / RAFT_FOLDER
    try:
        if not any(folder.iterdir()):
            return
    except OSError:  # there is none
        return
    aside = next(each for each in _names(folder) if not each.exists())
    try:
        os.rename(folder, aside)
    except OSError as problem:
        log.warning(
            "this agent is a client now, and the log that it has as a server cannot be set aside (%s): "
            "remove %s before it is a server again",
            *(problem.strerror, folder),
        )
        return
    log.warning(
        "this agent is a client now: the log that it had as a server was set aside as %s, and is not used "
        "any more; remove it when nobody needs it",
        aside,
    )


def _names(folder: Path) -> Iterator[Path]:
    return (folder.with_name(f"{folder.name}.old-{number}") for number in count(1))
