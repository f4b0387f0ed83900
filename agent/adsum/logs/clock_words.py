"""A clock that disagrees with those of other hosts, in a sentence that says by how much and what to do."""

from __future__ import annotations

from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND

CLOCK_OFF_MS = 60_000  # less than that, certificates, tokens and people who compare logs can bear


def off_by(ahead_ms: int, others: int) -> str:
    """Empty when nobody needs to care."""
    if abs(ahead_ms) < CLOCK_OFF_MS:
        return ""
    where = "ahead of" if ahead_ms > 0 else "behind"
    off = f"This host's clock is {_span(abs(ahead_ms) * MILLISECOND)} {where}"
    if others == 1:
        return f"{off} that of the only other agent it was compared with: see which of the two is right."
    return f"{off} those of most of the {others} agents it was compared with: set it, by NTP for example."


def _span(duration_ns: int) -> str:
    for unit_ns, word, least in ((24 * HOUR, "days", 2), (HOUR, "hours", 2), (MINUTE, "minutes", 2)):
        if duration_ns >= least * unit_ns:
            return f"{duration_ns / unit_ns:.1f}".removesuffix(".0") + f" {word}"
    return f"{duration_ns // SECOND} seconds"
