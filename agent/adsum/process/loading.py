"""Loading code while the loop goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import trio

# While a thread loads code, the loop gets its turn a tenth as late as Python's 5 ms.
SWITCH_INTERVAL_LOADING_S = 0.0005

Loadable = TypeVar("Loadable")


async def late(load: Callable[[], Loadable]) -> Loadable:
    """Imports in a thread, so that DNS goes on answering."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_LOADING_S)
    try:
        return await trio.to_thread.run_sync(load)
    finally:
        sys.setswitchinterval(usual_s)
