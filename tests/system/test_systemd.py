"""The agent under a service manager, which the test plays."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agents import adsum_program, running


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        yield listener


def told(manager: socket.socket, wanted: str) -> list[str]:
    """Everything up to and including the first message that starts with the wanted word."""
    messages: list[str] = []
    while not (messages and messages[-1].startswith(wanted)):
        messages.append(manager.recv(4096).decode())
    return messages


def test_agent_reports_from_ready_to_stopping_and_feeds_the_watchdog(manager: socket.socket) -> None:
    with running(adsum_program()) as agent:
        assert told(manager, "READY=1")[0].startswith("READY=1\nSTATUS="), "ready comes first, once it is"
        told(manager, "WATCHDOG=1")
        told(manager, "WATCHDOG=1")
        agent.send(signal.SIGHUP)
        told(manager, "RELOADING=1\nMONOTONIC_USEC=")
        told(manager, "READY=1")
        agent.send(signal.SIGTERM)
        told(manager, "STOPPING=1")
        assert agent.wait_for_end() == 0
