"""When something is due, where nothing need be."""

from __future__ import annotations

from adsum.now import Now


def earliest(*deadlines_ns: int | None) -> int | None:
    return min((each for each in deadlines_ns if each is not None), default=None)


def is_due(now: Now, deadline_ns: int | None) -> bool:
    return deadline_ns is not None and deadline_ns <= now.monotonic_ns
