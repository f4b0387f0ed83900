"""/v1/coordinate: where the members are on the map that round trips draw.

Each agent measures its own place and hears those of others with their answers to its probes. They move all
the time, so they are looked at every five seconds, as Consul's servers take them in, and the index moves
when a look finds other numbers. Places of nodes that are no agents are told by nobody here.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from adsum.api import leadership, parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import FOREIGN_INDEX_HOLD_S, check_consistency, parse_asked
from adsum.api.freshness import age_headers, stale_header
from adsum.catalog.indexes import TAG_BITS
from adsum.gossip.coordinates import Coordinate
from adsum.http.request import Request
from adsum.http.response import HeaderList, Response, empty
from adsum.http.router import HttpRefusal, Route

LOOK_S = 5.0
UPDATE_SENTENCE = (
    "Adsum takes coordinates from agents only, which measure their own: "
    "the place of another node cannot be set here."
)

Shown = dict[str, object]


class Coordinates(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._places: dict[str, Shown] = {}  # by the node's name, in the order of names
        self._index = 0
        self._look_at_s = 0.0

    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/coordinate/datacenters", self.datacenters),
            Route(("GET",), "/v1/coordinate/nodes", self.nodes),
            Route(("GET",), "/v1/coordinate/node/", self.node, rest=True),
            Route(("PUT",), "/v1/coordinate/update", self.update),
        ]

    async def datacenters(self, request: Request, _rest: str) -> Response:
        """Of the servers, for these are who datacenters talk through. One that nobody has measured stands at
        the origin, where everybody begins.
        """
        agent = self._agent
        own = leadership.own_node(agent).name if leadership.is_server(agent) else None
        servers = sorted([*([own] if own else []), *(each.name for each in agent.cluster.servers.present)])
        places = [
            _place(name, agent.cluster.membership.coordinate_of(name) or Coordinate()) for name in servers
        ]
        area = {"Datacenter": agent.config.datacenter, "AreaID": "wan", "Coordinates": places}
        return json_answer(agent, request, [area])

    async def nodes(self, request: Request, _rest: str) -> Response:
        places = await self._after(request)
        listed = [] if request.query.first("segment") else list(places.values())
        return json_answer(self._agent, request, listed, headers=self._meta())

    async def node(self, request: Request, name: str) -> Response:
        places = await self._after(request)
        place = places.get(name.casefold())
        if place is None or request.query.first("segment"):
            return empty(404)
        return json_answer(self._agent, request, [place], headers=self._meta())

    async def update(self, _request: Request, _rest: str) -> Response:
        raise HttpRefusal(404, UPDATE_SENTENCE)

    async def _after(self, request: Request) -> Mapping[str, Shown]:
        """Where everybody is, once that is something else than the client knows, or its wait is over."""
        query, agent = request.query, self._agent
        asked = parse_asked(query, agent)
        check_consistency(query)
        parameters.check_datacenter(query, agent.config.datacenter)
        self._look()
        is_foreign = asked.index > self._index
        hold_s = min(asked.wait_s, FOREIGN_INDEX_HOLD_S) if is_foreign else asked.wait_s
        deadline = trio.current_time() + hold_s
        while asked.index >= self._index and trio.current_time() < deadline:
            await request.park(min(deadline, self._look_at_s))
            self._look()
        return self._places

    def _look(self) -> None:
        """At most every few seconds, however many ask."""
        now_s = trio.current_time()
        if self._index and now_s < self._look_at_s:
            return
        self._look_at_s = now_s + LOOK_S
        # Of those who are on the catalog's list: whoever left is nowhere.
        names = [host.name for host in self._agent.view.nodes()]
        found = zip(names, map(self._agent.cluster.membership.coordinate_of, names), strict=True)
        places = {name.casefold(): _place(name, at) for name, at in found if at is not None}
        if places != self._places or not self._index:
            self._places = places
            self._index = max(self._index + 1, self._agent.now().wall_ms << TAG_BITS)

    def _meta(self) -> HeaderList:
        agent, index = self._agent, ("X-Consul-Index", str(self._index))
        return (index, *age_headers(agent, agent.now()), *stale_header(agent))


def shown(coordinate: Coordinate) -> Shown:
    return {
        "Vec": coordinate.vector,
        "Error": coordinate.error,
        "Adjustment": coordinate.adjustment_s,
        "Height": coordinate.height_s,
    }


def _place(name: str, coordinate: Coordinate) -> Shown:
    return {"Node": name, "Segment": "", "Coord": shown(coordinate)}
