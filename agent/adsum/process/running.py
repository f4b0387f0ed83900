"""The agent as the API sees it: the node, the configuration in force, and the two ends of its life that a
client can ask for.

A reload is read whole before anything is touched: with one error in a file, everything stays as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from adsum.agent.commands import Command, CommandRefused, Reload
from adsum.catalog.own_services import OwnServices
from adsum.catalog.view import View
from adsum.config import reload as reloading
from adsum.config.build import Loaded
from adsum.config.config import Config
from adsum.config.errors import ConfigError, ConfigErrors
from adsum.now import Now
from adsum.process import translate
from adsum.process.identity import own_node
from adsum.process.node import AgentRim, monotonic_ns
from adsum.process.watches import Watches

if TYPE_CHECKING:
    from adsum.agent.cluster_state import ClusterState
    from adsum.dns.settings import DnsSettings
    from adsum.journal.journal import Journal
    from adsum.net.tls import Tls
    from adsum.peers.keyrings import Keyrings
    from adsum.peers.outputs import Outputs
    from adsum.peers.owner_forwarding import OwnerForwarding

log = logging.getLogger("agent")

Apply = Callable[[Config, "Tls | None"], None]


class RunningAgent:
    def __init__(
        self, node: AgentRim, config: Config, read_again: Callable[[], Loaded], apply: Apply
    ) -> None:
        self.node = node
        self.config = config
        self.asked_to_leave = trio.Event()
        self.gone = trio.Event()
        self._read_again = read_again
        self._apply = apply  # to the rooms that keep settings of their own: DNS, the log, TLS
        self._one_at_a_time = trio.Lock()

    @property
    def dns_settings(self) -> DnsSettings:
        return translate.dns_settings(self.config)

    @property
    def view(self) -> View:
        return self.node.view

    @property
    def own(self) -> OwnServices:
        return self.node.own

    @property
    def cluster(self) -> ClusterState:
        assert self.node.core.cluster is not None, "HTTP is served after the roll is called"
        return self.node.core.cluster

    @property
    def journal(self) -> Journal:
        return self.node.journal

    @property
    def keyrings(self) -> Keyrings:
        return self.node.keyrings

    @property
    def owners(self) -> OwnerForwarding:
        return self.node.owners

    @property
    def outputs(self) -> Outputs:
        return self.node.outputs

    @property
    def unsaved_files(self) -> int:
        return self.node.unsaved_files

    def now(self) -> Now:
        return self.node.now()

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        return monotonic_ns

    @property
    def watches(self) -> Watches:
        return self.node.watches

    async def submit(self, command: Command) -> None:
        await self.node.submit(command)

    async def reload(self) -> tuple[list[str], list[str]]:
        async with self._one_at_a_time:
            loaded = await trio.to_thread.run_sync(self._read_again)
            changes = reloading.diff(self.config, loaded.config)
            config = reloading.applied(self.config, loaded.config)
            node = own_node(config, self.node.core.settings.node.node_id)
            try:
                await self.submit(Reload(translate.core_settings(config, node)))
            except CommandRefused as refused:
                raise ConfigErrors([ConfigError("", refused.refusal.sentence)]) from None
            self.config = config
            self._apply(config, loaded.tls)
        for warning in loaded.warnings:
            log.warning(warning)
        log.info("configuration reloaded; applied: %s", ", ".join(changes.applied) or "nothing")
        if changes.needs_restart:
            log.warning("changed, but needs a restart: %s", ", ".join(changes.needs_restart))
        return changes.applied, changes.needs_restart

    async def leave(self) -> None:
        self.asked_to_leave.set()
        await self.gone.wait()
