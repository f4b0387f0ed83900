"""Servers of consensus in one process: real sockets on loopback, a small state machine, any folder."""

from __future__ import annotations

import base64
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import UUID

import cbor2
import trio

from adsum.address import Address
from adsum.consensus.settings import ServerSettings
from adsum.net.gate import Security
from adsum.net.keyring import Keyring, load
from adsum.net.listening import bind_tcp
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Entry, EntryKind
from adsum.servers.directory import KnownServer
from adsum.servers.server import ConsensusServer, open_server
from adsum.storage.files import Folder, OsFolder
from adsum.storage.memory import MemoryDisk
from tests.servers.faults import Faults, FaultyFolder

SEGMENT_BYTES = 256 << 10
T = TypeVar("T")

POLL_S = 0.002
WAIT_S = 20.0  # for what other tasks and threads do in their own time; only a failure takes so long
KEY = base64.b64encode(b"k" * 32).decode()

# Ticks of 5 ms would make elections out of every hiccup of a loaded machine; these are quick enough.
QUICK = RaftSettings(heartbeat_ticks=1, election_ticks=4)


class Words:
    """Remembers everything it was told, in order."""

    def __init__(self) -> None:
        self.words: list[bytes] = []
        self.digest = 0

    def apply(self, entry: Entry) -> bytes:
        self.digest = zlib.crc32(entry.data, zlib.crc32(b"%d" % entry.index, self.digest))
        if entry.kind is not EntryKind.COMMAND:
            return b""
        self.words.append(entry.data)
        return b"heard " + entry.data

    def snapshot(self) -> Iterator[bytes]:
        content = cbor2.dumps([self.digest, self.words])
        return (content[start : start + 100] for start in range(0, len(content), 100))

    def read(self, pieces: Iterator[bytes]) -> tuple[int, list[bytes]]:
        digest, words = cbor2.loads(b"".join(pieces))
        return digest, words

    def restore(self, state: tuple[int, list[bytes]]) -> None:
        self.digest, self.words = state

    def hash(self) -> bytes:
        return b"%08x" % self.digest


class Roster:
    """A directory that a test edits."""

    def __init__(self) -> None:
        self.known: dict[str, KnownServer] = {}

    def servers(self) -> Sequence[KnownServer]:
        return list(self.known.values())

    def name_of(self, node: str) -> str:
        return f"server {UUID(node).int}"

    def left(self) -> Sequence[str]:
        return []


def node(number: int) -> str:
    return str(UUID(int=number))


def ring(key: str | None = None) -> Keyring:
    return load(MemoryDisk(), key)


class Site:
    """One server's place: its folder, its port, and whoever runs there at the moment."""

    def __init__(self, number: int, folder: Callable[[], Folder], roster: Roster) -> None:
        self.node = node(number)
        self.number = number
        self.roster = roster
        self.machine = Words()
        self.server: ConsensusServer
        self.error: Exception | None = None
        self.ended = trio.Event()
        self.make_folder = folder
        self.faults = Faults()  # of a folder that knows them
        self._scope = trio.CancelScope()
        listener = bind_tcp("127.0.0.1", 0)
        self.address = Address(*listener.socket.getsockname())
        self._listener: trio.SocketListener | None = listener

    def open(self, settings: ServerSettings, security: Security) -> None:
        self.folder = self.make_folder()
        self.machine = Words()
        self.server = open_server(
            self.folder,
            node=self.node,
            machine=self.machine,
            directory=self.roster,
            security=security,
            settings=settings,
            random=Random(self.number),
            segment_bytes=SEGMENT_BYTES,
        )
        self.server.join_was_tried()
        self.ended = trio.Event()
        self._scope = trio.CancelScope()
        self.roster.known[self.node] = KnownServer(
            self.node, self.address, settings.datacenter, settings.expect
        )

    async def run(self) -> None:
        listener = self._listener or bind_tcp(*self.address)
        self._listener = None
        try:
            with self._scope:
                await self.server.run(listener)
        except Exception as error:
            self.error = error
        finally:
            if isinstance(self.folder, OsFolder | FaultyFolder):
                self.folder.close()
            self.ended.set()

    async def kill(self) -> None:
        """Without a word to anybody."""
        self._scope.cancel()
        await self.ended.wait()


class Cluster:
    def __init__(self, nursery: trio.Nursery, settings: ServerSettings, security: Security) -> None:
        self.roster = Roster()
        self.sites: list[Site] = []
        self.settings = settings
        self.security = security
        self._nursery = nursery

    def add(
        self,
        folder: Callable[[], Folder],
        settings: ServerSettings | None = None,
        security: Security | None = None,
    ) -> Site:
        site = Site(len(self.sites) + 1, folder, self.roster)
        self.sites.append(site)
        self.start(site, settings, security)
        return site

    def start(
        self, site: Site, settings: ServerSettings | None = None, security: Security | None = None
    ) -> None:
        site.open(settings or self.settings, security or self.security)
        self._nursery.start_soon(site.run)

    async def leader(self, *, besides: Site | None = None) -> Site:
        def find() -> Site | None:
            leading = [
                site
                for site in self.sites
                if site is not besides
                and not site.ended.is_set()
                and site.server.driver is not None
                and site.server.driver.is_leader
            ]
            return max(leading, key=lambda site: term_of(site), default=None)

        return await until(find)


def term_of(site: Site) -> int:
    assert site.server.driver is not None
    return site.server.driver.core.raft.replica.term


@asynccontextmanager
async def cluster(
    tmp_path: Path,
    count: int = 3,
    *,
    settings: ServerSettings | None = None,
    security: Security | None = None,
) -> AsyncIterator[Cluster]:
    settings = replace(settings or ServerSettings(raft=QUICK), expect=count)
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, settings, security or Security(ring(), "dc1"))
        for number in range(1, count + 1):
            made.add(on_disk(tmp_path / str(number)))
        yield made
        nursery.cancel_scope.cancel()


def on_disk(path: Path) -> Callable[[], Folder]:
    return lambda: OsFolder(path)


async def until(find: Callable[[], T | None]) -> T:
    """For what other tasks, threads and sockets do in their own time."""
    with trio.fail_after(WAIT_S):
        while not (found := find()):  # noqa: ASYNC110  # what is waited for has no event of its own
            await trio.sleep(POLL_S)
        return found
