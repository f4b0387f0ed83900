"""What the endpoints need from the agent behind them; `process.running` is the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from adsum.agent.commands import Command
from adsum.catalog.indexes import WaitsOnTopics
from adsum.catalog.own_services import OwnServices
from adsum.catalog.view import View
from adsum.config.config import Config
from adsum.now import Now

if TYPE_CHECKING:
    from adsum.agent.cluster_state import ClusterState
    from adsum.dns.settings import DnsSettings
    from adsum.journal.journal import Journal
    from adsum.peers.keyrings import Keyrings
    from adsum.peers.outputs import Outputs
    from adsum.peers.owner_forwarding import OwnerForwarding


class MetricsPages(Protocol):
    prometheus_type: str

    def consul(self) -> dict[str, object]: ...

    async def scraped(self) -> bytes: ...


class Agent(Protocol):
    @property
    def config(self) -> Config: ...

    @property
    def dns_settings(self) -> DnsSettings: ...

    @property
    def view(self) -> View: ...

    @property
    def own(self) -> OwnServices: ...

    @property
    def cluster(self) -> ClusterState:
        """Who is present. Read it; what changes it is a command."""

    @property
    def journal(self) -> Journal:
        """What happened to whom, as this agent saw it."""

    @property
    def keyrings(self) -> Keyrings:
        """Of the whole cluster."""

    @property
    def owners(self) -> OwnerForwarding:
        """Other agents, for what only they can change."""

    @property
    def outputs(self) -> Outputs:
        """Whole outputs of other agents' checks."""

    @property
    def unsaved_files(self) -> int:
        """That are not in the data folder as they should be yet, because its disk refuses."""

    def now(self) -> Now: ...

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        """The first half of `now`, at a quarter of its price: every read asks for it."""

    @property
    def watches(self) -> WaitsOnTopics: ...

    async def submit(self, command: Command) -> None:
        """Returns once the change is made and, where it must survive, on disk. Raises `CommandRefused`."""

    async def reload(self) -> tuple[list[str], list[str]]:
        """Reads the configuration again; names of keys that were applied, and of those that need a restart.
        Raises `adsum.config.build.ConfigErrors` with nothing changed."""

    async def leave(self) -> None:
        """Begins an orderly end. Returns when the others were told and the disk has all; the answer to
        whoever asked still goes out."""
