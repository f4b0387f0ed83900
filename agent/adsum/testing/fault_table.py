"""Which operations of a simulated cluster met which faults, and how often.

Counted plainly: an operation that begins while a fault holds, and one that is under way when a fault begins.
An empty cell is something that the seeds never tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

Met = Counter[tuple[str, str]]  # by fault and operation


class FaultTable:
    def __init__(self, now_ns: Callable[[], int]) -> None:
        self.met: Met = Counter()
        self._now_ns = now_ns
        self._held_until_ns: dict[str, int] = {}
        self._under_way: dict[tuple[str, Hashable], None] = {}

    # Faults.

    def holds(self, fault: str, duration_ns: int, operations: Sequence[str]) -> None:
        """From now on, for so long; `operations` were under way when it began."""
        until_ns = self._now_ns() + duration_ns
        self._held_until_ns[fault] = max(until_ns, self._held_until_ns.get(fault, 0))
        self.met.update((fault, operation) for operation in operations)

    def lifted(self, fault: str) -> None:
        self._held_until_ns.pop(fault, None)

    def heal(self) -> None:
        self._held_until_ns = {}

    # Operations.

    def under_way(self) -> list[str]:
        return [operation for operation, _of in self._under_way]

    def began(self, operation: str, of: Hashable) -> None:
        """`of` says whose it is, for its end."""
        self._under_way[operation, of] = None
        self.happened(operation)

    def ended(self, operation: str, of: Hashable) -> None:
        self._under_way.pop((operation, of), None)

    def died(self, of: Hashable) -> None:
        """And all that it was doing."""
        self._under_way = {each: None for each in self._under_way if each[1] != of}

    def happened(self, operation: str) -> None:
        """At once, or by now."""
        now_ns = self._now_ns()
        for fault, until_ns in self._held_until_ns.items():
            if until_ns > now_ns:
                self.met[fault, operation] += 1


def told_table(met: Met, faults: Sequence[str], operations: Sequence[str]) -> str:
    """In lines, with a dot where they never met."""
    width = max(map(len, faults))
    head = " " * width + "".join(f"  {operation}" for operation in operations)
    rows = [head]
    for fault in faults:
        cells = [str(met[fault, operation] or ".") for operation in operations]
        told = (f"  {cell:>{len(operation)}}" for cell, operation in zip(cells, operations, strict=True))
        rows.append(f"{fault:{width}}" + "".join(told))
    return "\n".join(rows)


def never_met(met: Met, faults: Sequence[str], operations: Sequence[str]) -> list[str]:
    return [f"{fault} and {each}" for fault in faults for each in operations if not met[fault, each]]
