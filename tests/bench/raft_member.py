"""One server of consensus with a small state machine and a door on a Unix socket, for `make bench-raft`.

    python -m tests.bench.raft_member FOLDER NUMBER PORT…

Frames through the door: length (4), a number of the caller's (8), a letter, and what belongs to it.

    P  an entry: proposer (2), its sequence (8), anything     → A when it is committed and applied, or
                                                                N (nothing happened) or U (nobody knows)
    S  nothing                                                → A and how this server stands, as JSON
    R  nothing                                                → the same, once a quorum has confirmed it
    H  nothing                                                → the same, with a hash of all its state
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from uuid import UUID

import trio

from adsum.address import Address
from adsum.consensus.errors import OutcomeUnknown, StoreBroken, Unavailable
from adsum.consensus.settings import ServerSettings
from adsum.net.gate import Security
from adsum.net.keyring import load
from adsum.net.listening import bind_tcp
from adsum.raft.errors import RaftRefused
from adsum.servers.directory import KnownServer
from adsum.servers.server import ConsensusServer, open_server
from adsum.storage.files import OsFolder
from adsum.storage.memory import MemoryDisk
from tests.bench.raft_machines import MACHINE, MACHINES, Puts

FRAME = struct.Struct("<IQc")  # length of what follows it, number, letter
CHUNK_BYTES = 1 << 18
LATENESS_INTERVAL_S = 0.005


def node(number: int) -> str:
    return str(UUID(int=number + 1))


class Peers:
    def __init__(self, ports: list[int]) -> None:
        self._known = [
            KnownServer(node(number), Address("127.0.0.1", port), expect=len(ports))
            for number, port in enumerate(ports)
        ]

    def name_of(self, node: str) -> str:
        return node

    def left(self) -> list[str]:
        return []

    def servers(self) -> list[KnownServer]:
        return self._known


class Door:
    def __init__(self, server: ConsensusServer, machine: Puts, lateness: Lateness) -> None:
        self._server = server
        self._machine = machine
        self._lateness = lateness

    async def serve(self, stream: trio.SocketStream) -> None:
        caller = _Caller(stream)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(caller.write)
            rest = b""
            while chunk := await stream.receive_some(CHUNK_BYTES):
                rest = self._take(rest + chunk, caller, nursery)
            nursery.cancel_scope.cancel()

    def _take(self, received: bytes, caller: _Caller, nursery: trio.Nursery) -> bytes:
        offset, end, driver = 0, len(received), self._server.driver
        while offset + FRAME.size <= end:
            length, number, letter = FRAME.unpack_from(received, offset)
            start = offset + FRAME.size
            if start + length > end:
                break
            offset = start + length
            if letter != b"P":
                nursery.start_soon(self._tell, caller, number, letter)
                continue
            answered = partial(caller.answer, number)
            if driver is None:
                answered(Unavailable("no cluster yet"))
                continue
            try:
                driver.propose(received[start:offset], answered)
            except (RaftRefused, Unavailable) as error:
                answered(error)
        return received[offset:]

    async def _tell(self, caller: _Caller, number: int, letter: bytes) -> None:
        try:
            if letter == b"R":
                await self._server.read()
        except (RaftRefused, Unavailable, OutcomeUnknown) as error:
            caller.answer(number, error)
            return
        standing = self._standing()
        if letter == b"H":
            standing["hash"] = self._machine.whole_hash().decode()
        caller.put(number, b"A", json.dumps(standing).encode())

    def _standing(self) -> dict[str, object]:
        driver, machine = self._server.driver, self._machine
        return {
            "is_leader": driver is not None and driver.is_leader,
            "leader": str(driver.leader.node) if driver is not None and driver.leader is not None else None,
            "term": driver.core.raft.replica.term if driver is not None else 0,
            "cluster": self._server.log.identity.cluster,
            "applied": machine.applied,
            "gaps": machine.gaps,
            "sequences": machine.sequences,
            "hash": machine.hash().decode(),
            "first_index": driver.core.raft.replica.log.first_index if driver is not None else 0,
            "votes": driver is not None and driver.core.raft.replica.configuration.is_voter(self._server.me),
            "held_ms": self._lateness.taken_ms(),
            "batches": driver.counters.batches if driver is not None else 0,
            "groups": driver.core.storing.counters.groups if driver is not None else 0,
            "entries": int(driver.core.storing.counters.sizes.total) if driver is not None else 0,
        }


class Lateness:
    """How long the loop was held by anything, at most, since that was last asked."""

    def __init__(self) -> None:
        self._most_s = 0.0

    def taken_ms(self) -> float:
        most_s, self._most_s = self._most_s, 0.0
        return most_s * 1e3

    async def measure(self) -> None:
        while True:
            due_s = trio.current_time() + LATENESS_INTERVAL_S
            await trio.sleep_until(due_s)
            self._most_s = max(self._most_s, trio.current_time() - due_s)


class _Caller:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._answers: list[bytes] = []
        self._news = trio.lowlevel.ParkingLot()

    def answer(self, number: int, outcome: bytes | Exception) -> None:
        if isinstance(outcome, bytes):
            self.put(number, b"A", outcome)
        else:
            self.put(number, b"U" if isinstance(outcome, OutcomeUnknown) else b"N", str(outcome).encode())

    def put(self, number: int, letter: bytes, content: bytes) -> None:
        if not self._answers:
            self._news.unpark()
        self._answers.append(FRAME.pack(len(content), number, letter) + content)

    async def write(self) -> None:
        try:
            while True:
                if not self._answers:
                    await self._news.park()
                answers, self._answers = self._answers, []
                await self._stream.send_all(b"".join(answers))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def run(folder: Path, number: int, machine: Puts, ports: list[int]) -> None:
    server = open_server(
        OsFolder(folder / "raft"),
        node=node(number),
        machine=machine,
        directory=Peers(ports),
        security=Security(load(MemoryDisk(), None), "dc1"),
        settings=ServerSettings(expect=len(ports)),
        random=Random(),
    )
    server.join_was_tried()
    lateness = Lateness()
    door = Door(server, machine, lateness)
    path = folder / "door"
    path.unlink(missing_ok=True)
    socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
    await socket.bind(str(path))
    socket.listen()
    gc.collect()
    gc.freeze()
    serve: Callable[..., object] = partial(trio.serve_listeners, door.serve, [trio.SocketListener(socket)])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)  # type: ignore[arg-type]
        nursery.start_soon(_until_told, server)
        nursery.start_soon(lateness.measure)
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
        await server.run(bind_tcp("127.0.0.1", ports[number]))
        nursery.cancel_scope.cancel()


def _end_with_standard_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


async def _until_told(server: ConsensusServer) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            await server.stop()


def main() -> int:
    folder, number, *ports = sys.argv[1:]
    machine = os.environ.get(MACHINE, "puts")
    logging.basicConfig(filename=Path(folder) / "log", level=logging.INFO)
    status = 0
    try:
        trio.run(run, Path(folder), int(number), MACHINES[machine](), [int(port) for port in ports])
    except* StoreBroken as broken:
        print(broken.exceptions[0], file=sys.stderr)
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
