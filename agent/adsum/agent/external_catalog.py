"""Nodes without an agent, as the view shows them: what the store publishes, many nodes under one owner.

Nobody answers for such a node, so it has no serfHealth: what its checks say is all there is. A node is shown
once its own record is known. Where an agent has the name, the agent's node is shown and this one is not,
until that one goes.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.agent.owner_image import OwnerImage, Place
from adsum.catalog import records
from adsum.catalog.model import SERF_HEALTH, Check, Node, Service
from adsum.catalog.records import NodeRecord, Record
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import OwnerState, changes
from adsum.catalog.view import NO_AGENT, View
from adsum.cbor import BadEncoding
from adsum.now import Now


class ExternalCatalogView:
    def __init__(self, view: View) -> None:
        self.bad_items = 0
        self._view = view
        self._image = OwnerImage()

    def changed(self, now: Now, before: OwnerState | None, after: OwnerState | None) -> None:
        touched: dict[Place, None] = {}
        for was, item in changes(before, after):  # all of them, before anything is shown
            number = item.number if item is not None else was.number if was is not None else 0
            left = self._image.take(number)
            if left is not None:
                touched[left] = None
            record = self._decoded(item)
            if record is not None:
                touched[self._image.put(number, record)] = None
        on_node: dict[str, list[Place]] = {}
        for place in self._image.with_checks_for_states(touched):
            on_node.setdefault(place.node, []).append(place)
        for node, places in on_node.items():
            self._show(now, node, places)

    def name_is_free(self, now: Now, name: str) -> None:
        """An agent had it."""
        node = name.lower()
        if self._image.record_at(Place(NodeRecord, "", node)) is not None:
            self._show(now, node, ())

    def _show(self, now: Now, node: str, places: Iterable[Place]) -> None:
        record = self._image.record_at(Place(NodeRecord, "", node))
        host = self._view.node(node)
        if host is not None and host.owner != NO_AGENT:
            return
        if not isinstance(record, NodeRecord):
            self._view.remove_node(now, node)
            return
        self._view.put_node(now, NO_AGENT, _node(record))
        if host is None:  # nothing is on it yet
            places = [place for place in self._image.places() if place.node == node]
        self._image.show_on(now, self._view, record.name, places)

    def _decoded(self, item: Item | None) -> Record | None:
        if item is None or item.value is None:
            return None
        try:
            record = records.decode(item.value)
        except BadEncoding:
            self.bad_items += 1
            return None
        match record:
            case Service(node="") | Check(node="") | NodeRecord(name=""):
                self.bad_items += 1  # of no node
                return None
            case Check(check_id=check_id) if check_id == SERF_HEALTH:
                self.bad_items += 1  # only an agent has that
                return None
        return record


def _node(record: NodeRecord) -> Node:
    return Node(
        node_id=record.node_id,
        name=record.name,
        address=record.address,
        datacenter=record.datacenter,
        tagged_addresses=record.tagged_addresses,
        meta=record.meta,
    )
