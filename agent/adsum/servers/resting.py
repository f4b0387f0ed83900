"""Work on a large state, in a thread beside the loop, that leaves the interpreter to the loop half of the
time.

Whoever encodes or decodes a million keys computes for seconds. The loop shares the interpreter with it, and
on a small host the processors, perhaps with other servers that make their snapshots at the same moment. So
after each piece the thread rests for as long as it computed. The work takes twice as long, and nobody waits
for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator


def with_rests(
    pieces: Iterable[bytes],
    *,
    computed_s: Callable[[], float] = time.thread_time,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """The same pieces. Both what makes them and what is done with them counts."""
    began_s = computed_s()
    for piece in pieces:
        yield piece
        sleep(computed_s() - began_s)
        began_s = computed_s()
