"""What is remembered of things that others can name without end: so many of them."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def keep_newest(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """As the newest, also if it was known; the oldest makes room."""
    kept.pop(key, None)
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """What is cheap to find out again: when it is full the memory starts anew."""
    if len(known) >= most:
        known.clear()
    known[key] = value
