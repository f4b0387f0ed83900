"""/v1/event: fire a user event, and see those that were for this agent.

The index of the list is no point in time but the newest event itself, its id folded into 64 bits. So a client
waits while it is the same, and a watcher anywhere can tell an event that it has seen. An event has its id
before gossip carries it; its Lamport time comes with the list.
"""

from __future__ import annotations

from base64 import b64encode

import trio

from adsum.agent import user_events
from adsum.agent.presence import uuid_text
from adsum.agent.user_events import ID_BYTES, TOPIC, BadEvent, Event
from adsum.api import parameters
from adsum.api.answers import json_answer, refusing_commands
from adsum.api.api_types import EndpointFamily
from adsum.api.blocking import parse_asked
from adsum.gossip.commands import FireEvent
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.topics import Watching

NONE_YET = 1  # the index while there is no event
VERSION = 1  # of Consul's format
JITTER_FRACTION = 16
UNDECIDED_PAUSE_S = 0.1


class EventEndpoints(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("PUT",), "/v1/event/fire/", self.fire, rest=True),
            Route(("GET",), "/v1/event/list", self.recent),
        ]

    async def fire(self, request: Request, name: str) -> Response:
        query = request.query
        if not name:
            raise HttpRefusal(400, "Missing name")
        parameters.check_datacenter(query, self._agent.config.datacenter)
        event = Event(
            event_id=self._parts.random.randbytes(ID_BYTES),
            name=name,
            payload=request.body,
            node=query.first("node"),
            service=query.first("service"),
            tag=query.first("tag"),
        )
        try:
            user_events.check(event)
        except BadEvent as bad:
            raise HttpRefusal(500, str(bad)) from None
        with refusing_commands():
            await self._agent.submit(FireEvent(name, user_events.encode(event)))
        return json_answer(self._agent, request, _shown(event))

    async def recent(self, request: Request, _rest: str) -> Response:
        """Blocks while the newest of that name is the one the client knows."""
        query, agent = request.query, self._agent
        asked = parse_asked(query, agent)
        name = query.first("name")
        wait_s = asked.wait_s + self._parts.random.uniform(0, asked.wait_s / JITTER_FRACTION)
        if asked.index and asked.index == self._index(name):
            deadline = trio.current_time() + wait_s
            with Watching(self._agent.watches, (TOPIC,), request.wake):
                while self._index(name) == asked.index and await request.park(self._look_at(deadline)):
                    pass
        listed = [_shown(event) for event in self._of_name(name)]
        headers = (("X-Consul-Index", str(self._index(name))),)
        return json_answer(agent, request, listed, headers=headers)

    def _look_at(self, deadline: float) -> float:
        """What is left undecided now wakes nobody later."""
        if not self._agent.cluster.events.has_undecided:
            return deadline
        return min(deadline, trio.current_time() + UNDECIDED_PAUSE_S)

    def _of_name(self, name: str) -> list[Event]:
        recent = self._agent.cluster.events.recent(self._agent.now())
        return [event for event in recent if name in ("", event.name)]

    def _index(self, name: str) -> int:
        events = self._of_name(name)
        if not events:
            return NONE_YET
        half, newest = ID_BYTES // 2, events[-1].event_id
        return int.from_bytes(newest[:half], "big") ^ int.from_bytes(newest[half:], "big") or NONE_YET


def _shown(event: Event) -> dict[str, object]:
    return {
        "ID": uuid_text(event.event_id),
        "Name": event.name,
        "Payload": b64encode(event.payload).decode() if event.payload else None,
        "NodeFilter": event.node,
        "ServiceFilter": event.service,
        "TagFilter": event.tag,
        "Version": VERSION,
        "LTime": event.clock,
    }
