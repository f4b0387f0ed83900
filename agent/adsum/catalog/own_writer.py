"""The part of the view that this agent writes: its own node with everything on it.

What is another than before is handed on once, as all others are to hold it: by the name of its item and the
item's bytes. Of a check, the definition is one item and what it says another.
"""

from __future__ import annotations

from typing import NamedTuple

from adsum.catalog import records
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.replication.items import NODE_KEY
from adsum.catalog.view import CatalogHost, View
from adsum.now import Now


class OwnChange(NamedTuple):
    key: str  # of the item
    encoded: bytes | None  # None: it is gone
    state_key: str = ""  # of the item that tells what a check says
    check: Check | None = None  # as it says it now


class OwnCatalogWriter:
    def __init__(self, view: View, owner: str, node_name: str) -> None:
        self.view = view
        self.node_name = node_name
        self._owner = owner
        self._changed: dict[str, OwnChange] = {}  # a dict keeps the order, which a seed must reproduce

    @property
    def host(self) -> CatalogHost | None:
        return self.view.node(self.node_name)

    def put_node(self, now: Now, node: Node) -> None:
        if self.view.put_node(now, self._owner, node):
            self._changed[NODE_KEY] = OwnChange(NODE_KEY, records.encode_node(node))

    def put_service(self, now: Now, service: Service, encoded: bytes) -> None:
        if self.view.put_service(now, self.node_name, service):
            key = f"service:{service.service_id}"
            self._changed[key] = OwnChange(key, encoded)

    def remove_service(self, now: Now, service_id: str) -> None:
        if self.view.remove_service(now, self.node_name, service_id):
            key = f"service:{service_id}"
            self._changed[key] = OwnChange(key, None)

    def put_check(self, now: Now, check: Check, encoded: bytes) -> None:
        """`encoded` is its definition."""
        if self.view.put_check(now, self.node_name, check):
            key = f"check:{check.check_id}"
            self._changed[key] = OwnChange(key, encoded, f"state:{check.check_id}", check)

    def remove_check(self, now: Now, check_id: str) -> None:
        if self.view.remove_check(now, self.node_name, check_id):
            key = f"check:{check_id}"
            self._changed[key] = OwnChange(key, None, f"state:{check_id}")

    def take_changed(self) -> tuple[OwnChange, ...]:
        changed, self._changed = tuple(self._changed.values()), {}
        return changed
