"""Many agents of one kind as one cluster, ours and Consul's through the same door: start, kill, pause,
restart, and the roll as each of them sees it.

The first member is a server on its own, the others are its clients. Everyone reads the same keys. A place is
where a member lives: a set of ports on loopback, or a host of its own (see `namespaces`).
"""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec

from tests.system.agents import CALL_S_MAX, Agent, AgentFailed, Ports, Program, launch, spawn

SWEEP_S = 0.05
ONE_VIEW_S_MAX = 60.0
# Agents come back to their ports after minutes, so these lie below those that the kernel hands out to
# outgoing connections.
PORTS_FIRST, PORTS_LAST = 12_000, 31_000
PORTS_EACH = 5


class Status(IntEnum):
    """As `/v1/agent/members` has it."""

    NONE = 0
    ALIVE = 1
    LEAVING = 2
    LEFT = 3
    FAILED = 4


View = dict[str, Status]


class Row(msgspec.Struct, rename="pascal"):
    name: str
    status: int


ROWS = msgspec.json.Decoder(list[Row])


class Place(Protocol):
    @property
    def address(self) -> str: ...

    @property
    def ports(self) -> Ports: ...

    def entered(self) -> AbstractContextManager[None]:
        """What this thread connects or starts meanwhile is there."""
        ...


@dataclass(frozen=True, slots=True)
class Loopback:
    ports: Ports
    address: str = "127.0.0.1"

    def entered(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(slots=True, eq=False)
class Member:
    """One agent of a cluster. All questions go over one connection, so that asking is cheap."""

    name: str
    place: Place
    agent: Agent
    _door: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._door = http.client.HTTPConnection("127.0.0.1", self.place.ports.http, timeout=CALL_S_MAX)

    @property
    def pid(self) -> int:
        return self.agent.pid

    def view(self) -> View:
        """The roll as this agent sees it; empty while it does not answer."""
        return {row.name: Status(row.status) for row in ROWS.decode(self.ask("/v1/agent/members") or b"[]")}

    def ask(self, target: str) -> bytes:
        """The body of its answer; empty while it does not answer, or not with 200."""
        try:
            if self._door.sock is None:
                with self.place.entered():
                    self._door.connect()
            self._door.request("GET", target)
            response = self._door.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException):
            self._door.close()
            return b""
        return body if response.status == http.client.OK else b""

    def put(self, target: str, body: object = None) -> tuple[int, bytes]:
        with self.place.entered():
            return self.agent.put(target, body)

    def kill(self) -> None:
        self._door.close()
        self.agent.kill()

    def stop(self) -> None:
        """As a service manager does it."""
        self._door.close()
        self.agent.stop()

    def lose_data(self) -> None:
        """After its end: the next life is that of a host that never was in a cluster, but for its name."""
        shutil.rmtree(self.agent.folder / "data")

    def pause(self) -> None:
        self.agent.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.agent.send(signal.SIGCONT)

    def restart(self, config: Mapping[str, object] | None = None) -> None:
        """After `stop` or `kill`, with the same folder and ports; returns at once."""
        agent = self.agent
        agent.config = agent.config if config is None else config
        with self.place.entered():
            agent.process = spawn(agent.program, agent.folder, agent.ports, agent.config, agent.arguments)

    def close(self) -> None:
        """Ends it, whatever its state, and removes its folder."""
        self._door.close()
        if self.agent.process.poll() is None:
            self.agent.kill()
        shutil.rmtree(self.agent.folder, ignore_errors=True)


@dataclass(slots=True, eq=False)
class Cluster:
    program: Program
    members: list[Member] = field(default_factory=list)

    @property
    def clients(self) -> list[Member]:
        return self.members[1:]

    @property
    def names(self) -> set[str]:
        return {member.name for member in self.members}

    def add(
        self, place: Place, config: Mapping[str, object], name: str = "", program: Program | None = None
    ) -> Member:
        folder = Path(tempfile.mkdtemp(prefix=f"{self.program.name.lower()}-"))
        name = name or f"m{len(self.members):02}"
        whole = {"node_name": name, "bind_addr": place.address, "data_dir": "data", **config}
        with place.entered():
            agent = launch(program or self.program, folder, place.ports, whole, ())
        member = Member(name, place, agent)
        self.members.append(member)
        return member

    def has_one_view(self) -> bool:
        """Everyone sees everyone alive, and nobody else."""
        return all(sees_alive(member, self.names) for member in self.members)

    def wait_for_one_view(self, within_s: float = ONE_VIEW_S_MAX) -> float:
        """How long it took. One at a time is asked until it sees all: fifty who start have work to do."""
        started = time.monotonic()
        pending = list(self.members)

        def is_done() -> bool:
            while pending and sees_alive(pending[-1], self.names):
                pending.pop()
            return not pending and self.has_one_view()

        if not sweeping(is_done, within_s=within_s):
            raise AgentFailed(f"{self.program.name}: no one view after {within_s:.0f} s\n{self.complaint()}")
        return time.monotonic() - started

    def complaint(self) -> str:
        """Who sees whom not alive, and the last words of the first who does."""
        lines = []
        for member in self.members:
            view = member.view()
            missing = sorted(self.names - {name for name, seen in view.items() if seen is Status.ALIVE})
            if missing:
                lines.append(f"{member.name} misses {', '.join(missing[:8])} ({len(missing)})")
                if len(lines) == 1:
                    lines.append(member.agent.log_tail())
        return "\n".join(lines[:12])


def sees_alive(member: Member, names: set[str]) -> bool:
    view = member.view()
    return {name for name, status in view.items() if status is Status.ALIVE} == names


def sweeping(is_done: Callable[[], bool], *, within_s: float, every_s: float = SWEEP_S) -> bool:
    """Looks at a steady pace, so that looking costs the same whoever is looked at."""
    started = time.monotonic()
    for sweep in count(1):
        if is_done():
            return True
        if time.monotonic() - started > within_s:
            return False
        time.sleep(max(0.0, started + sweep * every_s - time.monotonic()))
    raise AssertionError


def pace(until_s: float) -> None:
    """What a plan says comes next does not come sooner."""
    time.sleep(max(0.0, until_s - time.monotonic()))


@contextmanager
def gathered(
    program: Program, places: Sequence[Place], config: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """All started at once, and ended with their folders removed. It may not have one view yet."""
    with emptied(Cluster(program)) as cluster:
        for place in places:
            cluster.add(place, {**role(places, place), **(config or {})})
        yield cluster


def role(places: Sequence[Place], place: Place) -> dict[str, object]:
    return {"server": True, "bootstrap": True} if place is places[0] else joining(places[0])


def joining(place: Place) -> dict[str, object]:
    return {"retry_join": [f"{place.address}:{place.ports.serf_lan}"], "retry_interval": "1s"}


@contextmanager
def emptied(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        for member in cluster.members:
            member.close()


def loopbacks(number: int, random: Random | None = None) -> list[Place]:
    """That many sets of ports which nobody listens on now."""
    random = random or Random()
    found: list[Place] = []
    while len(found) < number:
        first = random.randrange(PORTS_FIRST, PORTS_LAST, PORTS_EACH)
        is_new = all(first != place.ports.http for place in found)
        if is_new and all(is_free(port) for port in range(first, first + PORTS_EACH)):
            found.append(Loopback(Ports(*range(first, first + PORTS_EACH))))
    return found


def is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with closing(socket.socket(socket.AF_INET, kind)) as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
