"""Long lists are rendered in turns: nothing may hold the loop for longer than a client notices (20 ms)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import trio

# At some 20 µs an item, a turn is 5 ms.
ITEMS_PER_TURN = 256

Item = TypeVar("Item")


async def in_turns(items: Sequence[Item]) -> AsyncIterator[Item]:
    """The items as they were when this began; others get the loop between turns."""
    for place, item in enumerate(items, start=1):
        yield item
        if place % ITEMS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
