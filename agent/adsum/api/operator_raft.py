"""/v1/operator/raft: who takes part in consensus, to read. A client agent asks a server: the leader, or any
while there is none."""

from __future__ import annotations

import math
from uuid import UUID

from adsum.api import leadership, parameters
from adsum.api.agent_self import RAFT_PROTOCOL_VERSION
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.member_rows import Shown
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.kv import KeyRefusal
from adsum.leading import PeerFigures
from adsum.store_requests import ConsensusFound, ConsensusRead, StoreFound

UNKNOWN_NODE = "(unknown)"  # in Consul's words


class OperatorRaft(EndpointFamily):
    def routes(self) -> list[Route]:
        return [Route(("GET",), "/v1/operator/raft/configuration", self.configuration)]

    async def configuration(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        found = await self._found(request)
        if not found.peers or (not found.leader and not request.query.has("stale")):
            reason = leadership.without_leader(self._agent)
            raise HttpRefusal(500, "No cluster leader", (("X-Adsum-Reason", reason),) if reason else ())
        shown = {"Servers": [self._row(found.leader, peer) for peer in found.peers], "Index": 0}
        return json_answer(self._agent, request, shown)

    async def _found(self, request: Request) -> ConsensusFound:
        told = _ToldConsensus(request)
        asked = self._agent.keys.ask(ConsensusRead(), told)
        try:
            while told.outcome is None:
                await request.park(math.inf)
        finally:
            if told.outcome is None:
                self._agent.keys.give_up(asked)
        if isinstance(told.outcome, KeyRefusal):
            raise HttpRefusal(500, told.outcome.sentence)
        assert isinstance(told.outcome, ConsensusFound), "that was asked"
        return told.outcome

    def _row(self, leader: str, peer: PeerFigures) -> Shown:
        node_id = UUID(peer.node_id).bytes
        return {
            "ID": peer.node_id,
            "Node": leadership.name_of(self._agent, node_id) or UNKNOWN_NODE,
            "Address": leadership.address_of(self._agent, node_id),
            "Leader": peer.node_id == leader,
            "ProtocolVersion": RAFT_PROTOCOL_VERSION,
            "Voter": peer.is_voter,
            **({"LastIndex": peer.last_index} if peer.last_index is not None else {}),
        }


class _ToldConsensus:
    """What the store calls, and whom that wakes."""

    __slots__ = ("_request", "outcome")

    def __init__(self, request: Request) -> None:
        self.outcome: StoreFound | KeyRefusal | None = None
        self._request = request

    def __call__(self, outcome: StoreFound | KeyRefusal) -> None:
        self.outcome = outcome
        self._request.wake()
