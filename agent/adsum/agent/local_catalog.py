"""This agent's own node with its services and checks, in the view that DNS is answered from.

It is all that an agent knows before it has heard of anybody, and complete as such: with what clients
registered before and what files define it answers the first questions, while gossip is still being loaded.
`AgentCore`, which is made next, takes it over as it is; nothing changes it in between.
"""

from __future__ import annotations

import zlib
from random import Random

from adsum.agent.registry import Registry
from adsum.agent.settings import AgentSettings
from adsum.catalog.own_services import LocalSettings, OwnServices
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.records import encode_service
from adsum.catalog.saved import Saved
from adsum.catalog.view import View
from adsum.effects import Refusal
from adsum.now import MILLISECOND, Now


class LocalCatalog:
    def __init__(self, now: Now, settings: AgentSettings, random: Random) -> None:
        node = settings.node
        self.settings = settings
        self.view = View(now, tag=zlib.crc32(node.node_id.encode()) & 0xFF)
        self.published = OwnCatalogWriter(self.view, node.node_id, node.name)
        self.own = OwnServices(self.published, _local_settings(settings), random)
        self.registry = Registry(self.own)

    def restore(self, now: Now, saved: Saved) -> None:
        """This node is present; then what clients registered before, then what files define. What follows of
        it (lines of the log, files that are not needed any more) `AgentCore.start` gives."""
        settings = self.settings
        self.published.put_node(now, settings.node)
        self.view.set_presence(now, settings.node.name, is_present=True)
        if settings.server is not None:
            self.published.put_service(now, settings.server, encode_service(settings.server))
        self.registry.restore_services(now, saved)
        self.registry.define(now, settings.services, settings.checks)
        self.registry.restore_checks(now, saved)
        for state in saved.ttl_states:
            left_ns = (state.expires_wall_ms - now.wall_ms) * MILLISECOND
            if left_ns > 0:
                self.own.restore_ttl(now, state.check_id, state.status, state.output, left_ns)
        self.own.refresh_aliases(now, self.view.changes())  # nobody waits yet for what moved

    def reload(self, now: Now, settings: AgentSettings) -> Refusal | None:
        refusal = self.registry.objection(settings.services, settings.checks)
        if refusal is not None:
            return refusal
        self.settings = settings
        self.own.settings = _local_settings(settings)
        self.published.put_node(now, settings.node)
        self.registry.define(now, settings.services, settings.checks)
        self.own.publish_all(now)
        return None


def _local_settings(settings: AgentSettings) -> LocalSettings:
    node_name, interval_ns = settings.node.name, settings.check_update_interval_ns
    return LocalSettings(node_name, interval_ns, settings.discard_check_output)
