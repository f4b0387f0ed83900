"""What other agents publish, as the view shows it: each owner's items under its node's name.

The roll decides whether a node is there at all; replication what its owner says of it. An owner's items are
kept decoded for as long as the roll lists it, and shown with it: what comes before its member is introduced
waits, and what is there when it returns under another name is shown again. A check is shown once both its
definition and its state are known.

What does not decode is counted and passed over: one bad item of a peer costs that item.
"""

from __future__ import annotations

from dataclasses import replace

from adsum.agent.presence import Presence
from adsum.catalog import records
from adsum.catalog.model import SERF_HEALTH, Check, Service
from adsum.catalog.records import CheckState, NodeRecord, Record
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState, changes
from adsum.catalog.replication.strict import BadBytes
from adsum.catalog.view import View
from adsum.now import Now


class _Image:
    """Of one owner, by item number."""

    __slots__ = ("records", "states")

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.states: dict[int, CheckState] = {}  # by the number of their check


class Mirror:
    def __init__(self, view: View, presence: Presence) -> None:
        self.bad_items = 0
        self._view = view
        self._presence = presence
        self._images: dict[bytes, _Image] = {}

    def changed(self, now: Now, owner: bytes, before: OwnerState | None, after: OwnerState | None) -> None:
        if after is None:
            self.forget(now, owner)
            return
        image = self._images.setdefault(owner, _Image())
        self._apply(now, owner, image, changes(before, after))

    def forget(self, now: Now, owner: bytes) -> None:
        """With everything it showed; its node is the roll's."""
        image = self._images.pop(owner, None)
        name = self._presence.shown_as(owner)
        if image is not None and name is not None:
            for record in image.records.values():
                self._hide(now, name, record)

    def show(self, now: Now, owner: bytes) -> None:
        """Its node has come, or is another than before."""
        image, name = self._images.get(owner), self._presence.shown_as(owner)
        if image is None or name is None:
            return
        for number, record in image.records.items():
            self._show(now, owner, name, number, record)

    # One change.

    def _apply(
        self, now: Now, owner: bytes, image: _Image, changed: list[tuple[Item | None, Item | None]]
    ) -> None:
        name = self._presence.shown_as(owner)
        for was, item in changed:
            number = item.number if item is not None else was.number if was is not None else 0
            before = image.records.pop(number, None)
            record = self._decoded(item)
            if record is not None:
                image.records[number] = record
            self._note_state(image, before, record)
            if name is None:
                continue
            if before is not None and (record is None or _place(before) != _place(record)):
                self._hide(now, name, before)
            if record is not None:
                self._show(now, owner, name, number, record)

    def _decoded(self, item: Item | None) -> Record | None:
        if item is None or item.value is None:
            return None
        try:
            record = records.decode(item.value)
        except BadBytes:
            self.bad_items += 1
            return None
        if isinstance(record, Check) and record.check_id == SERF_HEALTH:
            self.bad_items += 1  # whether a node is present is nobody's to publish
            return None
        return record

    def _note_state(self, image: _Image, before: Record | None, record: Record | None) -> None:
        if isinstance(before, CheckState):
            image.states.pop(before.number, None)
        if isinstance(record, CheckState):
            image.states[record.number] = record

    def _show(self, now: Now, owner: bytes, name: str, number: int, record: Record) -> None:
        image = self._images[owner]
        match record:
            case NodeRecord():
                self._presence.describe(now, owner, record)
            case Service():
                self._view.put_service(now, name, record)
            case Check():
                self._show_check(now, name, record, image.states.get(number))
            case CheckState():
                check = image.records.get(record.number)
                if isinstance(check, Check):
                    self._show_check(now, name, check, record)

    def _show_check(self, now: Now, name: str, check: Check, state: CheckState | None) -> None:
        if state is not None:
            self._view.put_check(now, name, replace(check, status=state.status, output=state.output))

    def _hide(self, now: Now, name: str, record: Record) -> None:
        match record:
            case Service():
                self._view.remove_service(now, name, record.service_id)
            case Check():
                self._view.remove_check(now, name, record.check_id)


def _place(record: Record) -> tuple[type[Record], str]:
    """Where it stands in the view: what replaces it there need not be hidden first."""
    match record:
        case Service():
            return Service, record.service_id
        case Check():
            return Check, record.check_id
        case _:
            return type(record), ""
