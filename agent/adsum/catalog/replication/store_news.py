"""What a server has for the catalog: nodes without an agent, out of its state machine, the same on each."""

from __future__ import annotations

from adsum.catalog.replication.items import Item
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StoreNews:
    generation: int
    version: int
    items: tuple[Item, ...]  # what changed, or everything there is
    is_whole: bool
    tells: bool  # this server pushes it; the others only have it, for whoever asks
