"""Which members are servers, kept apart so that nobody has to look through the whole roll for them.

They are few, and every answer about the catalog names whether a leader is known. `version` moves when the
answer may have changed, so that answers made before can be told from those made after.
"""

from __future__ import annotations

from typing import NamedTuple

from adsum.address import Address
from adsum.agent import tags
from adsum.gossip.claims import SHORT
from adsum.gossip.effects import MemberChanged


class GossipedServer(NamedTuple):
    name: str
    address: Address  # where servers call each other
    leads_alone: bool  # it waits for no others to elect with
    wan_port: int = 0


class KnownServers:
    """But for this agent itself. Present are those that are alive or merely suspected."""

    def __init__(self) -> None:
        self.version = 0
        self._present: dict[bytes, GossipedServer] = {}

    @property
    def present(self) -> list[GossipedServer]:
        return list(self._present.values())

    @property
    def shorts(self) -> list[bytes]:
        """Their short ids."""
        return [node_id[:SHORT] for node_id in self._present]

    def changed(self, change: MemberChanged) -> None:
        node_id = change.member.node_id
        server = _server(change)
        if server == self._present.get(node_id):
            return
        self.version += 1
        if server is None:
            del self._present[node_id]
        else:
            self._present[node_id] = server


def _server(change: MemberChanged) -> GossipedServer | None:
    member = change.member
    described = tags.decode(member.meta)
    if change.after is None or not change.after.is_present or not described.is_server:
        return None
    address = Address(member.address.host, described.server_port)
    return GossipedServer(member.name, address, described.expect <= 1, described.wan_port)
