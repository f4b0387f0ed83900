"""All endpoints: those that are asked of every agent, and families that are loaded when they are asked.

What loads later takes 2 ms at most on a machine where an agent starts in 140: nobody's request waits for it
longer than for a list of the catalog. Each family is found by the beginning of its paths.
"""

from __future__ import annotations

from random import Random

from adsum.api import catalog, health
from adsum.api.agent_members import AgentMembers
from adsum.api.agent_self import AgentSelf
from adsum.api.api_types import Agent, MetricsPages
from adsum.api.blocking import BlockingReads
from adsum.api.coordinates import Coordinates
from adsum.api.filter_time import FilterTime
from adsum.api.operations import Operations
from adsum.api.rendering import ApiCounters
from adsum.api.status import StatusEndpoints
from adsum.http.router import Families, Route
from adsum.logs.stream import LogStream


class Endpoints:
    def __init__(
        self,
        agent: Agent,
        random: Random,
        counters: ApiCounters,
        metrics: MetricsPages,
        log_stream: LogStream,
    ) -> None:
        self._agent = agent
        self._random = random
        self._counters = counters
        self._metrics = metrics
        self._log_stream = log_stream
        self._filter_time = FilterTime(counters)

    def routes(self) -> list[Route]:
        reads = BlockingReads(self._agent, self._random, self._counters, self._filter_time)
        return [
            *AgentSelf(self._agent).routes(),
            *AgentMembers(self._agent).routes(),
            *Operations(self._agent, self._metrics, self._log_stream).routes(),
            *catalog.routes(self._agent, reads),
            *health.routes(reads),
            *StatusEndpoints(self._agent).routes(),
            *Coordinates(self._agent).routes(),
        ]

    def families(self) -> Families:
        return {
            "/v1/agent/service": self._agent_services,
            "/v1/agent/check": self._agent_checks,
            "/v1/agent/health/": self._agent_health,
            "/v1/catalog/register": self._catalog_writes,
            "/v1/catalog/deregister": self._catalog_writes,
            "/v1/catalog/owners": self._catalog_owners,
            "/v1/catalog/diff": self._catalog_owners,
            "/v1/event/": self._events,
            "/v1/operator/keyring": self._keyring,
            "/v1/resolve": self._resolve,
            "/v1/membership": self._membership,
            "/v1/kv": self._absent,
            "/v1/session": self._absent,
            "/v1/txn": self._absent,
        }

    def _agent_services(self) -> list[Route]:
        from adsum.api.agent_services import AgentServices

        return AgentServices(self._agent, self._filter_time).routes()

    def _agent_checks(self) -> list[Route]:
        from adsum.api.agent_checks import AgentChecks

        return AgentChecks(self._agent, self._filter_time).routes()

    def _agent_health(self) -> list[Route]:
        from adsum.api.agent_health import AgentHealth

        return AgentHealth(self._agent).routes()

    def _catalog_writes(self) -> list[Route]:
        from adsum.api.catalog_writes import CatalogWrites

        return CatalogWrites(self._agent).routes()

    def _catalog_owners(self) -> list[Route]:
        from adsum.api.catalog_owners import CatalogOwners

        return CatalogOwners(self._agent).routes()

    def _events(self) -> list[Route]:
        from adsum.api.events import EventEndpoints

        return EventEndpoints(self._agent, self._random).routes()

    def _keyring(self) -> list[Route]:
        from adsum.api.keyring import KeyringEndpoints

        return KeyringEndpoints(self._agent).routes()

    def _resolve(self) -> list[Route]:
        from adsum.api.resolve import Resolve

        return Resolve(self._agent).routes()

    def _membership(self) -> list[Route]:
        from adsum.api.membership import Membership

        return Membership(self._agent).routes()

    def _absent(self) -> list[Route]:
        from adsum.api.absent import AbsentStore

        return AbsentStore(self._agent).routes()
