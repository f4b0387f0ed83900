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
        member, server = change.member, None
        described = tags.decode(member.meta)
        if change.after is not None and change.after.is_present and described.is_server:
            address = Address(member.address.host, described.server_port)
            server = GossipedServer(member.name, address, described.expect <= 1, described.wan_port)
        if server == self._present.get(member.node_id):
            return
        self.version += 1
        if server is None:
            del self._present[member.node_id]
        else:
            self._present[member.node_id] = server
