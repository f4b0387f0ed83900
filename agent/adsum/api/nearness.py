"""`near=`: what a query lists, ordered by the round trip from one node, as network coordinates estimate it.

`_agent` is this agent's own node. What nobody has measured comes last in its usual order, and from a node
that nobody has measured everything stays in its usual order; both as in Consul.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from adsum.api import leadership
from adsum.api.api_types import Agent
from adsum.http.request import Query

OWN_AGENT = "_agent"

Item = TypeVar("Item")


class Nearness:
    def __init__(self, agent: Agent, query: Query) -> None:
        self._agent = agent
        self._near = query.first("near")

    @property
    def is_asked_for(self) -> bool:
        return bool(self._near)

    def order(self, items: Iterable[Item], node_of: Callable[[Item], str]) -> Iterable[Item]:
        if not self._near:
            return items
        agent = self._agent
        name = leadership.own_node(agent).name if self._near == OWN_AGENT else self._near
        coordinate_of = agent.cluster.membership.coordinate_of
        origin = coordinate_of(name)
        if origin is None:
            return items
        distances: dict[str, float] = {}
        for item in (items := list(items)):
            node = node_of(item)
            if node not in distances:
                place = coordinate_of(node)
                distances[node] = math.inf if place is None else origin.distance_s(place)
        return sorted(items, key=lambda item: distances[node_of(item)])
