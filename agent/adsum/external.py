"""Nodes without an agent, with their services and checks: somebody registered them, and the store keeps them.

The servers publish them in the catalog under one owner. So the store keeps them as the catalog has them, as
bytes that only whoever accepts and whoever shows them reads; what it decides by stands beside the bytes.
"""

from __future__ import annotations

import enum

from msgspec import Struct


class ExternalKind(enum.IntEnum):
    """Also the order in which those of one node are kept and shown."""

    NODE = 0
    SERVICE = 1
    CHECK = 2


class ExternalItem(Struct, frozen=True, gc=False, array_like=True):
    kind: ExternalKind
    node: str  # its name; whoever compares folds the case
    id: str  # of the service or the check; empty for the node itself
    row: bytes  # as the catalog has it; of a check without what it says
    node_id: str = ""  # of a node, if one was given
    service_id: str = ""  # of a check of a service
    status: str = ""  # of a check
    output: str = ""
    create: int = 0  # revision; set when it is applied
    modify: int = 0


class ExternalRegister(Struct, frozen=True, array_like=True, tag=4):
    """All of one node. A service or check stands on a node that is there or is registered with it."""

    items: tuple[ExternalItem, ...]


class ExternalDeregister(Struct, frozen=True, array_like=True, tag=5):
    """One check, one service with its checks, or all of a node and its sessions. What is not there is gone
    already."""

    node: str
    service_id: str = ""
    check_id: str = ""
