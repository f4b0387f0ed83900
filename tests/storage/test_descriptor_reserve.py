"""Clients that hold every file descriptor do not end the log."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from adsum.raft.batch import LogChange
from adsum.storage.descriptor_reserve import RESERVED, DescriptorReserve
from adsum.storage.files import OsFolder
from tests.storage.raft_logs import entries, opened, snapshot, state


@pytest.fixture
def held() -> Iterator[list[int]]:
    """Descriptors that others hold; few are allowed while it is in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors: list[int] = []
    try:
        yield descriptors
    finally:
        for each in descriptors:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def hold_all(held: list[int]) -> None:
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    with pytest.raises(OSError, match="Too many open files"):
        _hold_more(held)


def _hold_more(held: list[int]) -> None:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))


def test_the_log_goes_on_when_clients_hold_all_descriptors(tmp_path: Path, held: list[int]) -> None:
    folder = OsFolder(tmp_path / "raft")
    log = opened(folder).log
    ref = snapshot(log, 0)
    log.append([LogChange(entries=entries(1, 4, size=700), hard_state=state(1, commit=1))])
    log.append([LogChange(entries=entries(5, 6, size=700), hard_state=state(1, commit=1))])
    assert log.needs_preparing
    hold_all(held)
    log.prepare_next()
    assert not log.needs_preparing
    log.append([LogChange(entries=entries(7, 10, size=700), hard_state=state(1, commit=7))])
    assert log.snapshots.verify(ref).index == 0
    assert [each.index for each in log.entries(1, 10)] == list(range(1, 11))
    while held:
        os.close(held.pop())
    log.close()
    folder.close()


def test_with_the_reserve_spent_it_waits_until_somebody_closes_one(tmp_path: Path, held: list[int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    waits = threading.Event()
    goes_on = threading.Event()

    def pause(_error: OSError) -> None:
        waits.set()
        assert goes_on.wait(10)

    reserve = DescriptorReserve(partial(os.dup, folder), os.close, pause)
    hold_all(held)
    taken = [reserve.opened(lambda: os.open(path, os.O_RDONLY)) for _ in range(RESERVED)]
    late: list[int] = []
    thread = threading.Thread(target=lambda: late.append(reserve.opened(lambda: os.open(path, os.O_RDONLY))))
    thread.start()
    assert waits.wait(10)
    assert late == []
    os.close(held.pop())
    goes_on.set()
    thread.join(10)
    assert len(late) == 1
    for each in (*taken, *late, folder):
        os.close(each)


def test_what_was_taken_goes_back_when_a_file_is_closed(tmp_path: Path, held: list[int]) -> None:
    folder = OsFolder(tmp_path / "raft")
    folder.create("a").close()
    hold_all(held)
    for _ in range(RESERVED * 2):  # one after the other: each finds what the one before gave back
        folder.open("a").close()
        assert folder.names() == ["a"]
    while held:
        os.close(held.pop())
    folder.close()
