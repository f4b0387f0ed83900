"""What is in an owner's state and not yet told to everybody: the pushes that tell it, within an allowance.

Pushes are counted by payloads: 5 a second, and 20 at once. Once that is used up, changes of status wait for
the next one that is free. Definitions do not: they are in the state, its root tells everybody that something
is there, and the exchanges that follow carry them in bulk.
"""

from __future__ import annotations

import enum

from adsum.allowance import Allowance
from adsum.catalog.replication.deltas import Delta, push
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState
from adsum.catalog.replication.tally import ReplicationTally

PUSHES_A_SECOND = 5
PUSHES_AT_ONCE = 20
PAYLOAD_BYTES_MAX = 900
HEAD_BYTES = 45  # of a push: everything but its items, at their longest
ROW_BYTES = 13  # of an item, besides its value
NOTICE_BYTES_MIN = 800  # what is longer is announced, and fetched by who lacks it


class Urgency(enum.IntEnum):
    CRITICAL = 0
    WARNING = 1
    PASSING = 2
    DEFINITION = 3


class Pushes:
    def __init__(self, tally: ReplicationTally) -> None:
        self._tally = tally
        self._untold: dict[int, Urgency] = {}  # by number
        self._allowance = Allowance(a_second=PUSHES_A_SECOND, at_once=PUSHES_AT_ONCE)

    def add(self, number: int, urgency: Urgency) -> None:
        self._untold[number] = urgency

    def forget(self, number: int) -> None:
        self._untold.pop(number, None)

    def begin_anew(self, numbers: list[int]) -> None:
        self._untold = dict.fromkeys(numbers, Urgency.DEFINITION)

    def due_ns(self, now_ns: int) -> int | None:
        return max(now_ns, self._allowance.can_take_from_ns()) if self._untold else None

    def take(self, now_ns: int, state: OwnerState) -> list[Delta]:
        """Those that may go now."""
        taken = []
        while self._untold and self._allowance.take(now_ns):
            taken.append(self._next(state))
        left = [number for number, urgency in self._untold.items() if urgency == Urgency.DEFINITION]
        for number in left:  # to exchanges
            del self._untold[number]
        self._tally.left_to_exchanges += len(left)
        return taken

    def _next(self, state: OwnerState) -> Delta:
        room_bytes = PAYLOAD_BYTES_MAX - HEAD_BYTES
        items, notices = list[Item](), list[Item]()
        for number in sorted(self._untold, key=self._untold.__getitem__):
            item = state.items[number]
            is_notice = item.value is not None and len(item.value) > NOTICE_BYTES_MIN
            size_bytes = ROW_BYTES + (0 if is_notice else len(item.value or b""))
            if size_bytes > room_bytes:
                break
            room_bytes -= size_bytes
            (notices if is_notice else items).append(item)
        most_urgent = min(self._untold.pop(item.number) for item in (*items, *notices))
        is_urgent = most_urgent <= Urgency.WARNING
        self._tally.pushes += 1
        head = state.owner, state.generation, state.version, state.digest
        named = tuple((item.number, item.version) for item in notices)
        encoded = push(*head, items, notices, is_urgent=is_urgent)
        return Delta(*head, tuple(items), notices=named, is_urgent=is_urgent, encoded=encoded)
