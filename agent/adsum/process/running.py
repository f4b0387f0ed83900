"""The complete agent: the core and all that carries its effects out, the configuration in force, and the two
ends of its life that a client can ask for.

It is made of the first phase at once, so that no part of it is ever missing. A reload is read whole before
anything is touched: with one error in a file, everything stays as it was.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

import trio

from adsum.address import Address
from adsum.agent import saved_servers
from adsum.agent.client_agent import client_agent
from adsum.agent.commands import CommandRefused, FolderLost, Reload
from adsum.agent.core import AgentCore
from adsum.agent.forwarding import Forwarding
from adsum.agent.saved_files import PEERS, SERVERS
from adsum.api.api_types import Agent
from adsum.catalog.effects import RunCheck, StopCheck
from adsum.config import reload as reloading
from adsum.config.build import Loaded
from adsum.config.config import Config
from adsum.config.errors import ConfigError, ConfigErrors
from adsum.dedup import WriteNumbers
from adsum.dns.settings import DnsSettings
from adsum.effects import Persist, Save
from adsum.gossip.effects import MemberChanged
from adsum.gossip.settings import MemberIdentity
from adsum.health_checks.runner import Options, Runner
from adsum.kv import KeyStore
from adsum.net.gate import Gate, Security
from adsum.net.introduction import PeerIdentity
from adsum.now import Now
from adsum.peers.client_keys import ClientKeys
from adsum.process import translate
from adsum.process.banner import banner
from adsum.process.cluster_rim import ClusterRim, open_keyring, own_profile, saved_copy
from adsum.process.first_phase import FirstPhase, reading
from adsum.process.generation import next_generation
from adsum.process.gossip_settings import gossip_settings
from adsum.process.identity import node_id_file, own_node
from adsum.process.joining import read_peers
from adsum.process.keys_without_room import KeysWithoutRoom
from adsum.process.loading import late
from adsum.process.node import AgentRim
from adsum.process.old_log import set_old_log_aside
from adsum.process.system_clock import monotonic_ns, system_now
from adsum.process.watches import Watches
from adsum.storage import registrations
from adsum.storage.files import DiskFull
from adsum.storage.owed import OwingDisk
from adsum.storage.reading import read_if_readable
from adsum.storage.writer import DiskWriter

if TYPE_CHECKING:  # loaded where there is a certificate, and on servers
    from adsum.net.tls import Tls
    from adsum.observe.server_source import ServerSource
    from adsum.process.server_rim import ServerRim

log = logging.getLogger("agent")

ROOM_RETRY_S = 5.0
NO_ROOM = (
    "this server keeps no keys until there is room for the log of consensus (%s): free 64 MB on the disk of "
    "data_dir, no restart is needed"
)

Apply = Callable[[Config, "Tls | None"], None]


class RunningAgent(Agent):
    watches: Watches

    def __init__(
        self, first: FirstPhase, nursery: trio.Nursery, read_again: Callable[[], Loaded], apply: Apply
    ) -> None:
        config, shares = first.config, first.files.shares
        with reading():
            keyring = open_keyring(config, first.owed)
            peers = read_peers(read_if_readable(first.owed.disk, PEERS))
            core = _core(first, peers)
        self.rim = AgentRim(core, first.faults)
        self.writer = DiskWriter(first.owed, self.rim.receive, first.storage)
        options = Options(
            output_bytes_max=config.check_output_bytes_max,
            environ=os.environ,
            network_runs_max=shares.network_runs,
            process_runs_max=shares.check_programs,
        )
        self.runner = runner = Runner(nursery, self.rim.receive, options)
        self.cluster_rim = ClusterRim(
            *(self.rim, config, first.owed, keyring, peers, first.random, nursery), shares=shares
        )
        super().__init__(
            *(core, self.rim.submit, self.cluster_rim.peers, self.cluster_rim.journal, self.rim.watches),
            *(config, monotonic_ns),
        )
        self.rim.performers |= {
            Persist: self.writer.write,
            Save: self.writer.write,
            RunCheck: lambda effect: runner.start(effect.check_id, effect.run, effect.definition),
            StopCheck: lambda effect: runner.stop(effect.check_id),
            **self.cluster_rim.performers,
        }
        self._client_keys = self._forwarded_keys(first)
        self.keys: KeyStore = self._client_keys  # on a server another, before anybody can ask
        self.asked_to_leave = trio.Event()
        self.gone = trio.Event()
        self.reloaded = trio.Event()  # another one for each time
        self._first = first
        self._server: ServerRim | None = None  # a client's stays so
        self._nursery = nursery
        self._read_again = read_again
        self._apply = apply  # to the rooms that keep settings of their own: DNS, the log, TLS
        self._one_at_a_time = trio.Lock()
        # One that hangs keeps its thread after its reload was given up, and there are no more of them.
        self._reading = trio.CapacityLimiter(1)

    async def begin(self) -> None:
        """Until the core is started nobody is heard, and its effects wait for nothing that is made later."""
        if self._first.folder is not None:
            self.writer.tell_of_loss(self._write_anew)
        self._nursery.start_soon(self.writer.run)
        self._nursery.start_soon(self.watches.run)
        with reading():
            copy = saved_copy(self._first.owed.disk)
        self.rim.start(copy)
        await self.cluster_rim.begin()
        if self.config.is_server:
            await self._serve()
        else:
            await self._forward()

    def banner(self) -> str:
        return banner(self.config, self.core.local.settings.node, is_sealed=self.cluster_rim.is_sealed)

    # What the endpoints ask.

    @property
    def dns_settings(self) -> DnsSettings:
        return translate.dns_settings(self.config)

    @property
    def unsaved_files(self) -> int:
        return self._first.storage.unsaved

    def now(self) -> Now:
        return self.rim.now()

    async def reload(self) -> tuple[list[str], list[str]]:
        async with self._one_at_a_time:
            # It changes nothing, so an end need not wait for it: the disk may hang.
            loaded = await trio.to_thread.run_sync(
                self._read_again, abandon_on_cancel=True, limiter=self._reading
            )
            changes = reloading.diff(self.config, loaded.config)
            config = reloading.applied(self.config, loaded.config)
            node = own_node(config, self._first.node_id)
            try:
                await self.submit(Reload(translate.core_settings(config, node)))
            except CommandRefused as refused:
                raise ConfigErrors([ConfigError("", refused.refusal.sentence)]) from None
            self.config = config
            self._apply(config, loaded.tls)
            self.reloaded.set()
            self.reloaded = trio.Event()
        for warning in loaded.warnings:
            log.warning(warning)
        log.info("configuration reloaded; applied: %s", ", ".join(changes.applied) or "nothing")
        if changes.needs_restart:
            log.warning("changed, but needs a restart: %s", ", ".join(changes.needs_restart))
        return changes.applied, changes.needs_restart

    @property
    def server_source(self) -> ServerSource | None:
        """For metrics; a client has none."""
        return self._server.source if self._server is not None else None

    @property
    def forwarding_source(self) -> ClientKeys | None:
        """For metrics; a server has none."""
        return None if self.config.is_server else self._client_keys

    async def leave(self) -> None:
        self.asked_to_leave.set()
        await self.gone.wait()

    async def stop_serving(self, *, leaves: bool) -> None:
        """Others lead before this server ends, so that nobody has to wait for an election."""
        if self._server is not None:
            await self._server.server.stop(leaves=leaves)

    def _forwarded_keys(self, first: FirstPhase) -> ClientKeys:
        me = self.cluster.membership.me
        generation = self.cluster.membership.own_standing.generation
        numbers = WriteNumbers(str(UUID(bytes=me.node_id)), generation)
        saved = saved_servers.decode(read_if_readable(first.owed.disk, SERVERS))
        hold_ns = first.config.consensus.rpc_hold_timeout_ns
        core = Forwarding(self.cluster.servers, saved, numbers, first.random, hold_ns=hold_ns)
        gate = Gate(lambda: PeerIdentity(me.node_id), self._security_of_servers(first))
        return ClientKeys(
            *(core, gate, first.random, self.rim.now, self.writer.write, first.faults),
            lines_max=first.files.shares.server_lines,
        )

    def _security_of_servers(self, first: FirstPhase) -> Security:
        host = first.config.bind_address
        from_host = "" if ip_address(host).is_unspecified else host
        return self.cluster_rim.security._replace(tls=first.tls, from_host=from_host)

    async def _forward(self) -> None:
        if self.config.data_dir:
            await trio.to_thread.run_sync(set_old_log_aside, self.config.data_dir)
        await self._nursery.start(self._client_keys.run)
        tell = self.rim.performers[MemberChanged]

        def changed(effect: MemberChanged) -> None:
            tell(effect)
            self._client_keys.member_changed()

        self.rim.performers[MemberChanged] = changed

    async def _serve(self) -> None:
        """What only servers load, and a log that may take seconds to be read, while DNS answers already."""
        server_rim = await late(_server_rim)
        if not await self._opens_log(server_rim):
            self._nursery.start_soon(self._serve_when_there_is_room, server_rim)

    async def _serve_when_there_is_room(self, server_rim: type[ServerRim]) -> None:
        while True:
            await trio.sleep(ROOM_RETRY_S)
            if await self._opens_log(server_rim):
                log.info("there is room for the log of consensus now, and this server takes part")
                return

    async def _opens_log(self, server_rim: type[ServerRim]) -> bool:
        """Without room for it the agent does everything else."""
        security = self._security_of_servers(self._first)
        random = Random(self._first.random.getrandbits(64))
        try:
            server = await trio.to_thread.run_sync(
                server_rim, self.rim, self.config, security, random, self._first.files.server
            )
        except DiskFull as problem:
            if not isinstance(self.keys, KeysWithoutRoom):
                log.error(NO_ROOM, problem)
                self.keys = KeysWithoutRoom(NO_ROOM % problem)
            return False
        listener = self._first.sockets.servers
        assert listener is not None, "it is bound for a server"
        self.keys, self._server = server.keys, server
        self._nursery.start_soon(server.found_after, self.cluster_rim.joining.was_tried)
        self._nursery.start_soon(server.renewals.run)
        self._nursery.start_soon(server.keep_sessions)
        self._nursery.start_soon(server.keep_store_newest)
        self._nursery.start_soon(server.run, trio.SocketListener(trio.socket.from_stdlib_socket(listener)))
        return True

    def _write_anew(self) -> None:
        """The data folder is another one, and has lost all that is kept in it."""
        if not self.config.node_id:
            self.writer.write(Save((node_id_file(self._first.node_id),), is_synced=True))
        self.rim.receive(FolderLost(registrations.paths(self._first.owed.disk)))
        self.cluster_rim.write_anew()


def _server_rim() -> type[ServerRim]:
    from adsum.process.server_rim import ServerRim

    return ServerRim


def _core(first: FirstPhase, peers: Sequence[Address]) -> AgentCore:
    config, now = first.config, system_now()
    has_somebody_to_ask = bool(config.start_join or config.retry_join or peers)
    profile = own_profile(config, first.local.settings.node)
    identity = MemberIdentity(profile, next_generation(OwingDisk(first.owed), now))
    return client_agent(
        *(now, first.local, identity, gossip_settings(config.gossip), first.random),
        rejoins=config.rejoin_after_leave,
        expects_others=config.ports.serf_lan >= 0 and has_somebody_to_ask,
    )
