"""/v1/catalog/register and deregister. Of a node that has an agent the change is its agent's to make; a node
without one is kept by the store, and published by the servers.

What an agent takes off stays off, which in Consul comes back with the next anti-entropy. Of a registration
only tags are taken, and only where the service was registered with EnableTagOverride.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from adsum.agent.commands import CommandRefused
from adsum.agent.presence import uuid_bytes
from adsum.api import parameters
from adsum.api.answers import STATUS_OF, json_answer
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.bodies import decode_json, refusing_definitions
from adsum.api.external_items import (
    NO_ADDRESS,
    NO_NODE,
    UnfitItem,
    check_item,
    is_shown,
    node_item,
    service_item,
)
from adsum.api.store_access import StoreAccess
from adsum.catalog.decode import Fields
from adsum.catalog.indexes import Family
from adsum.external import ExternalDeregister, ExternalItem, ExternalRegister
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.kv import StoreOutcome
from adsum.peers.owner_forwarding import NoOwner, OwnerAway, OwnerRefuses
from adsum.topics import Topic, Watching

SEEN_S = 1.0
ONLY_TAGS = (
    "This node belongs to its agent: register services and checks there, at /v1/agent/service/register. "
    "From elsewhere only the tags of one service can be changed."
)


class CatalogWrites(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._access = StoreAccess(parts.agent, parts.random)

    def routes(self) -> list[Route]:
        return [
            Route(("PUT",), "/v1/catalog/register", self.register),
            Route(("PUT",), "/v1/catalog/deregister", self.deregister),
        ]

    async def deregister(self, request: Request, _rest: str) -> Response:
        with refusing_definitions():
            body, node = self._read(request, "structs.DeregisterRequest")
            service_id, check_id = body.text("ServiceID"), body.text("CheckID")
        if self._has_agent(node):
            return await self._done(request, self._agent.owners.deregister(node, service_id, check_id))
        return await self._deregister_external(request, ExternalDeregister(node, service_id, check_id))

    async def register(self, request: Request, _rest: str) -> Response:
        with refusing_definitions():
            body, node = self._read(request, "structs.RegisterRequest")
            if not self._has_agent(node):
                return await self._register_external(request, body, node)
            service = Fields(body.value("Service"), type_name="structs.NodeService", outer="Service")
            service_id = service.text("ID") or service.text("Service")
            tags, checks = service.texts("Tags"), body.items("Checks", wanted="structs.HealthChecks")
        if not service_id or checks or body.value("Check"):
            raise HttpRefusal(400, ONLY_TAGS)
        return await self._done(request, self._agent.owners.retag(node, service_id, tags))

    # Of nodes without an agent.

    async def _register_external(self, request: Request, body: Fields, node: str) -> Response:
        agent = self._agent
        try:
            items = self._items_in(body, node)
        except UnfitItem as unfit:
            raise HttpRefusal(500, str(unfit)) from None
        answer = await self._access.write(request, ExternalRegister(items))
        if answer.outcome is not StoreOutcome.DONE:
            raise HttpRefusal(500, answer.extras.sentence if answer.extras is not None else "")
        await self._until_seen(
            request, node, lambda: all(is_shown(agent.view.node(node), item) for item in items)
        )
        return json_answer(agent, request, value=True)

    async def _deregister_external(self, request: Request, gone: ExternalDeregister) -> Response:
        view = self._agent.view
        await self._access.write(request, gone)

        def is_gone() -> bool:
            host = view.node(gone.node)
            if host is None or host.owner:
                return True
            if gone.check_id:
                return gone.check_id not in host.checks
            return bool(gone.service_id) and gone.service_id not in host.instances

        await self._until_seen(request, gone.node, is_gone)
        return json_answer(self._agent, request, value=True)

    def _items_in(self, body: Fields, node: str) -> tuple[ExternalItem, ...]:
        agent = self._agent
        host = agent.view.node(node)
        items: list[ExternalItem] = []
        skips_node = body.boolean("SkipNodeUpdate")
        if not body.text("Address") and not skips_node:
            raise UnfitItem(NO_ADDRESS)
        if host is None or not skips_node:
            item = node_item(body, agent.config.datacenter)
            if item.node_id:
                self._refuse_agents_id(item)
            items.append(item)
        service = body.value("Service")
        if service is not None:
            fields = Fields(service, type_name="structs.NodeService", outer="Service")
            if fields.text("ID") or fields.text("Service"):
                items.append(service_item(fields, node))
        raw_checks = [body.value("Check"), *body.items("Checks", wanted="structs.HealthChecks")]
        for raw in raw_checks:
            if raw is None:
                continue
            fields = Fields(raw, type_name="structs.HealthCheck", outer="Check")
            named = fields.text("Node") or node
            if named.lower() != node.lower():
                raise UnfitItem(f'check node "{named}" does not match node "{node}"')
            items.append(check_item(fields, node, host, items))
        return tuple(items)

    def _refuse_agents_id(self, item: ExternalItem) -> None:
        member = self._agent.cluster.membership.member_by_id(uuid_bytes(item.node_id))
        if member is not None:
            name, address = member.profile.name, member.profile.address.host
            raise UnfitItem(
                f'failed inserting node: Error while renaming Node ID: "{item.node_id}": Node name {name} is '
                f"reserved by node {item.node_id} with name {name} ({address})"
            )

    def _has_agent(self, node: str) -> bool:
        host = self._agent.view.node(node)
        return host is not None and bool(host.owner)

    async def _until_seen(self, request: Request, node: str, is_seen: Callable[[], bool]) -> None:
        """At most a second: the copy here will show it, only later."""
        until_s = trio.current_time() + SEEN_S
        watched = tuple(
            Topic(family, name)
            for family, name in (
                (Family.NODES, ""),
                (Family.NODE, node.lower()),
                (Family.NODE_CHECKS, node.lower()),
            )
        )
        with Watching(self._agent.watches, watched, request.wake):
            while not is_seen() and await request.park(until_s):
                pass

    # What is asked.

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
        except NoOwner as nobody:
            raise HttpRefusal(404, str(nobody)) from None
        except OwnerRefuses as refused:
            raise HttpRefusal(400, str(refused)) from None
        except OwnerAway as away:
            raise HttpRefusal(500, str(away)) from None
        except CommandRefused as refused:
            raise HttpRefusal(STATUS_OF[refused.refusal.cause], refused.refusal.sentence) from None
        return json_answer(self._agent, request, value=True)
