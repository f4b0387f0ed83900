"""How old news is, as it travels: one byte beside each claim of a datagram.

No clocks are compared. Whoever tells a claim says for how long it has been told, as far as it knows: what it
was told itself when it first heard it, and its own waiting since. Time on the wire is not in it; on a LAN it
is lost in the rounding. What a comparison of rosters brought has no known age, and stays without one.
"""

from __future__ import annotations

from adsum.now import MILLISECOND

FINE_NS = 10 * MILLISECOND  # below one second: news is a hundredth of it old when it arrives
COARSE_NS = 100 * MILLISECOND
COARSE_FROM = 100
OLDEST = 254  # and whatever is older: 16.4 s, when hardly anything is told any more
UNKNOWN = 255


def coded(now_ns: int, born_ns: int | None) -> int:
    """Rounded, not cut off: at each hop something would be lost, and always on one side."""
    if born_ns is None:
        return UNKNOWN
    code = (now_ns - born_ns + FINE_NS // 2) // FINE_NS
    if code >= COARSE_FROM:
        code = COARSE_FROM + (now_ns - born_ns - COARSE_FROM * FINE_NS + COARSE_NS // 2) // COARSE_NS
    return min(OLDEST, code)


def born_ns(now_ns: int, code: int) -> int | None:
    if code >= UNKNOWN:
        return None
    fine, coarse = min(code, COARSE_FROM), max(0, code - COARSE_FROM)
    return now_ns - fine * FINE_NS - coarse * COARSE_NS
