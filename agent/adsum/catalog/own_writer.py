"""The part of the view that this agent writes: its own node with everything on it.

It remembers what changed, so that those who copy it can be told of just that.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from adsum.catalog.model import Check, Node, Service
from adsum.catalog.view import CatalogHost, View
from adsum.now import Now


class Part(enum.StrEnum):
    NODE = "node"
    SERVICE = "service"
    CHECK = "check"


class Changed(NamedTuple):
    part: Part
    item_id: str  # of the service or check


class OwnCatalogWriter:
    def __init__(self, view: View, owner: str, node_name: str) -> None:
        self.view = view
        self.node_name = node_name
        self._owner = owner
        self._changed: dict[Changed, None] = {}  # a dict keeps the order, which a seed must reproduce

    @property
    def host(self) -> CatalogHost | None:
        return self.view.node(self.node_name)

    def put_node(self, now: Now, node: Node) -> None:
        before = self.view.index
        self.view.put_node(now, self._owner, node)
        self._note(before, Changed(Part.NODE, ""))

    def put_service(self, now: Now, service: Service) -> None:
        before = self.view.index
        self.view.put_service(now, self.node_name, service)
        self._note(before, Changed(Part.SERVICE, service.service_id))

    def remove_service(self, now: Now, service_id: str) -> None:
        before = self.view.index
        self.view.remove_service(now, self.node_name, service_id)
        self._note(before, Changed(Part.SERVICE, service_id))

    def put_check(self, now: Now, check: Check) -> None:
        before = self.view.index
        self.view.put_check(now, self.node_name, check)
        self._note(before, Changed(Part.CHECK, check.check_id))

    def remove_check(self, now: Now, check_id: str) -> None:
        before = self.view.index
        self.view.remove_check(now, self.node_name, check_id)
        self._note(before, Changed(Part.CHECK, check_id))

    def take_changed(self) -> tuple[Changed, ...]:
        changed, self._changed = tuple(self._changed), {}
        return changed

    def _note(self, before: int, change: Changed) -> None:
        """What is as it was before is no change."""
        if self.view.index != before:
            self._changed[change] = None
