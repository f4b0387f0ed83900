"""A clock that disagrees with those of other hosts, in a sentence that says by how much and what to do."""

from __future__ import annotations

from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND

CLOCK_OFF_MS = 60_000  # less than that, certificates, tokens and people who compare logs can bear


def off_by(ahead_ms: int, others: int) -> str:
    """Empty when nobody needs to care."""
    if abs(ahead_ms) < CLOCK_OFF_MS:
        return ""
    where = "ahead of" if ahead_ms > 0 else "behind"
    off_ns = abs(ahead_ms) * MILLISECOND
    span = f"{off_ns // SECOND} seconds"
    for unit_ns, word in ((MINUTE, "minutes"), (HOUR, "hours"), (24 * HOUR, "days")):
        if off_ns >= 2 * unit_ns:
            span = f"{off_ns / unit_ns:.1f}".removesuffix(".0") + f" {word}"
    off = f"This host's clock is {span} {where}"
    if others == 1:
        return f"{off} that of the only other agent it was compared with: see which of the two is right."
    return f"{off} those of most of the {others} agents it was compared with: set it, by NTP for example."
