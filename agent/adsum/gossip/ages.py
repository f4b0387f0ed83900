"""How old news is, as it travels: one byte beside each claim of a datagram.

No clocks are compared. Whoever tells a claim says for how long it has been told, as far as it knows: what it
was told itself when it first heard it, and its own waiting since. Time on the wire is not in it; on a LAN it
is lost in the rounding. What a comparison of rosters brought has no known age, and stays without one.
"""

from __future__ import annotations

from adsum.now import MILLISECOND

UNIT_NS = 50 * MILLISECOND
OLDEST = 254  # and whatever is older: 12.7 s, when hardly anything is told any more
UNKNOWN = 255


def coded(now_ns: int, born_ns: int | None) -> int:
    """Rounded, not cut off: at each hop something would be lost, and always on one side."""
    if born_ns is None:
        return UNKNOWN
    return min(OLDEST, (now_ns - born_ns + UNIT_NS // 2) // UNIT_NS)


def born_ns(now_ns: int, code: int) -> int | None:
    return None if code >= UNKNOWN else now_ns - code * UNIT_NS
