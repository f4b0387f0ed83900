"""What other agents publish, as the view shows it: each owner's items under its node's name.

The roll decides whether a node is there at all; replication what its owner says of it. An owner's items are
kept decoded for as long as membership lists it, and shown with it: what comes before its member is introduced
waits, and what is there when it returns under another name is shown again. A check is shown once both its
definition and its state are known.

What does not decode is counted and passed over: one bad item of a peer costs that item. So is what an agent
says of another node than its own. What the store publishes is passed on to others and not shown yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from adsum.agent.presence import Presence
from adsum.catalog import records
from adsum.catalog.model import SERF_HEALTH, Check, Service
from adsum.catalog.records import CheckState, NodeRecord, Record
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState, changes
from adsum.catalog.view import View
from adsum.cbor import BadEncoding
from adsum.now import Now
from adsum.owners import STORE


class _Place(NamedTuple):
    """Where a record stands in the view; only one record of an owner can stand there."""

    kind: type[Record]
    key: str | int


class _Image:
    """Of one owner. Numbers are those of its items, and mean nothing beyond this life of it: after a restart
    the same service may come under another number, and for a while two may carry it."""

    __slots__ = ("_at", "records")

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self._at: dict[_Place, dict[int, None]] = {}  # the last of them to come is shown

    def put(self, number: int, record: Record) -> _Place:
        place = _place(record)
        self.records[number] = record
        self._at.setdefault(place, {})[number] = None
        return place

    def take(self, number: int) -> _Place | None:
        record = self.records.pop(number, None)
        if record is None:
            return None
        place = _place(record)
        numbers = self._at[place]
        del numbers[number]
        if not numbers:
            del self._at[place]
        return place

    def number_at(self, place: _Place) -> int | None:
        numbers = self._at.get(place)
        return next(reversed(numbers)) if numbers else None

    def record_at(self, place: _Place) -> Record | None:
        number = self.number_at(place)
        return self.records[number] if number is not None else None

    def places(self) -> list[_Place]:
        return list(self._at)

    def checks_at(self, places: list[_Place], services_gone: set[str | int]) -> list[_Place]:
        """Those that look different once these places do. Removing a service takes its checks out of the
        view; of those that are still published each is shown again."""
        found: dict[_Place, None] = {}
        for place in places:
            if place.kind is Check:
                found[place] = None
            elif place.kind is CheckState and isinstance(place.key, int):
                check = self.records.get(place.key)
                if isinstance(check, Check):
                    found[_place(check)] = None
        if services_gone:
            checks = [record for record in self.records.values() if isinstance(record, Check)]
            found |= {_place(check): None for check in checks if check.service_id in services_gone}
        return list(found)


class RemoteCatalogView:
    def __init__(self, view: View, presence: Presence) -> None:
        self.bad_items = 0
        self._view = view
        self._presence = presence
        self._images: dict[bytes, _Image] = {}

    def changed(self, now: Now, owner: bytes, before: OwnerState | None, after: OwnerState | None) -> None:
        if owner == STORE:
            return
        if after is None:
            self.forget(now, owner)
            return
        image = self._images.setdefault(owner, _Image())
        touched: dict[_Place, None] = {}
        for was, item in changes(before, after):  # all of them, before anything is shown
            number = item.number if item is not None else was.number if was is not None else 0
            left = image.take(number)
            if left is not None:
                touched[left] = None
            record = self._decoded(item)
            if record is not None:
                touched[image.put(number, record)] = None
        name = self._presence.shown_as(owner)
        if name is not None:
            self._show(now, owner, name, list(touched))

    def forget(self, now: Now, owner: bytes) -> None:
        """With everything it showed; its node is membership's."""
        image = self._images.pop(owner, None)
        name = self._presence.shown_as(owner)
        if image is not None and name is not None:
            for place in image.places():
                self._hide(now, name, place)

    def show(self, now: Now, owner: bytes) -> None:
        """Its node has come, or is another than before."""
        image, name = self._images.get(owner), self._presence.shown_as(owner)
        if image is not None and name is not None:
            self._show(now, owner, name, image.places())

    def _decoded(self, item: Item | None) -> Record | None:
        if item is None or item.value is None:
            return None
        try:
            record = records.decode(item.value)
        except BadEncoding:
            self.bad_items += 1
            return None
        match record:
            case Check(check_id=check_id) if check_id == SERF_HEALTH:
                self.bad_items += 1  # whether a node is present is nobody's to publish
                return None
            case Service(node=node) | Check(node=node) | NodeRecord(name=node) if node:
                self.bad_items += 1  # by an agent, who has nothing to say there
                return None
        return record

    def _show(self, now: Now, owner: bytes, name: str, places: list[_Place]) -> None:
        image = self._images[owner]
        services_gone = set[str | int]()
        for place in places:
            record = image.record_at(place)
            match record:
                case NodeRecord():
                    self._presence.describe(now, owner, record)
                case Service():
                    self._view.put_service(now, name, record)
                case None if place.kind is Service:
                    self._hide(now, name, place)
                    services_gone.add(place.key)
        for place in image.checks_at(places, services_gone):
            number, check = image.number_at(place), image.record_at(place)
            state = image.record_at(_Place(CheckState, number)) if number is not None else None
            if isinstance(check, Check) and isinstance(state, CheckState):
                self._view.put_check(now, name, replace(check, status=state.status, output=state.output))
            else:
                self._hide(now, name, place)

    def _hide(self, now: Now, name: str, place: _Place) -> None:
        match place:
            case (kind, str(service_id)) if kind is Service:
                self._view.remove_service(now, name, service_id)
            case (kind, str(check_id)) if kind is Check:
                self._view.remove_check(now, name, check_id)


def _place(record: Record) -> _Place:
    match record:
        case Service():
            return _Place(Service, record.service_id)
        case Check():
            return _Place(Check, record.check_id)
        case CheckState():
            return _Place(CheckState, record.number)
        case NodeRecord():
            return _Place(NodeRecord, "")
