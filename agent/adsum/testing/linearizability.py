"""Could these answers have come from one register, touched by one client at a time?

The search of Wing and Gong as Lowe improved it: take operations one by one in an order that respects who
ended before whom began, undo when stuck, and never look twice at the same pair of (operations taken,
value). Keys are independent of each other, so each is searched alone: that is what keeps an exponential
search small. Of those that could be next the one with the lowest `index` is tried first: where the servers
say in which order they did things, and it is true, the search walks straight to its end, however long the
history is. It believes nothing of it. A budget of steps ends it all the same, and then the verdict is that
there is none.

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
    index: int = 0  # of its entry, or the one a read was served at; the search tries the lowest first
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
    is_met = call.verb == "set" or value == call.expected or (call.verb == "remove" and not value)
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
        undo: list[tuple[int, str, list[int]]] = []
        untried = self._possible()
        for _ in range(steps_max):
            if not self.next[0]:
                return HistoryVerdict.LINEARIZABLE
            if untried:
                event = untried.pop()
                number = event // 2
                new_value = after(value, self.operations[number])
                state = (taken | 1 << number, new_value or "")
                if new_value is not None and state not in seen:
                    seen.add(state)
                    undo.append((event, value, untried))
                    taken, value = state
                    self._lift(event)
                    untried = self._possible()
            elif not undo:
                return HistoryVerdict.IMPOSSIBLE
            else:
                event, value, untried = undo.pop()
                taken ^= 1 << event // 2
                self._put_back(event)
        return HistoryVerdict.UNDECIDED

    def _possible(self) -> list[int]:
        """Calls before the first return: any of them may be next. The likeliest is the last."""
        calls: list[int] = []
        event = self.next[0]
        while event % 2:
            calls.append(event)
            event = self.next[event]
        calls.sort(key=self._likeliest)
        calls.reverse()
        return calls

    def _likeliest(self, call: int) -> tuple[int, bool]:
        operation = self.operations[call // 2]
        return operation.index, operation.call.verb == "get"

    def _lift(self, call: int) -> None:
        for event in (call, call + 1):
            self.next[self.before[event]] = self.next[event]
            self.before[self.next[event]] = self.before[event]

    def _put_back(self, call: int) -> None:
        for event in (call + 1, call):
            self.next[self.before[event]] = event
            self.before[self.next[event]] = event
