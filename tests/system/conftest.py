"""Agents as processes, for tests that need a real one. Each test gets its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.agents import Agent, adsum_program, running

# As people run one server on its own: state on disk, nothing indulgent about it.
DURABLE = {"server": True, "bootstrap": True, "data_dir": "data", "client_addr": "127.0.0.1"}


@pytest.fixture
def agent() -> Iterator[Agent]:
    """`adsum agent -dev`: everything in memory."""
    with running(adsum_program()) as started:
        yield started


@pytest.fixture
def durable_agent() -> Iterator[Agent]:
    """A server with a data folder."""
    with running(adsum_program(), DURABLE, arguments=()) as started:
        yield started
