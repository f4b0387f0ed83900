"""The part of the view that this agent writes: its own node with everything on it.

What is another than before is handed on at once, as all others are to hold it: by the name of its item and
the item's bytes. Of a check, the definition is one item and what it says another. Before there is anybody to
hand it to, the last word on each item waits.
"""

from __future__ import annotations

from collections.abc import Callable

from adsum.catalog import records
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.replication.items import NODE_KEY
from adsum.catalog.view import CatalogHost, View
from adsum.named import NamedTuple
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
        self._early: dict[str, OwnChange] = {}  # a dict keeps the order, which a seed must reproduce
        self._hand_on: Callable[[Now, OwnChange], None] = self._keep

    def hand_on_to(self, now: Now, publish: Callable[[Now, OwnChange], None]) -> None:
        """From here on, and first what has waited."""
        self._hand_on = publish
        early, self._early = self._early, {}
        for change in early.values():
            publish(now, change)

    def _keep(self, _now: Now, change: OwnChange) -> None:
        self._early[change.key] = change

    @property
    def host(self) -> CatalogHost | None:
        return self.view.node(self.node_name)

    def put_node(self, now: Now, node: Node) -> None:
        if self.view.put_node(now, self._owner, node):
            self._hand_on(now, OwnChange(NODE_KEY, records.encode_node(node)))

    def put_service(self, now: Now, service: Service, encoded: bytes) -> None:
        if self.view.put_service(now, self.node_name, service):
            self._hand_on(now, OwnChange(f"service:{service.service_id}", encoded))

    def remove_service(self, now: Now, service_id: str) -> None:
        if self.view.remove_service(now, self.node_name, service_id):
            self._hand_on(now, OwnChange(f"service:{service_id}", None))

    def put_check(self, now: Now, check: Check, encoded: bytes) -> None:
        """`encoded` is its definition."""
        if self.view.put_check(now, self.node_name, check):
            names = f"check:{check.check_id}", f"state:{check.check_id}"
            self._hand_on(now, OwnChange(names[0], encoded, names[1], check))

    def remove_check(self, now: Now, check_id: str) -> None:
        if self.view.remove_check(now, self.node_name, check_id):
            self._hand_on(now, OwnChange(f"check:{check_id}", None, f"state:{check_id}"))
