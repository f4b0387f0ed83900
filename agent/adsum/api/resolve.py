"""/v1/resolve/<name>?type=SRV: what DNS answers, with the reasons. Ours alone; `adsum resolve` shows it.

The records are the zone's, whole and in its order: no packet's size cuts them and no turn is taken.
"""

from __future__ import annotations

from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.freshness import stale_header
from adsum.api.queries import named
from adsum.dns import wire
from adsum.dns.explain import explain, record_text
from adsum.dns.zone import Answer, Zone
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route

TYPES = {name: number for number, name in wire.TYPE_NAMES.items()}


class Resolve(EndpointFamily):
    def routes(self) -> list[Route]:
        return [Route(("GET",), "/v1/resolve/", self.resolve, rest=True)]

    async def resolve(self, request: Request, rest: str) -> Response:
        name = named(rest, "Missing DNS name")
        type_name = request.query.first("type", "A").upper()
        if type_name not in TYPES:
            raise HttpRefusal(400, f"Unknown type: {type_name}; one of {', '.join(TYPES)} will do")
        shown = self._shown(name, type_name)
        return json_answer(self._agent, request, shown, headers=stale_header(self._agent))

    def _shown(self, name: str, type_name: str) -> dict[str, object]:
        view, settings = self._agent.view, self._agent.dns_settings
        wire_name = wire.encode_name(name)
        if wire_name is None:
            answer = Answer(wire.FORMERR)
        else:
            answer = Zone(view, settings).answer(wire_name, TYPES[type_name])
        answers = [record_text(offer.record) for offer in answer.offers]
        beside = [record for offer in answer.offers for record in (*offer.addresses, *offer.texts)]
        sentences = explain(view, settings, name, TYPES[type_name])
        return {
            "Name": name,
            "Type": type_name,
            "Rcode": wire.RCODE_NAMES[answer.rcode],
            "Answers": answers,
            "Additional": list(dict.fromkeys(map(record_text, [*beside, *answer.additional]))),
            "Reasons": [sentence for sentence in sentences if sentence not in answers],
        }
