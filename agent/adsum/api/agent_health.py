"""/v1/agent/health/service: the verdict on a local service as a status code, for load balancers.

200 passing, 429 warning, 503 critical or in maintenance, 404 not here. The worst of a service's own checks
and of the node's counts; the words go into a header and, when asked for, are all of the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adsum.api import parameters, shapes
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.catalog.definitions import CheckKind, ServiceDefinition
from adsum.catalog.own_services import OwnCheck
from adsum.http.request import Request
from adsum.http.response import HeaderList, Response
from adsum.http.router import HttpRefusal, Route

PASSING, MAINTENANCE = "passing", "maintenance"
CODES = {PASSING: 200, "warning": 429, "critical": 503, MAINTENANCE: 503}
SEVERITY = {word: severity for severity, word in enumerate(CODES)}


class AgentHealth(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/agent/health/service/id/", self.by_id, rest=True),
            Route(("GET",), "/v1/agent/health/service/name/", self.by_name, rest=True),
        ]

    async def by_id(self, request: Request, service_id: str) -> Response:
        parameters.check_namespace(request.query)
        if not service_id:
            raise HttpRefusal(500, "Bad request: Missing serviceID")  # as Consul
        own = self._agent.own.services.get(service_id)
        if own is None:
            sentence = f"ServiceId {service_id} not found"
            missing = {"AggregatedStatus": "critical", "Service": None, "Checks": None}
            # Where text was asked for, Consul sends the sentence as JSON all the same.
            shown: object = sentence if _wants_text(request) else missing
            return json_answer(self._agent, request, shown, status=404, headers=_reason(sentence))
        verdict = self._verdict(own.definition)
        return self._answer(request, verdict, self._shown(own.definition, verdict))

    async def by_name(self, request: Request, name: str) -> Response:
        parameters.check_namespace(request.query)
        if not name:
            raise HttpRefusal(500, "Bad request: Missing service Name")  # as Consul
        services = sorted(self._agent.own.services.items())
        found = [own.definition for _id, own in services if own.definition.name.lower() == name.lower()]
        if not found:
            sentence = f"ServiceName {name} Not Found"
            if _wants_text(request):
                return Response(404, sentence.encode(), content_type="text/plain", headers=_reason(sentence))
            return json_answer(self._agent, request, [], status=404, headers=_reason(sentence))
        verdicts = [self._verdict(definition) for definition in found]
        shown = [self._shown(*pair) for pair in zip(found, verdicts, strict=True)]
        return self._answer(request, _worst(verdicts), shown)

    def _answer(self, request: Request, verdict: str, shown: object) -> Response:
        headers = _reason(verdict)
        if _wants_text(request):
            return Response(CODES[verdict], verdict.encode(), content_type="text/plain", headers=headers)
        return json_answer(self._agent, request, shown, status=CODES[verdict], headers=headers)

    def _verdict(self, definition: ServiceDefinition) -> str:
        return _worst(
            MAINTENANCE if check.kind is CheckKind.MAINTENANCE else check.status
            for check in self._judging(definition)
        )

    def _judging(self, definition: ServiceDefinition) -> Iterator[OwnCheck]:
        """The service's own, then the node's."""
        yield from self._agent.own.checks_of(definition.service_id)
        for _id, check in sorted(self._agent.own.checks.items()):
            if not check.definition.service_id:
                yield check

    def _shown(self, definition: ServiceDefinition, verdict: str) -> dict[str, object]:
        own = self._agent.own
        return {
            "AggregatedStatus": verdict,
            "Service": shapes.own_service(definition),
            "Checks": [
                shapes.judged_check(own.settings.node_name, own.published_check(check))
                for check in self._judging(definition)
            ],
        }


def _worst(words: Iterable[str]) -> str:
    return max(words, key=SEVERITY.__getitem__, default=PASSING)


def _wants_text(request: Request) -> bool:
    return request.query.first("format") == "text" or request.headers.first("accept").startswith("text/plain")


def _reason(sentence: str) -> HeaderList:
    """Ids come from the request, where a path that is not printable was refused: it is one line."""
    return (("X-Consul-Reason", sentence),)
