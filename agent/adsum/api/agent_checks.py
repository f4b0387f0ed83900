"""/v1/agent/check…: this agent's checks, and the reports of those that keep a TTL check alive."""

from __future__ import annotations

from adsum.agent.commands import DeregisterCheck, RegisterCheck, ReportTtl
from adsum.api import parameters, shapes
from adsum.api.agent_services import log_warnings, refuse_scripts
from adsum.api.answers import encoded_answer, in_turns, refusing_commands
from adsum.api.api_types import EndpointFamily
from adsum.api.bodies import decode_json, refusing_definitions
from adsum.api.queries import wanted
from adsum.catalog.decode import Fields, WrongType, decode_check
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import PlacedCheck
from adsum.catalog.own_services import OwnCheck
from adsum.catalog.validate import validate_check
from adsum.http.request import Request
from adsum.http.response import Response, empty
from adsum.http.router import Handler, HttpRefusal, Route

REPORTS = {"pass": CheckStatus.PASSING, "warn": CheckStatus.WARNING, "fail": CheckStatus.CRITICAL}


class AgentChecks(EndpointFamily):
    def routes(self) -> list[Route]:
        reports = [
            Route(("PUT",), f"/v1/agent/check/{verb}/", self._reporter(status), rest=True)
            for verb, status in REPORTS.items()
        ]
        return [
            Route(("GET",), "/v1/agent/checks", self.checks),
            Route(("PUT",), "/v1/agent/check/register", self.register),
            Route(("PUT",), "/v1/agent/check/deregister/", self.deregister, rest=True),
            Route(("PUT",), "/v1/agent/check/update/", self.update, rest=True),
            *reports,
        ]

    async def checks(self, request: Request, _rest: str) -> Response:
        parameters.check_namespace(request.query)
        query, own = request.query, self._agent.own
        name = own.settings.node_name

        def placed(each: tuple[str, OwnCheck]) -> PlacedCheck:
            return PlacedCheck(name, own.published_check(each[1]))

        found = await self._parts.filter_time.spend(
            request, lambda: wanted(query, "check", own.checks.items(), placed)
        )
        shown = []
        async for check_id, own_check in in_turns(sorted(found)):
            check = own.published_check(own_check)
            shown.append((check_id, shapes.encode(shapes.own_check(name, check))))
        return encoded_answer(self._agent, request, shapes.object_of(shown))

    async def register(self, request: Request, _rest: str) -> Response:
        parameters.check_namespace(request.query)
        output_bytes_max = self._agent.config.check_output_bytes_max
        with refusing_definitions():
            definition = decode_check(decode_json(request.body), output_bytes_max=output_bytes_max)
            warnings = validate_check(definition)
        refuse_scripts(self._agent, (definition,))
        known = self._agent.own.checks.get(definition.check_id)
        if known is None or known.definition != definition:
            log_warnings(warnings)
        with refusing_commands():
            await self._agent.submit(RegisterCheck(definition))
        return empty(200)

    async def deregister(self, request: Request, check_id: str) -> Response:
        parameters.check_namespace(request.query)
        if not check_id:
            raise HttpRefusal(500, "CheckID missing")  # as Consul
        with refusing_commands():
            await self._agent.submit(DeregisterCheck(check_id))
        return empty(200)

    def _reporter(self, status: CheckStatus) -> Handler:
        async def report(request: Request, check_id: str) -> Response:
            parameters.check_namespace(request.query)
            with refusing_commands():
                await self._agent.submit(ReportTtl(check_id, status, request.query.first("note")))
            return empty(200)

        return report

    async def update(self, request: Request, check_id: str) -> Response:
        parameters.check_namespace(request.query)
        try:
            body = Fields(decode_json(request.body), type_name="agent.checkUpdate")
            status, output = body.text("Status"), body.text("Output")
        except WrongType as wrong:
            place = f"Go struct field checkUpdate.{wrong.field}" if wrong.field else "Go value"
            what = f"cannot unmarshal {wrong.found} into {place} of type {wrong.wanted}"
            raise HttpRefusal(400, f"Request decode failed: json: {what}") from None
        if status not in REPORTS.values():
            raise HttpRefusal(400, f"Invalid check status: '{status}'")
        with refusing_commands():
            await self._agent.submit(ReportTtl(check_id, CheckStatus(status), output))
        return empty(200)
