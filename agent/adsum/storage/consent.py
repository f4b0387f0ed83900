"""With whom this server has agreed to found a cluster (`consensus.founding`), in a file beside the log.

It is written before anybody is told. The disk may hold a consent that was not given, for the power went
before the answer, or one that was taken back since; never is one given that it does not hold.
"""

from __future__ import annotations

import cbor2

from adsum.cbor import BadEncoding, strict_loads
from adsum.raft.changer import MEMBERS_MAX
from adsum.storage.files import Folder, ReadFailed, read_whole, write_whole

FILE = "consent"
VERSION = 1


def write_consent(folder: Folder, nodes: tuple[str, ...]) -> None:
    """To found with these and nobody else; with none: there is no consent any more."""
    if nodes:
        write_whole(folder, FILE, cbor2.dumps([VERSION, list(nodes)]))
    elif FILE in folder.names():
        folder.remove(FILE)
        folder.sync()


def read_consent(folder: Folder) -> tuple[str, ...] | None:
    """Empty if there is none; None if there is one that cannot be read."""
    if FILE not in folder.names():
        return ()
    try:
        fields = strict_loads(read_whole(folder, FILE))
    except (BadEncoding, ReadFailed):
        return None
    match fields:
        case [1, [*rows]] if 0 < len(rows) <= MEMBERS_MAX:
            nodes = tuple(row for row in rows if isinstance(row, str))
            return nodes if len(nodes) == len(rows) else None
    return None
