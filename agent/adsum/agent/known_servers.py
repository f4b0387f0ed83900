"""Which members are servers, kept apart so that nobody has to look through the whole roll for them, and which
of them leads.

They are few, and every answer about the catalog names whether a leader is known. `version` moves when the
answer may have changed, so that answers made before can be told from those made after.

Whoever leads says so in its tags, with epoch and term. A server knows better, from consensus itself.
"""

from __future__ import annotations

from adsum.address import Address
from adsum.agent import tags
from adsum.frozen import dataclass
from adsum.gossip.claims import SHORT
from adsum.gossip.effects import MemberChanged
from adsum.named import NamedTuple


class GossipedServer(NamedTuple):
    node_id: bytes
    name: str
    address: Address  # where servers call each other
    datacenter: str
    expect: int
    leads_in: tuple[int, int] | None  # epoch and term
    wan_port: int = 0


@dataclass(frozen=True, slots=True)
class LeadershipSeen:
    """By consensus on this server."""

    leader: bytes | None  # its node id, perhaps our own
    leads_in: tuple[int, int] | None  # epoch and term, if it is ourselves
    voters: tuple[bytes, ...]
    term: int
    cause: str  # of the last turn


class KnownServers:
    """But for this agent itself. Present are those that are alive or merely suspected."""

    def __init__(self) -> None:
        self.version = 0
        self.leader: bytes | None = None  # its node id
        self.term = 0  # in which it leads; of the last one while there is none
        self.cause = ""  # why it was not the same before; empty on a client
        self.voters: tuple[bytes, ...] = ()  # known on servers only
        self._present: dict[bytes, GossipedServer] = {}
        self._seen: LeadershipSeen | None = None  # None on a client

    @property
    def present(self) -> list[GossipedServer]:
        return list(self._present.values())

    @property
    def shorts(self) -> list[bytes]:
        """Their short ids."""
        return [node_id[:SHORT] for node_id in self._present]

    @property
    def leader_short(self) -> bytes:
        """Empty while it is unknown."""
        return (self.leader or b"")[:SHORT]

    def named(self, node_id: bytes) -> GossipedServer | None:
        return self._present.get(node_id)

    def changed(self, change: MemberChanged) -> None:
        member, server = change.member, None
        described = tags.decode(member.meta)
        if change.after is not None and change.after.is_present and described.is_server:
            server = GossipedServer(
                member.node_id,
                member.name,
                Address(member.address.host, described.server_port),
                described.datacenter,
                described.expect,
                described.leads_in,
                described.wan_port,
            )
        if server == self._present.get(member.node_id):
            return
        self.version += 1
        if server is None:
            del self._present[member.node_id]
        else:
            self._present[member.node_id] = server
        if self._seen is None:
            leading = [(each.leads_in, each.node_id) for each in self._present.values() if each.leads_in]
            self.leader = max(leading)[1] if leading else None
            self.term = max(leading)[0][1] if leading else self.term

    def leadership_seen(self, seen: LeadershipSeen) -> None:
        self.version += 1
        self._seen, self.leader, self.voters = seen, seen.leader, seen.voters
        self.cause = seen.cause
        if seen.leader is not None:
            self.term = seen.term
