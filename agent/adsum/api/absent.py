"""What there is none of yet: sessions, transactions, services of hosts without an agent. Whoever asks for
them is told so."""

from __future__ import annotations

from adsum.api.api_types import EndpointFamily
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route

SENTENCE = "Adsum has no sessions and transactions yet; keys are at /v1/kv, and ?cas= decides who was first."
EXTERNAL_SENTENCE = (
    "Adsum keeps no services of other hosts yet: "
    "register with the agent of that host, at /v1/agent/service/register."
)


class AbsentStore(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET", "PUT"), "/v1/session/", self.refuse, rest=True),
            Route(("PUT",), "/v1/txn", self.refuse),
        ]

    async def refuse(self, _request: Request, _rest: str) -> Response:
        raise HttpRefusal(404, SENTENCE)
