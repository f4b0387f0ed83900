"""What one owner publishes, decoded: which record stands where, whatever number it came under."""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog.model import Check, Service
from adsum.catalog.records import CheckState, NodeRecord, Record
from adsum.catalog.view import View
from adsum.frozen import replace
from adsum.named import NamedTuple
from adsum.now import Now


class Place(NamedTuple):
    """Where a record stands in the view; only one record of an owner can stand there."""

    kind: type[Record]
    key: str | int
    node: str = ""  # folded, of an owner of many nodes; empty where the owner is the node


class OwnerImage:
    """Numbers are those of its items, and mean nothing beyond this generation of it: after a restart the same
    service may come under another number, and for a while two may carry it."""

    __slots__ = ("_at", "records")

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self._at: dict[Place, dict[int, None]] = {}  # the last of them to come is shown

    def put(self, number: int, record: Record) -> Place:
        place = place_of(record)
        self.records[number] = record
        self._at.setdefault(place, {})[number] = None
        return place

    def take(self, number: int) -> Place | None:
        record = self.records.pop(number, None)
        if record is None:
            return None
        place = place_of(record)
        numbers = self._at[place]
        del numbers[number]
        if not numbers:
            del self._at[place]
        return place

    def number_at(self, place: Place) -> int | None:
        numbers = self._at.get(place)
        return next(reversed(numbers)) if numbers else None

    def record_at(self, place: Place) -> Record | None:
        number = self.number_at(place)
        return self.records[number] if number is not None else None

    def places(self) -> list[Place]:
        return list(self._at)

    def with_checks_for_states(self, places: Iterable[Place]) -> list[Place]:
        """What is said of a check is shown with it, once both are known."""
        found: dict[Place, None] = {}
        for place in places:
            if place.kind is not CheckState:
                found[place] = None
            elif isinstance(place.key, int):
                check = self.records.get(place.key)
                if isinstance(check, Check):
                    found[place_of(check)] = None
        return list(found)

    def check_at(self, place: Place) -> Check | None:
        """With what it says; None until that is known."""
        number, check = self.number_at(place), self.record_at(place)
        state = self.record_at(Place(CheckState, number)) if number is not None else None
        if isinstance(check, Check) and isinstance(state, CheckState):
            return replace(check, status=state.status, output=state.output)
        return None

    def show_on(self, now: Now, view: View, name: str, places: Iterable[Place]) -> None:
        """Services and checks at these places, all of one node, which is there under this name. Removing a
        service takes its checks out of the view; of those that are still published each is shown again."""
        services_gone = set[tuple[str, str | int]]()
        checks: dict[Place, None] = {}
        for place in places:
            record = self.record_at(place)
            if place.kind is Check:
                checks[place] = None
            elif isinstance(record, Service):
                view.put_service(now, name, record)
            elif place.kind is Service:
                hide_on(now, view, name, place)
                services_gone.add((place.node, place.key))
        if services_gone:
            others = [record for record in self.records.values() if isinstance(record, Check)]
            checks |= {
                place_of(check): None
                for check in others
                if (check.node.lower(), check.service_id) in services_gone
            }
        for place in checks:
            check = self.check_at(place)
            if check is not None:
                view.put_check(now, name, check)
            else:
                hide_on(now, view, name, place)


def hide_on(now: Now, view: View, name: str, place: Place) -> None:
    if place.kind is Service:
        view.remove_service(now, name, str(place.key))
    elif place.kind is Check:
        view.remove_check(now, name, str(place.key))


def place_of(record: Record) -> Place:
    match record:
        case Service(node=node, service_id=service_id):
            return Place(Service, service_id, node.lower())
        case Check(node=node, check_id=check_id):
            return Place(Check, check_id, node.lower())
        case CheckState(number=number):
            return Place(CheckState, number)
        case NodeRecord(name=name):
            return Place(NodeRecord, "", name.lower())
