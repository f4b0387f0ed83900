"""The life of the daemon, in one place that can be read from top to bottom.

The first phase is made before the loop runs and answers DNS first, from what was saved; the complete agent
and its HTTP side are loaded meanwhile, in a thread. Running is one nursery: whatever ends it (a signal, a
client's request to leave, a disk that fails) ends all of it. Signals are heard around it, from before there
is anything that they could end to after there is: an agent that is ended while it starts was not a crash.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

import trio

from adsum.agent.saved_files import COPY, PEERS
from adsum.config.build import ConfigErrors, Loaded
from adsum.config.config import Config
from adsum.logs.lines import parse_level
from adsum.logs.stream import LogStream
from adsum.logs.system_errors import told
from adsum.process import translate
from adsum.process.data_folder import DataFolder
from adsum.process.first_phase import FirstPhase
from adsum.process.loading import late
from adsum.process.service_manager import ServiceManager
from adsum.process.system_clock import system_now
from adsum.storage.owed import Owed

if TYPE_CHECKING:
    from adsum.net.tls import Tls
    from adsum.process.running import RunningAgent

log = logging.getLogger("agent")

# How long an orderly end waits for the others to hear of it, and then for the disk.
LEAVE_S = 5.0
# And then for the answers to those who asked it to leave, which go out as soon as they can be given.
ANSWER_S = 0.1
STATUS_INTERVAL_S = 10.0
SAVED_OF_OTHERS = (PEERS, COPY)
RELOADS_MAX = 2
# Of Python's garbage collector. Waking 5,000 waiters allocates more than it frees, and with Python's own
# numbers (700, 10, 10) that set off a look at everything that lives, which took a third of the time and
# found nothing. The young are looked at in small portions, and together three at a time: of a store of a
# million keys each look that saw 30,000 of them held the loop for 20 to 70 ms, for among those are the blocks
# of the table that were written to since, and what they hold is looked at as well.
GARBAGE = (1_000, 3, 3_000)


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
        self._first = FirstPhase(loaded, owed, folder, random, stream)
        self._read_again = read_again
        self._manager = ServiceManager.from_environment(os.environ)
        sockets = self._first.sockets
        self._doors = [listener.dup() for listener in (*sockets.http, *sockets.https)]
        self._agent: RunningAgent | None = None  # until it is up
        self._owes_reload = False
        self._reloads = 0
        self._leaves = False
        self._ended = trio.Event()

    def close_doors(self) -> None:
        """Until now nobody was refused, though nobody was heard any more: `adsum leave` takes a refusal for
        the sign that nothing is held, and the agent may be started again."""
        for door in self._doors:
            door.close()

    async def run(self) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async with trio.open_nursery() as listening:
                async with trio.open_nursery() as nursery:
                    listening.start_soon(self._heed_signals, signals, nursery)
                    await self._live(nursery)
                    nursery.cancel_scope.cancel()
                listening.cancel_scope.cancel()
        self._manager.close()

    async def _live(self, nursery: trio.Nursery) -> None:
        first = self._first
        # A program is started in a thread, which hangs for as long as the disk that holds the program does.
        # However many hang, everything else has as many threads as trio gives.
        trio.to_thread.current_default_thread_limiter().total_tokens += first.files.shares.programs
        trio.lowlevel.add_instrument(first.lag)
        first.gc_pauses.start()
        has_copy = first.restore()
        if not has_copy:
            await first.answer_dns(nursery)
        running_agent = await late(_running_agent)
        agent = running_agent(first, nursery, self._read_again, self._apply)
        await agent.begin()
        if has_copy:
            await first.answer_dns(nursery)
        serve_http = await late(_serve_http)
        await serve_http(first, agent, nursery)
        nursery.start_soon(agent.rim.keep_time)
        self._settle_in(agent)
        nursery.start_soon(self._feed_watchdog, agent)
        self._agent = agent
        if self._owes_reload:
            nursery.start_soon(self._reload, agent)
        leaves = await self._until_the_end(agent, nursery)
        await self._announce_and_write(agent, leaves=leaves)

    def _settle_in(self, agent: RunningAgent) -> None:
        # What was made so far lives as long as the process: the collector, which has been off since the first
        # import, never looks at it. The garbage in it stays as well, 700 objects of 48,000: finding those
        # would cost a tenth of the start.
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        gc.enable()
        print(agent.banner(), flush=True)
        self._manager.ready(_status(agent))

    def _apply(self, config: Config, fresh: Tls | None) -> None:
        first = self._first
        first.answers.reconfigure(translate.dns_settings(config))
        first.stream.set_level(parse_level(config.log.level))
        if first.tls is not None:
            first.tls.renew(fresh)
            log.info("the certificates were read again")

    # Signals and the end.

    async def _until_the_end(self, agent: RunningAgent, nursery: trio.Nursery) -> bool:
        """Whether this agent leaves for good, as far as others are concerned."""
        nursery.start_soon(self._heed_leaving, agent)
        await self._ended.wait()
        return self._leaves

    async def _heed_signals(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        was_asked_to_end = False
        async for number in signals:
            if number == signal.SIGHUP:
                self._heed_hangup(nursery)
                continue
            if was_asked_to_end:
                os._exit(1)  # asked twice: somebody does not want to wait for the others to be told
            was_asked_to_end = True
            name = signal.Signals(number).name
            if self._agent is None:
                log.info("caught %s before the start was complete: stopping", name)
                self._ended.set()
                nursery.cancel_scope.cancel()
            elif self._ended.is_set():
                log.info("caught %s: the agent is about to end", name)
            else:
                # Whether the end is announced as meant to be for good, or the agent is expected back.
                config = self._agent.config
                is_ended = number == signal.SIGTERM
                leaves = config.leave_on_terminate if is_ended else not config.skip_leave_on_interrupt
                why_not = _why_not_leave(self._agent) if leaves else ""
                self._leaves = leaves and not why_not
                if why_not:
                    log.warning("caught %s: stopping without leaving, as %s", name, why_not)
                else:
                    log.info("caught %s: %s", name, "leaving" if leaves else "stopping")
                self._ended.set()

    def _heed_hangup(self, nursery: trio.Nursery) -> None:
        if self._agent is None:
            self._owes_reload = True  # one for all of them, when there is something that can reload
        elif not self._ended.is_set():
            # It may wait for a disk; an end does not wait for that.
            nursery.start_soon(self._reload, self._agent)

    async def _heed_leaving(self, agent: RunningAgent) -> None:
        await agent.asked_to_leave.wait()
        self._leaves = True
        log.info("leaving, as a client asked")
        self._ended.set()

    async def _reload(self, agent: RunningAgent) -> None:
        """One goes on and one waits; a third would read the same files."""
        if self._reloads == RELOADS_MAX:
            return
        self._reloads += 1
        self._manager.reloading()
        try:
            await agent.reload()
        except ConfigErrors as problem:
            log.error("nothing was reloaded, because of mistakes in the configuration:")
            for mistake in problem.errors:
                log.error("%s", mistake)
        except (OSError, ImportError) as problem:
            log.error("nothing was reloaded, for the configuration cannot be read: %s", told(problem))
        finally:
            self._reloads -= 1
        self._manager.ready(_status(agent))

    async def _announce_and_write(self, agent: RunningAgent, *, leaves: bool) -> None:
        self._manager.stopping("leaving")
        with trio.move_on_after(LEAVE_S):
            await agent.stop_serving(leaves=leaves)
        with trio.move_on_after(LEAVE_S):
            await agent.cluster_rim.announce_end(leaves=leaves)
        agent.rim.perform(agent.core.stop(system_now()))
        with trio.move_on_after(LEAVE_S):
            await agent.writer.until_idle()
        log.info("gone")
        agent.gone.set()
        if agent.asked_to_leave.is_set():
            await trio.sleep(ANSWER_S)

    async def _feed_watchdog(self, agent: RunningAgent) -> None:
        """From the loop itself: if it is held too long, systemd starts us again."""
        interval_s = self._manager.watchdog_interval_s or STATUS_INTERVAL_S
        while True:
            self._manager.watchdog()
            self._manager.status(_status(agent))
            await trio.sleep(interval_s)


def _status(agent: RunningAgent) -> str:
    return f"{len(agent.own.services)} services, {len(agent.own.checks)} checks registered here"


def _why_not_leave(agent: RunningAgent) -> str:
    from adsum.api.leadership import why_not_leave

    return why_not_leave(agent)


def _running_agent() -> type[RunningAgent]:
    from adsum.process.running import RunningAgent

    return RunningAgent


def _serve_http() -> Callable[[FirstPhase, RunningAgent, trio.Nursery], Awaitable[None]]:
    from adsum.process.http_rim import serve_http

    return serve_http
