"""When something is due, where nothing need be."""

from __future__ import annotations

from adsum.now import Now


def earliest(*deadlines_ns: int | None) -> int | None:
    """Written out, for it is asked three times after each datagram."""
    found = None
    for each in deadlines_ns:
        if each is not None and (found is None or each < found):
            found = each
    return found


def is_due(now: Now, deadline_ns: int | None) -> bool:
    return deadline_ns is not None and deadline_ns <= now.monotonic_ns
