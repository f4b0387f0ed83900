"""How an agent finds its cluster: by whom it knew before, whom it is told to ask, and again until it works.

The peers of the last run come first and quietly: they need no configuration. Then `start_join`, once, and
`retry_join` until one of its entries lets us in; both as in Consul, which ends when they are exhausted.

Where nothing but the peers is known, they are asked again and again as well. When a whole cluster starts at
once, some ask before anybody listens, and whoever gave up then might stay alone for good.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import trio

from adsum.address import Address, is_ip_host
from adsum.cbor import BadEncoding, strict_loads
from adsum.config.config import Config
from adsum.net import join_names
from adsum.now import SECOND
from adsum.process.sockets import CannotStart

log = logging.getLogger("agent.join")

PEERS_TRIED_MAX = 64
PEERS_AT_ONCE = 8
LOOK_S = 15.0

# Raises `NotJoined` when none of them answers. A sentence is what the cluster that was found has against us.
Join = Callable[[tuple[Address, ...]], Awaitable[str]]
NOT_YET = "the cluster is found by %s and does not let this agent in yet: %s"


class NotJoined(Exception):
    pass


class Joining:
    def __init__(
        self,
        config: Config,
        peers: Sequence[Address],
        join: Join,
        random: Random,
        is_forgotten: Callable[[], bool] = lambda: False,
        misses_others: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._peers = peers
        self._join = join
        self._is_forgotten = is_forgotten
        self._misses_others = misses_others
        self._random = random
        self.was_tried = trio.Event()  # once, whatever came of it

    async def run(self) -> None:
        await self.find()
        if self._config.retry_join:
            await self._join_when_forgotten(self._config.retry_join)

    async def find(self) -> None:
        config = self._config
        is_joined = await self._join_peers()
        if config.start_join:
            try:
                await self._join_entries("start_join", config.start_join)
            except NotJoined as problem:
                raise CannotStart(f"none of start_join let this agent in: {problem}") from None
        if is_joined or not config.retry_join:
            self.was_tried.set()
        if config.retry_join and not is_joined:
            await self._join_until_it_works(config.retry_join)
        elif self._peers and not is_joined:
            attempts = 1
            while not is_joined:
                await trio.sleep(self._growing_pause_s(attempts))
                attempts += 1
                is_joined = await self._join_peers(attempts)

    async def _join_peers(self, attempt: int = 1) -> bool:
        """Nobody is there yet when all start at once; if it stays so, an operator wants to know."""
        level, failed = logging.INFO if attempt == 1 else logging.WARNING, ""
        peers = self._random.sample(self._peers, min(len(self._peers), PEERS_TRIED_MAX))
        for first in range(0, len(peers), PEERS_AT_ONCE):
            try:
                objection = await self._join(tuple(peers[first : first + PEERS_AT_ONCE]))
            except NotJoined as problem:
                failed = str(problem)
                continue
            if objection:
                log.warning(NOT_YET, "the peers of the last run", objection)
            else:
                log.info("joined again the cluster that this agent was in before")
            return True
        if failed:
            log.log(level, "the cluster of the last run does not let it in, attempt %d: %s", attempt, failed)
        return False

    async def _join_until_it_works(self, entries: Sequence[str]) -> None:
        attempts = 0
        while True:
            attempts += 1
            is_found = True  # and may let us in yet
            try:
                if not await self._join_entries("retry_join", entries):
                    return
            except NotJoined as problem:
                is_found = False
                log.warning("retry_join, attempt %d: %s", attempts, problem)
            finally:
                self.was_tried.set()
            if not is_found and self._config.retry_max and attempts >= self._config.retry_max:
                raise CannotStart(f"retry_join was tried {attempts} times, as often as retry_max allows")
            # Agents of one cluster are often started together, and the one to ask a second later than we.
            # Who counts attempts means them to be an interval apart.
            is_even = self._config.retry_max > 0
            interval_s = self._config.retry_interval_ns / SECOND
            await trio.sleep(interval_s if is_even else self._growing_pause_s(attempts))

    async def _join_when_forgotten(self, entries: Sequence[str]) -> None:
        """Whoever was joined may be gone since, and with it all who knew of this agent; or be back at another
        address, with a cluster of its own."""
        was_forgotten = False
        while True:
            await trio.sleep(LOOK_S)
            is_forgotten = self._is_forgotten()
            if is_forgotten and not was_forgotten:
                log.warning("no other agent lists this one, so retry_join is asked until one does")
            if is_forgotten or self._misses_others():
                with contextlib.suppress(NotJoined):  # as likely as not nobody is there
                    await self._join_entries("retry_join", entries, logging.DEBUG)
            was_forgotten = is_forgotten

    def _growing_pause_s(self, attempts: int) -> float:
        return min(self._config.retry_interval_ns / SECOND, 2.0 ** min(attempts - 1, 16))

    async def _join_entries(self, key: str, entries: Sequence[str], level: int = logging.INFO) -> str:
        """What the cluster has against us, which may pass: the process before this one is not dead yet."""
        port = self._config.ports.serf_lan
        found = await join_names.find(join_names.parse(entry, port) for entry in entries)
        if not found.addresses:
            raise NotJoined("; ".join(found.failures.values()) or "it names nobody")
        objection = await self._join(tuple(found.addresses))
        if objection:
            log.warning(NOT_YET, key, objection)
        else:
            log.log(level, "joined by %s; addresses tried: %d", key, len(found.addresses))
        return objection


def read_peers(content: bytes | None) -> list[Address]:
    """Those of the last run; what makes no sense is passed over."""
    if content is None:
        return []
    try:
        listed = strict_loads(content)
    except BadEncoding:
        log.warning("the file of peers is damaged and not used; retry_join finds the cluster as well")
        return []
    peers, unreadable = [], 0
    for each in listed if isinstance(listed, list) else ():
        match each:
            case [str(host), int(port)] if is_ip_host(host) and 0 < port < 65_536 and port is not True:
                peers.append(Address(host, port))
            case _:
                unreadable += 1
    if unreadable:
        log.warning("%d entries of the file of peers are no addresses and are passed over", unreadable)
    return peers
