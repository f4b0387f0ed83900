from __future__ import annotations

from typing import NamedTuple

from adsum.catalog.model import Check


class PlacedCheck(NamedTuple):
    """A check with the node it is on, which it does not know itself."""

    node_name: str
    check: Check
