"""Where the numbers of consensus and of the store are kept. Only a server has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adsum.frozen import dataclass

if TYPE_CHECKING:  # a client loads none of these
    from adsum.consensus.carrying import CarryCounters
    from adsum.net.places import PlaceCounters
    from adsum.servers.agent_calls import AgentCalls
    from adsum.servers.driver import Driver
    from adsum.servers.keys import ServerKeys
    from adsum.servers.links import LinkCounters
    from adsum.sessions.keeper import SessionKeeper
    from adsum.storage.raft_log import RaftLog
    from adsum.store.machine import StoreMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSource:
    driver: Callable[[], Driver | None]  # once there is a cluster
    log: RaftLog
    machine: StoreMachine
    keys: ServerKeys
    sessions: SessionKeeper
    links: LinkCounters
    carrying: CarryCounters
    agents: AgentCalls
    agent_places: PlaceCounters
    name_of: Callable[[str], str]  # of a node, by its id
