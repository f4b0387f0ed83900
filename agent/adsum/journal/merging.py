"""Journals of several agents as one: in the order of time as each of them saw it, with whose view it is.

Clocks of hosts differ, so two entries of different observers may stand in the wrong order; those of one
observer never do, even if its clock was set back between them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from adsum.journal.file import FoundEntries


def merged(journals: Sequence[FoundEntries]) -> FoundEntries:
    in_order = heapq.merge(*(found.entries for found in journals), key=lambda entry: entry.wall_ms)
    oldest_ms = max((found.oldest_ms for found in journals), default=0)  # from then on, all of them know
    return FoundEntries(tuple(in_order), is_cut=any(found.is_cut for found in journals), oldest_ms=oldest_ms)
