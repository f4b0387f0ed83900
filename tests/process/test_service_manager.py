from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from adsum.process.service_manager import ServiceManager
from tests.files import no_file_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def address(tmp_path: Path) -> str:
    return str(tmp_path / "notify")


@pytest.fixture
def systemd(address: str) -> Iterator[socket.socket]:
    """The other end, as systemd holds it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address)
        listener.settimeout(5)
        yield listener


@pytest.fixture
def manager(address: str) -> Iterator[ServiceManager]:
    with closing(ServiceManager(address)) as manager:
        yield manager


def test_ready_says_so_with_a_status(systemd: socket.socket, manager: ServiceManager) -> None:
    manager.ready("1 member alive")
    assert systemd.recv(4096) == b"READY=1\nSTATUS=1 member alive"


def test_each_verb_is_one_datagram(systemd: socket.socket, manager: ServiceManager) -> None:
    manager.status("3 members alive")
    manager.watchdog()
    manager.stopping("leaving")
    assert [systemd.recv(4096) for _ in range(3)] == [
        b"STATUS=3 members alive",
        b"WATCHDOG=1",
        b"STOPPING=1\nSTATUS=leaving",
    ]


def test_reloading_carries_the_monotonic_clock_in_microseconds(
    systemd: socket.socket, manager: ServiceManager
) -> None:
    before_us = time.monotonic_ns() // 1000
    manager.reloading()
    first, second = systemd.recv(4096).decode().splitlines()
    assert first == "RELOADING=1"
    assert before_us <= int(second.removeprefix("MONOTONIC_USEC=")) <= time.monotonic_ns() // 1000


def test_abstract_socket_is_reached_through_its_at_sign() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("")  # the kernel picks a free abstract name
        listener.settimeout(5)
        name = bytes(listener.getsockname())
        with closing(ServiceManager("@" + name[1:].decode())) as manager:
            manager.watchdog()
        assert listener.recv(4096) == b"WATCHDOG=1"


def test_status_cannot_smuggle_in_another_assignment(systemd: socket.socket, manager: ServiceManager) -> None:
    manager.status("well\nMAINPID=1\n" + "x" * 1000)
    told = systemd.recv(4096)
    assert told.startswith(b"STATUS=well MAINPID=1 xxx")
    assert b"\n" not in told
    assert len(told) == len("STATUS=") + 256


def test_without_a_socket_every_verb_does_nothing() -> None:
    manager = ServiceManager.from_environment({})
    manager.ready("up")
    manager.reloading()
    manager.watchdog()
    assert manager.watchdog_interval_s is None
    assert manager.unsent == 0


def test_a_vanished_socket_is_counted_not_raised(manager: ServiceManager) -> None:
    manager.watchdog()
    assert manager.unsent == 1


def test_beats_are_heard_while_no_file_is_left(systemd: socket.socket, manager: ServiceManager) -> None:
    """systemd would end an agent that it does not hear from."""
    with no_file_left():
        manager.watchdog()
    assert systemd.recv(4096) == b"WATCHDOG=1"
    assert manager.unsent == 0


def test_a_manager_that_was_started_again_is_heard(address: str, manager: ServiceManager) -> None:
    for beats in (1, 2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(address)
            listener.settimeout(5)
            manager.watchdog()
            assert listener.recv(4096) == b"WATCHDOG=1", beats
        os.unlink(address)


def test_a_full_socket_does_not_hold_the_caller(systemd: socket.socket, manager: ServiceManager) -> None:
    for _ in range(10_000):  # far beyond net.unix.max_dgram_qlen
        manager.watchdog()
        if manager.unsent:
            break
    assert manager.unsent == 1


def interval_s(environ: dict[str, str]) -> float | None:
    with closing(ServiceManager.from_environment(environ)) as manager:
        return manager.watchdog_interval_s


def test_watchdog_is_fed_at_half_of_what_systemd_allows(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    assert interval_s(environ) == 15.0


def test_watchdog_meant_for_another_process_is_ignored(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}
    assert interval_s(environ) is None


@pytest.mark.parametrize("usec", ["", "soon", "-1", "0"])
def test_unreadable_watchdog_time_means_no_watchdog(address: str, usec: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": usec}
    assert interval_s(environ) is None


def test_the_variables_are_taken_so_that_checks_do_not_inherit_them(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "PATH": "/bin"}
    interval_s(environ)
    assert environ == {"PATH": "/bin"}


def test_a_socket_of_another_family_is_left_alone() -> None:
    assert ServiceManager.from_environment({"NOTIFY_SOCKET": "vsock:2:1234"}).address is None
