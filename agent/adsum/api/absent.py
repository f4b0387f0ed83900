"""What there is none of yet: snapshots, settings of autopilot. Whoever asks for them is told so."""

from __future__ import annotations

from adsum.api.api_types import EndpointFamily
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route

SNAPSHOT_SENTENCE = "Adsum saves and restores no snapshots yet; `consul kv export` copies all keys."
AUTOPILOT_SENTENCE = "Adsum has no autopilot to set yet."


class AbsentStore(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET", "PUT"), "/v1/snapshot", self.refuse_snapshot),
            Route(("GET", "PUT"), "/v1/operator/autopilot/", self.refuse_autopilot, rest=True),
        ]

    async def refuse_snapshot(self, _request: Request, _rest: str) -> Response:
        raise HttpRefusal(404, SNAPSHOT_SENTENCE)

    async def refuse_autopilot(self, _request: Request, _rest: str) -> Response:
        raise HttpRefusal(404, AUTOPILOT_SENTENCE)
