"""Hosts of our own on one machine: network namespaces, joined by bridges in one that plays the switch.

Nothing is made in the machine's own network, so nothing of it can be left behind there: a namespace takes its
links with it. What is made carries a prefix of its own and goes at the end, even when a test fails.

A host can lose its cable, and hosts can be parted: their ports move to a second bridge, so that each side
still hears its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count

from tests.system.agents import Ports

PORTS = Ports(http=8500, dns=8600, serf_lan=8301, serf_wan=8302, server=8300)
HOSTS_MAX = 250
ONE, OTHER = "one", "other"
NETWORKS = count()

libc = ctypes.CDLL(None, use_errno=True)


class NetworkFailed(Exception):
    """`ip` refused: nothing is left of what was begun."""


def why_no_namespaces() -> str | None:
    """A sentence for whoever skips, or None where they can be made."""
    if shutil.which("ip") is None:
        return "no network namespaces without ip: apt-get install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with network(1):
            return None
    except NetworkFailed as failed:
        return f"no network namespaces here: {failed}"


@dataclass(frozen=True, slots=True)
class Host:
    namespace: str
    address: str
    port: str
    """The switch's end of its cable."""
    neighbour: str
    """Its address and that of its cable, as `ip neighbour` has them."""
    ports: Ports = PORTS

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Namespaces belong to threads; sockets and processes keep the one in which they were made."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.namespace}", os.O_RDONLY)
        try:
            move_this_thread(there)
            yield
        finally:
            move_this_thread(home)
            os.close(there)
            os.close(home)

    def pull_cable(self) -> None:
        ip("-n", self.namespace, "link", "set", "eth0", "down")

    def plug_in(self) -> None:
        ip("-n", self.namespace, "link", "set", "eth0", "up")


@dataclass(frozen=True, slots=True)
class Network:
    switch: str
    hosts: Sequence[Host]

    def part(self, side: Iterable[Host]) -> None:
        self._move(side, OTHER)

    def heal(self) -> None:
        self._move(self.hosts, ONE)

    def _move(self, hosts: Iterable[Host], bridge: str) -> None:
        batch(self.switch, [f"link set {host.port} master {bridge}" for host in hosts])


@contextmanager
def network(hosts: int, *, are_neighbours_known: bool = False) -> Iterator[Network]:
    """Known neighbours are never asked for, nor found to be gone. Those that were asked for are in one table
    for all namespaces, of 1,024 by default: forty hosts that talk to each other fill it, and lose packets."""
    assert hosts <= HOSTS_MAX
    prefix = f"adsum-{os.getpid()}-{next(NETWORKS)}"
    with ExitStack() as made:
        switch = namespace(made, f"{prefix}-switch")
        batch(switch, [f"link add {bridge} up type bridge" for bridge in (ONE, OTHER)])
        all_hosts = [host(made, switch, prefix, number) for number in range(1, hosts + 1)]
        if are_neighbours_known:
            for each in all_hosts:
                others = [other for other in all_hosts if other is not each]
                batch(each.namespace, [f"neighbour add {other.neighbour} dev eth0" for other in others])
        yield Network(switch, all_hosts)


def namespace(made: ExitStack, name: str) -> str:
    ip("netns", "add", name)
    made.callback(ip, "netns", "delete", name)
    return name


def host(made: ExitStack, switch: str, prefix: str, number: int) -> Host:
    address, cable = f"10.99.0.{number}", f"02:00:00:00:00:{number:02x}"
    new = Host(namespace(made, f"{prefix}-{number}"), address, f"port{number}", f"{address} lladdr {cable}")
    batch(
        switch,
        [
            f"link add {new.port} type veth peer name eth0 address {cable} netns {new.namespace}",
            f"link set {new.port} up master {ONE}",
        ],
    )
    batch(new.namespace, ["link set lo up", f"address add {new.address}/24 dev eth0", "link set eth0 up"])
    return new


def batch(where: str, commands: Sequence[str]) -> None:
    ip("-n", where, "-batch", "-", commands="\n".join(commands))


def ip(*arguments: str, commands: str = "") -> None:
    done = subprocess.run(["ip", *arguments], input=commands, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkFailed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def move_this_thread(descriptor: int) -> None:
    if libc.setns(descriptor, 0) != 0:
        number = ctypes.get_errno()
        raise NetworkFailed(f"setns: {os.strerror(number)}")
