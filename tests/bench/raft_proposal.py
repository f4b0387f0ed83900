"""What one proposal costs the loop, from `propose` to its answer: the core and the driver of a server alone.

Processor time of the loop's thread: the disk's work is done by another thread, and there is no network. So
many proposals are under way all the time, and each answer makes the next one.
"""

from __future__ import annotations

import gc
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import trio

from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import AskLeader
from adsum.consensus.settings import ServerSettings
from adsum.raft.batch import LogChange
from adsum.raft.core import RaftCore
from adsum.raft.messages import Message, MessageStamp, SnapshotOffer
from adsum.raft.types import Configuration, Entry, Restored, SnapshotRef, bootstrap
from adsum.servers.driver import Driver, NobodyFollows
from adsum.servers.server import loop_now
from adsum.servers.writer import LogWriter
from adsum.storage.files import OsFolder
from adsum.storage.opening import open_log
from tests.bench.figure import Figure, limit, microseconds

AT_ONCE = 64
PROPOSALS = 30_000
ROUNDS = 5
PRICE_US_MAX = 12.0
DATA = b"x" * 300


class Nothing:
    """A state machine that keeps nothing."""

    def apply(self, _entry: Entry) -> bytes:
        return b""

    def snapshot(self) -> Iterator[bytes]:
        return iter([b""])

    def read(self, _pieces: Iterator[bytes]) -> None:
        return None

    def restore(self, _state: None) -> None:
        pass

    def hash(self) -> bytes:
        return b""


class Nobody:
    """There are no others."""

    def send(self, _message: Message) -> None:
        raise AssertionError("a server alone says nothing")

    async def ask_leader(self, _asked: AskLeader) -> bytes | int | Exception:
        raise AssertionError("a server alone asks nobody")

    def carry(self, _offer: SnapshotOffer, _ref: SnapshotRef) -> None:
        raise AssertionError("a server alone brings nothing")


class Chain:
    """Each answer makes the next proposal."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._left = PROPOSALS
        self.is_over = trio.Event()

    def begin(self) -> None:
        for _ in range(AT_ONCE):
            self._driver.propose(DATA, self._answered)

    def _answered(self, outcome: bytes | Exception) -> None:
        assert outcome == b"", "a server alone refuses nothing"
        self._left -= 1
        if self._left >= AT_ONCE:
            self._driver.propose(DATA, self._answered)
        elif self._left == 0:
            self.is_over.set()


def proposal(folder: Path | None) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        price_s = trio.run(price, Path(made))
    return [
        limit(
            f"a proposal, {AT_ONCE} at once: loop's processor time", price_s * 1e6, PRICE_US_MAX, microseconds
        )
    ]


async def price(folder: Path) -> float:
    """The least of some rounds."""
    opened = open_log(
        OsFolder(folder / "raft"), node="alone", mint_log_id=lambda: "log", mint_salt=lambda: bytes(16)
    )
    log, first = opened.log, bootstrap(Configuration((opened.log.identity.member,)))
    log.append([LogChange(install=log.snapshots.make(first).finish())])
    raft = RaftCore(
        me=log.identity.member,
        stamp=MessageStamp("alone", 0),
        settings=ServerSettings().raft,
        restored=Restored(snapshot=first),
        random=Random(1),
        now=loop_now(),
    )
    core = ConsensusCore(raft, Nothing(), ServerSettings(), newest=log.snapshot, now=loop_now())
    driver = Driver(core, log, Nobody(), loop_now, NobodyFollows())
    least_s = math.inf
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run, LogWriter())
        while not driver.is_leader or driver.applied < 2:
            await driver.changed()
        for _ in range(ROUNDS):
            gc.collect()
            chain, began_s = Chain(driver), time.thread_time()
            chain.begin()
            await chain.is_over.wait()
            least_s = min(least_s, (time.thread_time() - began_s) / PROPOSALS)
        nursery.cancel_scope.cancel()
    driver.close()
    return least_s
