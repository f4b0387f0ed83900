"""Who writes the records of a catalog, told from the eight bytes by which an owner is named.

An agent's are the first ones of its node id. The store of consensus is one more owner, under a name that no
node id may begin with; nothing publishes as it yet, and agents keep and pass on what they hear of it.
"""

from __future__ import annotations

import enum

STORE = b"@store\0\0"


class OwnerKind(enum.Enum):
    AGENT = "agent"
    STORE = "store"


def kind_of(owner: bytes) -> OwnerKind:
    return OwnerKind.STORE if owner == STORE else OwnerKind.AGENT
