from __future__ import annotations

import logging

import pytest

from adsum.process import crashes
from adsum.storage.memory import MemoryDisk

WALL_MS = 1_800_000_000_000
SAVED = ("peers", "catalog-copy")


def disk_with_copies() -> MemoryDisk:
    disk = MemoryDisk()
    for path in (*SAVED, "generation"):
        disk.replace(path, b"x")
    return disk


def test_after_three_crashes_within_a_minute_an_agent_starts_without_what_it_saved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = disk_with_copies()
    for second in (0, 1, 2):
        crashes.begin(disk, WALL_MS + 1_000 * second, SAVED)
    assert disk.read("peers") == b"x"
    assert caplog.records == []
    crashes.begin(disk, WALL_MS + 3_000, SAVED)
    assert disk.read("peers") is None
    assert disk.read("catalog-copy") is None
    assert disk.read("generation") == b"x"
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ended 3 times within a minute without being asked to" in line
    assert "peers.damaged and " in line


@pytest.mark.parametrize(
    "second", [62, 3_600, -7_200], ids=["later", "much later", "with the clock set back"]
)
def test_crashes_longer_ago_than_a_minute_do_not_count(second: int) -> None:
    disk = disk_with_copies()
    for each in (0, 0, 1):
        crashes.begin(disk, WALL_MS + 1_000 * each, SAVED)
    crashes.begin(disk, WALL_MS + 1_000 * second, SAVED)
    assert disk.read("peers") == b"x"


def test_an_orderly_end_is_no_crash() -> None:
    disk = disk_with_copies()
    for second in range(10):
        crashes.begin(disk, WALL_MS + 1_000 * second, SAVED)
        crashes.end(disk)
    crashes.begin(disk, WALL_MS + 11_000, SAVED)
    assert disk.read("peers") == b"x"


def test_with_nothing_to_set_aside_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    with caplog.at_level(logging.INFO):
        for second in range(6):
            crashes.begin(disk, WALL_MS + 1_000 * second, SAVED)
    assert caplog.records == []


def test_a_file_that_makes_no_sense_is_no_crash() -> None:
    disk = disk_with_copies()
    disk.replace(crashes.STARTS, b"\xff 1e9 -4 " + b"9" * 5_000)
    crashes.begin(disk, WALL_MS, SAVED)
    assert disk.read("peers") == b"x"
