"""Could these answers have come from one register, touched by one client at a time?

The search of Wing and Gong as Lowe improved it: take operations one by one in an order that respects who
ended before whom began, undo when stuck, and never look twice at the same pair of (operations taken,
value). Keys are independent of each other, so each is searched alone: that is what keeps an exponential
search small. A budget of steps ends it all the same, and then the verdict is that there is none.

An operation whose outcome nobody knows ends at infinity and may have had any answer. One that certainly never
happened must be left out by the caller.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from adsum.testing.raft_machine import ClientCall

STEPS_MAX = 2_000_000  # about a second
NEVER = 1 << 62  # later than any time


class HistoryVerdict(enum.Enum):
    LINEARIZABLE = "linearizable"
    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"  # the budget ran out


@dataclass(slots=True)
class Operation:
    client: int
    call: ClientCall
    invoked_ns: int
    returned_ns: int = NEVER
    answer: str | None = None  # None: nobody knows
    index: int = 0  # of its entry, or the one a read was served at; for the witness, not for the search
    term: int = 0
    sequence: int = 0  # the same for every try; 0 for what is tried once


def verdict(operations: Sequence[Operation], *, steps_max: int = STEPS_MAX) -> HistoryVerdict:
    """One refuted key is enough."""
    by_key: dict[str, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.call.key, []).append(operation)
    verdicts = [_Search(group).run(steps_max) for group in by_key.values()]
    for worst in (HistoryVerdict.IMPOSSIBLE, HistoryVerdict.UNDECIDED):
        if worst in verdicts:
            return worst
    return HistoryVerdict.LINEARIZABLE


def after(value: str, operation: Operation) -> str | None:
    """The register's next value, or None if this answer could not have been given to that value."""
    call = operation.call
    if call.verb == "get":
        return value if operation.answer in (None, value) else None
    is_met = call.verb == "set" or value == call.expected
    if operation.answer not in (None, "yes" if is_met else "no"):
        return None
    return call.value if is_met else value


class _Search:
    """Calls and returns in one doubly linked list by time; what is taken leaves the list, and comes back when
    undone. Event 2n + 1 is the call of operation n and 2n + 2 its return; 0 is the head."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations
        times: list[tuple[int, int, int]] = []
        for number, operation in enumerate(operations):
            times.append((operation.invoked_ns, 0, 2 * number + 1))
            times.append((operation.returned_ns, 1, 2 * number + 2))
        order = [0] + [event for _time, _is_return, event in sorted(times)]
        self.next = [0] * (len(order) + 1)
        self.before = [0] * (len(order) + 1)
        for left, right in zip(order, [*order[1:], 0], strict=True):
            self.next[left] = right
            self.before[right] = left

    def run(self, steps_max: int) -> HistoryVerdict:
        value, taken = "", 0
        seen = {(taken, value)}
        undo: list[tuple[int, str]] = []
        event = self.next[0]
        for _ in range(steps_max):
            if not self.next[0]:
                return HistoryVerdict.LINEARIZABLE
            if event % 2:  # a call: could it be next?
                number = event // 2
                new_value = after(value, self.operations[number])
                state = (taken | 1 << number, new_value or "")
                if new_value is not None and state not in seen:
                    seen.add(state)
                    undo.append((event, value))
                    taken, value = state
                    self._lift(event)
                    event = self.next[0]
                else:
                    event = self.next[event]
            elif not undo:  # a return of what could not be taken in time
                return HistoryVerdict.IMPOSSIBLE
            else:
                event, value = undo.pop()
                taken ^= 1 << event // 2
                self._put_back(event)
                event = self.next[event]
        return HistoryVerdict.UNDECIDED

    def _lift(self, call: int) -> None:
        for event in (call, call + 1):
            self.next[self.before[event]] = self.next[event]
            self.before[self.next[event]] = self.before[event]

    def _put_back(self, call: int) -> None:
        for event in (call + 1, call):
            self.next[self.before[event]] = event
            self.before[self.next[event]] = event
