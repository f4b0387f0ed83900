"""/v1/catalog/register and deregister, for nodes that have an agent: the change is its agent's to make.

What the agent takes off stays off, which in Consul comes back with the next anti-entropy. Of a registration
only tags are taken, and only where the service was registered with EnableTagOverride. Nodes without an agent
come with the store.
"""

from __future__ import annotations

from collections.abc import Awaitable

from adsum.agent.commands import CommandRefused
from adsum.api import parameters
from adsum.api.absent import EXTERNAL_SENTENCE
from adsum.api.answers import STATUS_OF, json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.bodies import decode_json, refusing_definitions
from adsum.catalog.decode import Fields
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.peers.owner_forwarding import NoOwner, OwnerAway, OwnerRefuses

NO_NODE = "Must provide node"
ONLY_TAGS = (
    "This node belongs to its agent: register services and checks there, at /v1/agent/service/register. "
    "From elsewhere only the tags of one service can be changed."
)


class CatalogWrites(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("PUT",), "/v1/catalog/register", self.register),
            Route(("PUT",), "/v1/catalog/deregister", self.deregister),
        ]

    async def deregister(self, request: Request, _rest: str) -> Response:
        with refusing_definitions():
            body, node = self._read(request, "structs.DeregisterRequest")
            service_id, check_id = body.text("ServiceID"), body.text("CheckID")
        return await self._done(request, self._agent.owners.deregister(node, service_id, check_id))

    async def register(self, request: Request, _rest: str) -> Response:
        with refusing_definitions():
            body, node = self._read(request, "structs.RegisterRequest")
            service = Fields(body.value("Service"), type_name="structs.NodeService", outer="Service")
            service_id = service.text("ID") or service.text("Service")
            tags, checks = service.texts("Tags"), body.items("Checks", wanted="structs.HealthChecks")
        owners = self._agent.owners
        if self._agent.view.node(node) is not None and (not service_id or checks or body.value("Check")):
            raise HttpRefusal(400, ONLY_TAGS)
        return await self._done(request, owners.retag(node, service_id, tags))

    def _read(self, request: Request, type_name: str) -> tuple[Fields, str]:
        parameters.check_namespace(request.query)
        own = self._agent.config.datacenter
        parameters.check_datacenter(request.query, own)
        body = Fields(decode_json(request.body), type_name=type_name)
        if body.text("Datacenter").lower() not in ("", own.lower()):
            raise HttpRefusal(500, "No path to datacenter")
        node = body.text("Node")
        if not node:
            raise HttpRefusal(500, NO_NODE)  # as Consul
        return body, node

    async def _done(self, request: Request, doing: Awaitable[None]) -> Response:
        try:
            await doing
        except NoOwner:
            raise HttpRefusal(404, EXTERNAL_SENTENCE) from None
        except OwnerRefuses as refused:
            raise HttpRefusal(400, str(refused)) from None
        except OwnerAway as away:
            raise HttpRefusal(500, str(away)) from None
        except CommandRefused as refused:
            raise HttpRefusal(STATUS_OF[refused.refusal.cause], refused.refusal.sentence) from None
        return json_answer(self._agent, request, value=True)
