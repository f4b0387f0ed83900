"""/v1/operator/raft: who takes part in consensus, to read. Only a server knows."""

from __future__ import annotations

from uuid import UUID

from adsum.api import leadership, parameters
from adsum.api.agent_self import RAFT_PROTOCOL_VERSION
from adsum.api.answers import json_answer
from adsum.api.api_types import EndpointFamily
from adsum.api.member_rows import Shown
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.leading import ConsensusFigures, PeerFigures

UNKNOWN_NODE = "(unknown)"  # in Consul's words
ASK_A_SERVER = "this agent is a client, and only servers know who takes part in consensus: ask one of {}"


class OperatorRaft(EndpointFamily):
    def routes(self) -> list[Route]:
        return [Route(("GET",), "/v1/operator/raft/configuration", self.configuration)]

    async def configuration(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        if not leadership.is_server(self._agent):
            names = [each.name for each in self._agent.cluster.servers.present]
            raise HttpRefusal(500, ASK_A_SERVER.format(", ".join(names) or "them, of which none is known"))
        figures = self._agent.keys.consensus
        if figures is None or (not figures.leader and not request.query.has("stale")):
            reason = leadership.without_leader(self._agent)
            raise HttpRefusal(500, "No cluster leader", (("X-Adsum-Reason", reason),) if reason else ())
        shown = {"Servers": [self._row(figures, peer) for peer in figures.peers], "Index": 0}
        return json_answer(self._agent, request, shown)

    def _row(self, figures: ConsensusFigures, peer: PeerFigures) -> Shown:
        node_id = UUID(peer.node_id).bytes
        return {
            "ID": peer.node_id,
            "Node": leadership.name_of(self._agent, node_id) or UNKNOWN_NODE,
            "Address": leadership.address_of(self._agent, node_id),
            "Leader": peer.node_id == figures.leader,
            "ProtocolVersion": RAFT_PROTOCOL_VERSION,
            "Voter": peer.is_voter,
            **({"LastIndex": peer.last_index} if peer.last_index is not None else {}),
        }
