"""All endpoints: those that are asked of every agent, and families that are loaded when they are asked.

What loads later takes 2 ms at most on a machine where an agent starts in 140: nobody's request waits for it
longer than for a list of the catalog. Each family is found by the beginning of its paths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from random import Random

from adsum.api import catalog, health
from adsum.api.agent_self import AgentSelf
from adsum.api.api_types import Agent, ApiParts, EndpointFamily, MetricsPages
from adsum.api.blocking import BlockingReads
from adsum.api.filter_time import FilterTime
from adsum.api.leadership import StatusEndpoints
from adsum.api.operations import Operations
from adsum.api.rendering import ApiCounters
from adsum.http.router import Families, Route
from adsum.logs.stream import LogStream

AT_ONCE: tuple[type[EndpointFamily], ...] = (AgentSelf, Operations, StatusEndpoints)
# By their modules and classes: how the paths of those begin that are loaded when they are asked.
LATER = {
    "agent_services.AgentServices": ("/v1/agent/service",),
    "agent_checks.AgentChecks": ("/v1/agent/check",),
    "agent_health.AgentHealth": ("/v1/agent/health/",),
    "agent_members.AgentMembers": ("/v1/agent/members",),
    "catalog_writes.CatalogWrites": ("/v1/catalog/register", "/v1/catalog/deregister"),
    "catalog_owners.CatalogOwners": ("/v1/catalog/owners", "/v1/catalog/diff"),
    "coordinates.Coordinates": ("/v1/coordinate/",),
    "events.EventEndpoints": ("/v1/event/",),
    "keyring.KeyringEndpoints": ("/v1/operator/keyring",),
    "resolve.Resolve": ("/v1/resolve",),
    "membership.Membership": ("/v1/membership",),
    "kv.KvEndpoints": ("/v1/kv",),
    "key_story.KeyStory": ("/v1/explain/kv",),
    "session_story.SessionStories": ("/v1/explain/session",),
    "session.SessionEndpoints": ("/v1/session",),
    "transaction.TransactionEndpoint": ("/v1/txn",),
    "operator_raft.OperatorRaft": ("/v1/operator/raft",),
    "absent.AbsentStore": ("/v1/snapshot", "/v1/operator/autopilot"),
}


class Endpoints:
    def __init__(
        self,
        agent: Agent,
        random: Random,
        counters: ApiCounters,
        metrics: MetricsPages,
        log_stream: LogStream,
    ) -> None:
        self._parts = ApiParts(agent, random, counters, metrics, log_stream, FilterTime(counters))

    def routes(self) -> list[Route]:
        reads = BlockingReads(self._parts)
        at_once = [route for family in AT_ONCE for route in family(self._parts).routes()]
        return [*at_once, *catalog.routes(self._parts.agent, reads), *health.routes(reads)]

    def families(self) -> Families:
        families: dict[str, Callable[[], list[Route]]] = {}
        for place, beginnings in LATER.items():
            families |= dict.fromkeys(beginnings, partial(self._later, place))
        return families

    def _later(self, place: str) -> list[Route]:
        module, name = place.split(".")
        family: type[EndpointFamily] = getattr(import_module(f"adsum.api.{module}"), name)
        return family(self._parts).routes()
