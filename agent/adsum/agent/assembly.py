"""The composition root: every room made, joined and run, in one place that can be read from top to bottom.

Making binds every socket, so a port that is taken stops the start before anything runs. Running is one
nursery: whatever ends it (a signal, a client's request to leave, a disk that fails) ends all of it.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from random import Random

import trio

from adsum.agent import translate
from adsum.agent.config.build import ConfigErrors, Loaded
from adsum.agent.config.config import Config
from adsum.agent.core import Core
from adsum.agent.file_limit import http_connections_max
from adsum.agent.file_owner import file_owner
from adsum.agent.identity import node_id, own_node
from adsum.agent.node import Node, system_now
from adsum.agent.running import RunningAgent
from adsum.agent.service_manager import ServiceManager
from adsum.api import endpoints, server
from adsum.api.limits import HttpCounters
from adsum.api.rendering import ApiCounters
from adsum.api.router import Router
from adsum.api.version import own_version
from adsum.dns import server as dns_server
from adsum.dns.answers import Answers
from adsum.dns.counters import DnsCounters
from adsum.dns.limits import DnsLimits
from adsum.dns.recursor import Recursion
from adsum.dns.resolver import Resolver
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.health_checks.runner import Runner
from adsum.observe.exposition import Exposition
from adsum.observe.gc_pauses import GcPauses
from adsum.observe.log_lines import parse_level
from adsum.observe.log_stream import LogStream
from adsum.observe.loop_lag import LoopLag
from adsum.observe.series import Sources
from adsum.observe.tally import CatalogTally
from adsum.storage import registrations
from adsum.storage.disk import Disk
from adsum.storage.writer import Writer, WriterCounters

log = logging.getLogger("agent")

# How long an orderly end waits for the disk.
FAREWELL_S = 5.0
STATUS_INTERVAL_S = 10.0


class CannotStart(Exception):
    """Something outside must be changed first; the message says what. Nothing runs."""


class Assembly:
    def __init__(
        self, loaded: Loaded, read_again: Callable[[], Loaded], disk: Disk, random: Random, stream: LogStream
    ) -> None:
        config = loaded.config
        self.node_id = node_id(config, disk)
        self._disk = disk
        self._random = random
        self._stream = stream
        self._manager = ServiceManager.from_environment(os.environ)
        settings = translate.core_settings(config, own_node(config, self.node_id))
        self._node = Node(Core(system_now(), settings, random))
        self._agent = RunningAgent(self._node, config, read_again, self._apply)
        self._answers = Answers(self._node.view, translate.dns_settings(config), random)
        self._http, self._dns, self._api = HttpCounters(), DnsCounters(), ApiCounters()
        self._checks, self._storage = CheckCounters(), WriterCounters()
        self._lag, self._gc_pauses = LoopLag(), GcPauses()
        self._metrics = Exposition(self._sources(config), config.telemetry)
        self._listen(config)

    def _sources(self, config: Config) -> Sources:
        return Sources(
            version=own_version(),
            node_name=config.node_name,
            is_leader=config.is_server,
            catalog=CatalogTally(self._node.view),
            core=self._node.core.counters,
            transitions=self._node.own.transitions,
            api=self._api,
            http=self._http,
            dns=self._dns,
            checks=self._checks,
            storage=self._storage,
            logs=self._stream.counters,
            lag=self._lag,
            gc_pauses=self._gc_pauses,
        )

    # Sockets.

    def _listen(self, config: Config) -> None:
        self._http_listeners: list[socket.socket] = []
        self._udp: list[socket.socket] = []
        self._tcp_listeners: list[trio.SocketListener] = []
        try:
            if config.ports.http >= 0:
                self._http_listeners = [self._bind_http(config, each) for each in config.addresses.http]
            if config.ports.dns >= 0:
                self._bind_dns(config)
        except server.BindFailed as problem:
            raise CannotStart(str(problem)) from None

    def _bind_http(self, config: Config, address: str) -> socket.socket:
        if not address.startswith("unix://"):
            return server.bind_tcp(address, config.ports.http)
        sockets = config.unix_sockets
        try:
            user_id, group_id = file_owner(sockets.user, sockets.group)
        except LookupError as problem:
            raise CannotStart(f"unix_sockets names an owner this host does not know: {problem}") from None
        path = address.removeprefix("unix://")
        return server.bind_unix(path, mode=sockets.mode, user_id=user_id, group_id=group_id)

    def _bind_dns(self, config: Config) -> None:
        for host in config.addresses.dns:
            try:
                udp, tcp = dns_server.bind_both(host, config.ports.dns)
            except OSError as problem:
                where = f"{host} port {config.ports.dns}"
                raise CannotStart(f"Can't listen for DNS on {where}: {problem.strerror}") from None
            self._udp.append(udp)
            self._tcp_listeners.append(tcp)

    # The run.

    async def run(self) -> None:
        trio.lowlevel.add_instrument(self._lag)
        self._gc_pauses.start()
        saved = registrations.load(self._disk)
        async with trio.open_nursery() as nursery:
            writer = Writer(self._disk, self._node.persisted, self._storage)
            options = translate.check_options(self._agent.config, os.environ)
            runner = Runner(nursery, self._node.check_ran, options, self._checks)
            self._node.attach(writer, runner)
            self._node.perform(self._node.core.start(system_now(), saved))
            for task in (
                writer.run,
                self._node.keep_time,
                self._node.watches.run,
                self._metrics.keep_intervals,
            ):
                nursery.start_soon(task)
            await self._serve(nursery)
            # What was made so far lives as long as the process: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            nursery.start_soon(self._feed_watchdog)
            self._manager.ready(self._status())
            await self._until_the_end(nursery)
            await self._farewell(writer)
            nursery.cancel_scope.cancel()

    async def _serve(self, nursery: trio.Nursery) -> None:
        config = self._agent.config
        routes = endpoints.routes(self._agent, self._random, self._api, self._metrics, self._stream)
        router = Router(routes, translate.http_rules(config), self._http)
        limits = translate.http_limits(config, connections_max=http_connections_max())
        await nursery.start(server.serve, self._http_listeners, router.answer, limits, self._http)
        dns_limits = DnsLimits()
        recursion = Recursion(dns_limits, self._dns, lambda: self._random.getrandbits(16))
        resolver = Resolver(self._answers, recursion, self._dns, time.monotonic)
        sockets = dns_server.DnsSockets(self._udp, self._tcp_listeners)
        await nursery.start(dns_server.serve, sockets, resolver, dns_limits, time.monotonic_ns)

    def _apply(self, config: Config) -> None:
        self._answers.reconfigure(translate.dns_settings(config))
        self._stream.set_level(parse_level(config.log.level))

    # Signals and the end.

    async def _until_the_end(self, nursery: trio.Nursery) -> None:
        ended = trio.Event()
        nursery.start_soon(self._heed_signals, ended)
        nursery.start_soon(self._heed_leaving, ended)
        await ended.wait()

    async def _heed_signals(self, ended: trio.Event) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    await self._reload()
                    continue
                if ended.is_set():
                    os._exit(1)  # asked twice: somebody does not want to wait for the farewell
                leaves = _leaves_on(number, self._agent.config)
                log.info("caught %s: %s", signal.Signals(number).name, "leaving" if leaves else "stopping")
                ended.set()

    async def _heed_leaving(self, ended: trio.Event) -> None:
        await self._agent.left.wait()
        log.info("leaving, as a client asked")
        ended.set()

    async def _reload(self) -> None:
        self._manager.reloading()
        try:
            await self._agent.reload()
        except ConfigErrors as problem:
            log.error("nothing was reloaded, because of mistakes in the configuration:")
            for mistake in problem.errors:
                log.error("%s", mistake)
        self._manager.ready(self._status())

    async def _farewell(self, writer: Writer) -> None:
        self._manager.stopping("leaving")
        self._node.perform(self._node.core.stop())
        with trio.move_on_after(FAREWELL_S):
            await writer.until_idle()
        log.info("gone")

    async def _feed_watchdog(self) -> None:
        """From the loop itself: if it is held too long, systemd starts us again."""
        interval_s = self._manager.watchdog_interval_s or STATUS_INTERVAL_S
        while True:
            self._manager.watchdog()
            self._manager.status(self._status())
            await trio.sleep(interval_s)

    def _status(self) -> str:
        own = self._node.own
        return f"{len(own.services)} services, {len(own.checks)} checks registered here"


def _leaves_on(number: int, config: Config) -> bool:
    """Whether the end is announced to others as meant to be for good, or the agent is expected back."""
    if number == signal.SIGTERM:
        return config.leave_on_terminate
    return not config.skip_leave_on_interrupt
