"""What other agents publish, as the view shows it: each owner's items under its node's name.

The roll decides whether a node is there at all; replication what its owner says of it. An owner's items are
kept decoded for as long as membership lists it, and shown with it: what comes before its member is introduced
waits, and what is there when it returns under another name is shown again. A check is shown once both its
definition and its state are known.

What does not decode is counted and passed over: one bad item of a peer costs that item. So is what an agent
says of another node than its own. What the store publishes is shown by `external_catalog`.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.agent.external_catalog import ExternalCatalogView
from adsum.agent.owner_image import OwnerImage, Place, hide_on
from adsum.agent.presence import Presence
from adsum.catalog import records
from adsum.catalog.model import SERF_HEALTH, Check, Service
from adsum.catalog.records import NodeRecord, Record
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState, changes
from adsum.catalog.view import View
from adsum.cbor import BadEncoding
from adsum.now import Now
from adsum.owners import STORE

NODE_PLACE = Place(NodeRecord, "")


class RemoteCatalogView:
    def __init__(self, view: View, presence: Presence) -> None:
        self.bad_items = 0
        self._view = view
        self._presence = presence
        self.external = ExternalCatalogView(view)
        self._images: dict[bytes, OwnerImage] = {}

    def changed(self, now: Now, owner: bytes, before: OwnerState | None, after: OwnerState | None) -> None:
        if owner == STORE:
            self.external.changed(now, before, after)
            return
        if after is None:
            self.forget(now, owner)
            return
        image = self._images.setdefault(owner, OwnerImage())
        touched: dict[Place, None] = {}
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
                hide_on(now, self._view, name, place)

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

    def _show(self, now: Now, owner: bytes, name: str, places: Iterable[Place]) -> None:
        image = self._images[owner]
        described = image.record_at(NODE_PLACE)
        shown = image.with_checks_for_states(places)
        if NODE_PLACE in shown and isinstance(described, NodeRecord):
            self._presence.describe(now, owner, described)
        image.show_on(now, self._view, name, shown)
