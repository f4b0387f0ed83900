"""What a store of keys would answer: there is none yet, and clients that ask for it must learn so in peace.

A client that watches a key takes 404 for "not there yet" and asks again with the index it was given; without
one it asks again at once, thousands of times a second. So a read answers as an empty store would, and waits
as one would (the index is 1), though nothing will come to wake it. Whoever writes is told why.
"""

from __future__ import annotations

import trio

from adsum.api.api_types import EndpointFamily
from adsum.api.blocking import FAILED_META, FOREIGN_INDEX_HOLD_S, parse_asked
from adsum.http.request import Request
from adsum.http.response import Response, empty
from adsum.http.router import HttpRefusal, Route

EMPTY_INDEX = 1
SENTENCE = (
    "Adsum keeps no keys and sessions yet: they need a leader, and agents do not elect one yet. "
    "Keep them in another store for now."
)
EXTERNAL_SENTENCE = (
    "Adsum keeps no services of other hosts yet: "
    "register with the agent of that host, at /v1/agent/service/register."
)


class AbsentStore(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET", "PUT", "DELETE"), "/v1/kv/", self.key, rest=True),
            Route(("GET", "PUT"), "/v1/session/", self.refuse, rest=True),
            Route(("PUT",), "/v1/txn", self.refuse),
        ]

    async def key(self, request: Request, rest: str) -> Response:
        if request.method != "GET":
            return await self.refuse(request, rest)
        asked = parse_asked(request.query, self._agent)
        if asked.index:
            hold_s = asked.wait_s if asked.index <= EMPTY_INDEX else min(asked.wait_s, FOREIGN_INDEX_HOLD_S)
            await request.park(trio.current_time() + hold_s)
        return empty(404, FAILED_META)

    async def refuse(self, _request: Request, _rest: str) -> Response:
        raise HttpRefusal(404, SENTENCE)
