"""What the endpoints know of the agent behind them. `process.running` has the real one; the tests of
endpoints have one on the same cores, whose effects are performed at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Protocol

from adsum.agent.commands import Submit
from adsum.agent.core import AgentCore
from adsum.api.filter_time import FilterTime
from adsum.api.rendering import ApiCounters
from adsum.config.config import Config
from adsum.dns.settings import DnsSettings
from adsum.http.router import Route
from adsum.journal.journal import Journal
from adsum.kv import KeyStore
from adsum.logs.stream import LogStream
from adsum.named import NamedTuple
from adsum.now import Now
from adsum.peers.peers import Peers
from adsum.topics import WaitsOnTopics


class MetricsPages(Protocol):
    prometheus_type: str

    def consul(self) -> dict[str, object]: ...

    async def scraped(self) -> bytes: ...


class Agent(ABC):
    keys: KeyStore

    def __init__(
        self,
        core: AgentCore,
        submit: Submit,
        peers: Peers,
        journal: Journal,
        watches: WaitsOnTopics,
        config: Config,
        monotonic_ns: Callable[[], int],
    ) -> None:
        """`monotonic_ns` is the first half of `now`, at a quarter of its price: every read asks for it."""
        # Of the core, and for reading only: what changes it is a command.
        self.core = core
        self.submit = submit
        self.view = core.view
        self.own = core.own
        self.cluster = core.cluster
        # Other agents: their keyrings, what only they can change, whole outputs of their checks.
        self.keyrings = peers.keyrings
        self.owners = peers.owners
        self.outputs = peers.outputs
        self.journal = journal
        self.watches = watches
        self.config = config
        self.monotonic_ns = monotonic_ns

    @property
    @abstractmethod
    def dns_settings(self) -> DnsSettings: ...

    @property
    @abstractmethod
    def unsaved_files(self) -> int:
        """That are not in the data folder as they should be yet, because its disk refuses."""

    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    async def reload(self) -> tuple[list[str], list[str]]:
        """Reads the configuration again; names of keys that were applied, and of those that need a restart.
        Raises `adsum.config.build.ConfigErrors` with nothing changed."""

    @abstractmethod
    async def leave(self) -> None:
        """Begins an orderly end. Returns when the others were told and the disk has all; the answer to
        whoever asked still goes out."""


class ApiParts(NamedTuple):
    agent: Agent
    random: Random
    counters: ApiCounters
    metrics: MetricsPages
    log_stream: LogStream
    filter_time: FilterTime


class EndpointFamily(ABC):
    def __init__(self, parts: ApiParts) -> None:
        self._agent = parts.agent
        self._parts = parts

    @abstractmethod
    def routes(self) -> list[Route]: ...
