"""The composition root: every room made, joined and run, in one place that can be read from top to bottom.

Making binds every socket, so a port that is taken stops the start before anything runs. Running is one
nursery: whatever ends it (a signal, a client's request to leave, a disk that fails) ends all of it. DNS
answers first, from what was saved; the rest (`front`) is loaded meanwhile.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from adsum.agent.core import AgentCore
from adsum.config.build import ConfigErrors, Loaded
from adsum.config.config import Config
from adsum.dns.answers import Answers
from adsum.dns_server import server as dns_server
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.recursor import Recursion
from adsum.dns_server.resolver import Resolver
from adsum.effects import Save
from adsum.logs.lines import parse_level
from adsum.logs.stream import LogStream
from adsum.logs.system_errors import told
from adsum.observe.gc_pauses import GcPauses
from adsum.observe.loop_lag import LoopLag
from adsum.process import translate
from adsum.process.banner import banner
from adsum.process.data_folder import DataFolder
from adsum.process.file_limit import divide_files
from adsum.process.identity import NODE_ID_PATH, node_id, node_id_file, own_node
from adsum.process.node import AgentRim, system_now
from adsum.process.running import RunningAgent
from adsum.process.service_manager import ServiceManager
from adsum.process.sockets import CannotStart, bind, listeners_of
from adsum.storage import registrations
from adsum.storage.owed import Owed, OwingDisk
from adsum.storage.reading import read_if_readable
from adsum.storage.writer import DiskWriter, WriterCounters

if TYPE_CHECKING:
    from adsum.net.tls import Tls
    from adsum.process.cluster_rim import ClusterRim

log = logging.getLogger("agent")

# How long an orderly end waits for the others to hear of it, and then for the disk.
FAREWELL_S = 5.0
# And then for the answers to those who asked it to leave, which go out as soon as they can be given.
ANSWER_S = 0.1
STATUS_INTERVAL_S = 10.0
ID_NOT_KEPT = (
    "the new node id %s cannot be kept in data_dir yet: until it is, each start of this agent is another "
    "node to the others; make data_dir writable, no restart is needed"
)
SAVED_COPY = "catalog-copy"  # `warm.COPY`, which is loaded with the roll
SAVED_OF_OTHERS = ("peers", SAVED_COPY)  # `cluster.PEERS`, loaded as late
# A server's first pass looks at its socket, the loop's next sees what waits there, the one after answers.
RELOADS_MAX = 2
PASSES_TO_ANSWER = 3
# While a thread loads code, the loop gets its turn a tenth as late as Python's 5 ms.
SWITCH_INTERVAL_LOADING_S = 0.0005
# Of Python's garbage collector. Waking 5,000 waiters allocates more than it frees, and with Python's own
# numbers (700, 10, 10) that set off a look at everything that lives, which took a third of the time and
# found nothing.
GARBAGE = (10_000, 10, 100)


class Assembly:
    def __init__(
        self,
        loaded: Loaded,
        read_again: Callable[[], Loaded],
        owed: Owed,
        folder: DataFolder | None,
        random: Random,
        stream: LogStream,
    ) -> None:
        config = loaded.config
        self.node_id = node_id(config, OwingDisk(owed))
        if NODE_ID_PATH in owed.files:
            log.warning(ID_NOT_KEPT, self.node_id)
        self._owed = owed
        self._folder = folder
        self._random = random
        self._stream = stream
        self._manager = ServiceManager.from_environment(os.environ)
        settings = translate.core_settings(config, own_node(config, self.node_id))
        self._node = AgentRim(AgentCore(system_now(), settings, random))
        self._agent = RunningAgent(self._node, config, read_again, self._apply)
        self._answers = Answers(self._node.view, translate.dns_settings(config), random)
        self._dns, self._storage = DnsCounters(), WriterCounters()
        self._lag, self._gc_pauses = LoopLag(), GcPauses()
        self._tls = loaded.tls
        self._files = divide_files(listeners_of(config))
        self._sockets = bind(config)
        self._doors = [listener.dup() for listener in (*self._sockets.http, *self._sockets.https)]
        self._reloads = 0
        self._leaves = False

    def close_doors(self) -> None:
        """Until now nobody was refused, though nobody was heard any more: `adsum leave` takes a refusal for
        the sign that nothing is held, and the agent may be started again."""
        for door in self._doors:
            door.close()

    async def run(self) -> None:
        trio.lowlevel.add_instrument(self._lag)
        self._gc_pauses.start()
        with _reading():
            saved = registrations.load(self._owed.disk)
            # With a saved copy of what others publish, no question about them is answered before it is read.
            has_copy = read_if_readable(self._owed.disk, SAVED_COPY) is not None
        async with trio.open_nursery() as nursery:
            writer = DiskWriter(self._owed, self._node.written, self._storage)
            if self._folder is not None:
                writer.watch(self._folder.renew, self._write_anew)
            self._node.attach_writer(writer)
            self._node.perform(self._node.core.start(system_now(), saved))
            nursery.start_soon(writer.run)
            nursery.start_soon(self._node.watches.run)
            if not has_copy:
                await self._answer_dns(nursery)
            cluster_rim = await self._start_gossip(nursery)
            if has_copy:
                await self._answer_dns(nursery)
            await self._open_front(nursery, cluster_rim)
            nursery.start_soon(self._node.keep_time)
            self._settle_in(cluster_rim)
            nursery.start_soon(self._feed_watchdog)
            leaves = await self._until_the_end(nursery)
            await self._farewell(cluster_rim, writer, leaves=leaves)
            nursery.cancel_scope.cancel()
        self._manager.close()

    def _write_anew(self) -> None:
        """The data folder is another one: all of it again."""
        if not self._agent.config.node_id:
            self._node.perform([Save((node_id_file(self.node_id),), is_synced=True)])
        self._node.write_anew(registrations.paths(self._owed.disk))

    async def _answer_dns(self, nursery: trio.Nursery) -> None:
        limits = translate.dns_limits(self._files.shares)
        recursion = Recursion(limits, self._dns, lambda: self._random.getrandbits(16))
        resolver = Resolver(self._answers, recursion, self._dns, self._node.faults)
        sockets = dns_server.DnsSockets(self._sockets.dns_udp, self._sockets.dns_tcp)
        await nursery.start(dns_server.serve, sockets, resolver, limits, time.monotonic_ns)
        for _ in range(PASSES_TO_ANSWER):  # who asked while we were starting has waited long enough
            await trio.lowlevel.checkpoint()

    async def _start_gossip(self, nursery: trio.Nursery) -> ClusterRim:
        loaded = await _load("adsum.process.cluster_rim")
        config = self._agent.config
        own = self._node.core.settings.node
        with _reading():
            cluster_rim: ClusterRim = loaded.ClusterRim(
                *(self._node, config, own, self._owed, self._random), shares=self._files.shares
            )
            await cluster_rim.begin(nursery)
        return cluster_rim

    async def _open_front(self, nursery: trio.Nursery, cluster_rim: ClusterRim) -> None:
        front = await _load("adsum.process.http_rim")
        observed = front.Observed(
            dns=self._dns,
            storage=self._storage,
            stream=self._stream,
            lag=self._lag,
            gc_pauses=self._gc_pauses,
            certificate_end_s=self._certificate_end_s,
            cluster=cluster_rim.observed(),
        )
        secure = front.secured(self._sockets.https, self._tls)
        await front.serve(
            *(nursery, self._sockets.http, secure, self._agent, self._random), observed, self._files
        )

    def _certificate_end_s(self) -> int:
        return 0 if self._tls is None else self._tls.certificate_end_s

    def _settle_in(self, cluster_rim: ClusterRim) -> None:
        # What was made so far lives as long as the process: the collector, which has been off since the first
        # import, never looks at it. The garbage in it stays as well, 700 objects of 48,000: finding those
        # would cost a tenth of the start.
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        own = self._node.core.settings.node
        print(banner(self._agent.config, own, is_sealed=cluster_rim.is_sealed), flush=True)
        self._manager.ready(self._status())

    def _apply(self, config: Config, fresh: Tls | None) -> None:
        self._answers.reconfigure(translate.dns_settings(config))
        self._stream.set_level(parse_level(config.log.level))
        if self._tls is not None:
            self._tls.renew(fresh)
            log.info("the certificates were read again")

    # Signals and the end.

    async def _until_the_end(self, nursery: trio.Nursery) -> bool:
        """Whether this agent leaves for good, as far as others are concerned."""
        ended = trio.Event()
        nursery.start_soon(self._heed_signals, nursery, ended)
        nursery.start_soon(self._heed_leaving, ended)
        await ended.wait()
        return self._leaves

    async def _heed_signals(self, nursery: trio.Nursery, ended: trio.Event) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    nursery.start_soon(
                        self._reload
                    )  # which may wait for a disk; an end does not wait for that
                    continue
                if ended.is_set():
                    os._exit(1)  # asked twice: somebody does not want to wait for the farewell
                self._leaves = _leaves_on(number, self._agent.config)
                doing = "leaving" if self._leaves else "stopping"
                log.info("caught %s: %s", signal.Signals(number).name, doing)
                ended.set()

    async def _heed_leaving(self, ended: trio.Event) -> None:
        await self._agent.asked_to_leave.wait()
        self._leaves = True
        log.info("leaving, as a client asked")
        ended.set()

    async def _reload(self) -> None:
        """One goes on and one waits; a third would read the same files."""
        if self._reloads == RELOADS_MAX:
            return
        self._reloads += 1
        try:
            await self._reload_in_turn()
        finally:
            self._reloads -= 1

    async def _reload_in_turn(self) -> None:
        self._manager.reloading()
        try:
            await self._agent.reload()
        except ConfigErrors as problem:
            log.error("nothing was reloaded, because of mistakes in the configuration:")
            for mistake in problem.errors:
                log.error("%s", mistake)
        except (OSError, ImportError) as problem:
            log.error("nothing was reloaded, for the configuration cannot be read: %s", told(problem))
        self._manager.ready(self._status())

    async def _farewell(self, cluster_rim: ClusterRim, writer: DiskWriter, *, leaves: bool) -> None:
        self._manager.stopping("leaving")
        with trio.move_on_after(FAREWELL_S):
            await cluster_rim.farewell(leaves=leaves)
        self._node.perform(self._node.core.stop(system_now()))
        with trio.move_on_after(FAREWELL_S):
            await writer.until_idle()
        log.info("gone")
        await self._answer_who_asked_to_leave()

    async def _answer_who_asked_to_leave(self) -> None:
        self._agent.gone.set()
        if self._agent.asked_to_leave.is_set():
            await trio.sleep(ANSWER_S)

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


@contextmanager
def _reading() -> Iterator[None]:
    """What is damaged is set aside; what may not be read is still good, and for the operator to mend."""
    try:
        yield
    except OSError as problem:
        raise CannotStart(f"{problem.filename} cannot be read: {told(problem)}") from None


async def _load(name: str) -> Any:
    """In a thread, so that DNS goes on answering."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_LOADING_S)
    module = await trio.to_thread.run_sync(import_module, name)
    sys.setswitchinterval(usual_s)
    return module


def _leaves_on(number: int, config: Config) -> bool:
    """Whether the end is announced to others as meant to be for good, or the agent is expected back."""
    if number == signal.SIGTERM:
        return config.leave_on_terminate
    return not config.skip_leave_on_interrupt
