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
        view, settings, qtype = self._agent.view, self._agent.dns_settings, TYPES[type_name]
        wire_name = wire.encode_name(name)
        zone = Zone(view, settings)
        answer = Answer(wire.FORMERR) if wire_name is None else zone.answer(wire_name, qtype)
        answers = [record_text(offer.record) for offer in answer.offers]
        beside = [record for offer in answer.offers for record in (*offer.addresses, *offer.texts)]
        sentences = explain(view, settings, name, qtype)
        shown = {
            "Name": name,
            "Type": type_name,
            "Rcode": wire.RCODE_NAMES[answer.rcode],
            "Answers": answers,
            "Additional": list(dict.fromkeys(map(record_text, [*beside, *answer.additional]))),
            "Reasons": [sentence for sentence in sentences if sentence not in answers],
        }
        return json_answer(self._agent, request, shown, headers=stale_header(self._agent))
