"""What became of a key, in words that all share: each change, when, and through which agent. Never a value:
whoever may ask why may not be one who may read."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from adsum.kv import KeyRefusal


class KeyChangeKind(enum.IntEnum):
    CREATED = 0
    CHANGED = 1
    SAME_VALUE = 2  # written again; Consul's clients write it without a change, and leave no trace
    DELETED = 3
    TREE_DELETED = 4  # with all keys that began so


class KeyChange(Struct, frozen=True, gc=False, array_like=True):
    revision: int
    kind: KeyChangeKind
    wall_ms: int  # of the agent that accepted it
    via: str  # the node id of that agent; empty if nobody knows


class KeyHistory(Struct, frozen=True, array_like=True, tag=4):  # as it travels (`store_requests`)
    changes: list[KeyChange]  # oldest first, the newest so many
    is_cut: bool  # there are more before these
    exists: bool
    revision: int  # of its last change, or 0 if that is forgotten or never was
    version: int  # writes since it was created; 0 if it does not exist
    floor: int  # of changes up to this revision not all are remembered
    waiting: int  # requests here that wait for it, or for something that it lies in


HistoryAnswered: TypeAlias = Callable[["KeyHistory | KeyRefusal"], None]
