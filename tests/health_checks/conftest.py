from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trustme

from adsum.catalog.definitions import CheckKind
from adsum.health_checks import kinds
from tests.health_checks.support import Bench

RUN = ("script", "docker", "http", "tcp", "udp", "grpc", "h2ping", "os_service")


@pytest.fixture(scope="session", autouse=True)
def _loaded_kinds() -> None:
    """A task that waits for the thread that loads looks as if it were at rest, and clocks would be moved."""
    kinds.LOADED.update({CheckKind(name): kinds.load(CheckKind(name)) for name in RUN})


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(nursery)


@pytest.fixture
def refusing_port() -> Iterator[int]:
    """Held by a socket that doesn't listen, so nobody else can take it and connections are refused."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()
