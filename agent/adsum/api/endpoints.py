"""Every endpoint of this agent, in one list for the router."""

from __future__ import annotations

from random import Random

from adsum.api import catalog, health
from adsum.api.absent import AbsentStore
from adsum.api.agent_checks import AgentChecks
from adsum.api.agent_health import AgentHealth
from adsum.api.agent_members import AgentMembers
from adsum.api.agent_self import AgentSelf
from adsum.api.agent_services import AgentServices
from adsum.api.blocking import Reads
from adsum.api.catalog_owners import CatalogOwners
from adsum.api.catalog_writes import CatalogWrites
from adsum.api.coordinates import Coordinates
from adsum.api.door import Agent
from adsum.api.events import Events
from adsum.api.filter_time import FilterTime
from adsum.api.keyring import KeyringEndpoints
from adsum.api.membership import Membership
from adsum.api.operations import Operations
from adsum.api.rendering import ApiCounters
from adsum.api.resolve import Resolve
from adsum.api.router import Route
from adsum.api.status import Status
from adsum.observe.exposition import Exposition
from adsum.observe.log_stream import LogStream


def routes(
    agent: Agent, random: Random, counters: ApiCounters, metrics: Exposition, log_stream: LogStream
) -> list[Route]:
    filter_time = FilterTime(counters)
    reads = Reads(agent, random, counters, filter_time)
    return [
        *AgentServices(agent, filter_time).routes(),
        *AgentChecks(agent, filter_time).routes(),
        *AgentHealth(agent).routes(),
        *AgentSelf(agent).routes(),
        *AgentMembers(agent).routes(),
        *Operations(agent, metrics, log_stream).routes(),
        *catalog.routes(agent, reads),
        *CatalogWrites(agent).routes(),
        *CatalogOwners(agent).routes(),
        *health.routes(reads),
        *Status(agent).routes(),
        *Coordinates(agent).routes(),
        *Events(agent, random).routes(),
        *KeyringEndpoints(agent).routes(),
        *Resolve(agent).routes(),
        *Membership(agent).routes(),
        *AbsentStore(agent).routes(),
    ]
