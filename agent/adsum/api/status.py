"""/v1/status: who leads, and who takes part. Registrators use it as a ping."""

from __future__ import annotations

from adsum.api import leadership, parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import Route


class StatusEndpoints(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/status/leader", self.leader),
            Route(("GET",), "/v1/status/peers", self.peers),
        ]

    async def leader(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        return json_answer(self._agent, request, leadership.leader_address(self._agent))

    async def peers(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        leader = leadership.leader_address(self._agent)
        return json_answer(self._agent, request, [leader] if leader else [])
