from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trustme

from tests.health_checks.support import Bench


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
