"""/v1/agent/service…: what this agent itself runs, registered and deregistered by whoever runs it.

Reads show this agent's own state, with no index and nobody else's services. A registration is answered when
it is visible here and on disk.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

import trio

from adsum.agent.commands import DeregisterService, RegisterService, SetServiceMaintenance
from adsum.api import parameters, shapes
from adsum.api.answers import encoded_answer, in_turns, json_answer, refusing_commands
from adsum.api.api_types import Agent, EndpointFamily
from adsum.api.blocking import parse_asked
from adsum.api.bodies import decode_json, refusing_definitions
from adsum.api.queries import named, wanted
from adsum.catalog.decode import decode_service
from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.catalog.indexes import Family
from adsum.catalog.tagged import with_family_addresses
from adsum.catalog.validate import validate_service
from adsum.http.request import Request
from adsum.http.response import Response, empty
from adsum.http.router import HttpRefusal, Route
from adsum.topics import Topic, Watching

log = logging.getLogger("agent.http")

WARNINGS_LOGGED_MAX = 8
SCRIPTS_DISABLED = (
    "Scripts are disabled on this agent from remote calls; "
    "to enable, configure 'enable_script_checks' to true"
)


class AgentServices(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/agent/services", self.services),
            Route(("GET",), "/v1/agent/service/", self.service, rest=True),
            Route(("PUT",), "/v1/agent/service/register", self.register),
            Route(("PUT",), "/v1/agent/service/deregister/", self.deregister, rest=True),
            Route(("PUT",), "/v1/agent/service/maintenance/", self.maintain, rest=True),
        ]

    async def services(self, request: Request, _rest: str) -> Response:
        parameters.check_namespace(request.query)
        query, mine = request.query, self._agent.own
        found = await self._parts.filter_time.spend(
            request,
            lambda: wanted(query, "node_service", mine.services.items(), lambda each: each[1].published),
        )
        shown = []
        async for service_id, own in in_turns(sorted(found)):
            shown.append((service_id, shapes.encode(shapes.own_service(own.definition))))
        return encoded_answer(self._agent, request, shapes.object_of(shown))

    async def service(self, request: Request, service_id: str) -> Response:
        """With `?hash=` it waits until the service is not as the caller knows it."""
        parameters.check_namespace(request.query)
        known = request.query.first("hash")
        if known and self._hashed(service_id)[1] == known:
            deadline = trio.current_time() + parse_asked(request.query, self._agent).wait_s
            topic = Topic(Family.NODE, self._agent.own.settings.node_name.lower())
            with Watching(self._agent.watches, (topic,), request.wake):
                while self._hashed(service_id)[1] == known and await request.park(deadline):
                    pass
        definition, content_hash = self._hashed(service_id)
        headers = (("X-Consul-Contenthash", content_hash),)
        shown = shapes.own_service(definition, content_hash)
        return json_answer(self._agent, request, shown, headers=headers)

    async def register(self, request: Request, _rest: str) -> Response:
        parameters.check_namespace(request.query)
        config = self._agent.config
        with refusing_definitions():
            definition = decode_service(
                decode_json(request.body), output_bytes_max=config.check_output_bytes_max
            )
            warnings = validate_service(definition)
        refuse_scripts(self._agent, definition.checks)
        definition = with_family_addresses(definition)
        known = self._agent.own.services.get(definition.service_id)
        if known is None or known.definition != definition:
            log_warnings(warnings)
        replaces = request.query.has("replace-existing-checks") and (
            request.query.first("replace-existing-checks") in parameters.TRUE | {""}
        )
        command = RegisterService(definition, replace_existing_checks=replaces)
        with refusing_commands():
            await self._agent.submit(command)
        return empty(200)

    async def deregister(self, request: Request, service_id: str) -> Response:
        """One that is not here is as gone as the caller wants it."""
        parameters.check_namespace(request.query)
        if not service_id:
            raise HttpRefusal(500, "ServiceID missing")  # as Consul
        with refusing_commands():
            await self._agent.submit(DeregisterService(service_id))
        return empty(200)

    async def maintain(self, request: Request, service_id: str) -> Response:
        parameters.check_namespace(request.query)
        named(service_id, "Missing service ID")
        is_enabled = parameters.required_boolean(request.query, "enable")
        reason = request.query.first("reason")
        with refusing_commands():
            await self._agent.submit(SetServiceMaintenance(service_id, is_enabled, reason))
        return empty(200)

    def _hashed(self, service_id: str) -> tuple[ServiceDefinition, str]:
        own = self._agent.own.services.get(service_id)
        if own is None:
            raise HttpRefusal(404, f"unknown service ID: {service_id}")
        encoded = shapes.encode(shapes.own_service(own.definition))
        return own.definition, hashlib.blake2b(encoded, digest_size=8).hexdigest()


def log_warnings(warnings: list[str]) -> None:
    """Once for a definition, however often its registrar repeats it, and only so many lines."""
    for warning in warnings[:WARNINGS_LOGGED_MAX]:
        log.warning(warning)
    if len(warnings) > WARNINGS_LOGGED_MAX:
        log.warning(
            "%d more warnings of this registration are not shown", len(warnings) - WARNINGS_LOGGED_MAX
        )


def refuse_scripts(agent: Agent, checks: Iterable[CheckDefinition]) -> None:
    """Who may register may otherwise run anything on this host."""
    if not agent.config.enable_script_checks and any(check.args for check in checks):
        raise HttpRefusal(500, SCRIPTS_DISABLED)
