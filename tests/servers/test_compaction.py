"""What becomes of a server whose own snapshot file was damaged on its disk, by whatever it was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from adsum.consensus.errors import StoreBroken
from adsum.consensus.settings import ServerSettings
from adsum.servers.driver import Driver
from tests.servers.support import QUICK, Site, cluster, on_disk, until

# Snapshots are made soon, and little of the log is left behind them: a newcomer needs one.
SETTINGS = ServerSettings(
    raft=QUICK, snapshot_entries=10, snapshot_interval_s=0.05, entries_kept=2, stable_s=0.1
)
RARELY = replace(SETTINGS, snapshot_entries=10_000)


def driver_of(site: Site) -> Driver:
    assert site.server.driver is not None
    return site.server.driver


def newest_file(folder: Path) -> Path:
    return max(folder.glob("*.snapshot"))


def turn_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


@pytest.mark.parametrize("harm", [turn_a_bit, cut, Path.unlink], ids=["a bit", "its end", "all of it"])
async def test_a_leader_whose_snapshot_is_damaged_says_so_and_makes_another(
    harm: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path, 1, settings=RARELY) as made:
        (leader,) = made.sites
        for number in range(30):
            await leader.server.propose(b"%d" % number)
        driver = driver_of(leader)
        driver.core.settings = SETTINGS
        await until(lambda: driver.counters.snapshots_made)
        driver.core.settings = RARELY  # no other one takes its place by itself
        await leader.server.propose(b"more")
        damaged = newest_file(tmp_path / "1")
        harm(damaged)
        newcomer = made.add(on_disk(tmp_path / "new"), replace(RARELY, expect=0))
        await until(lambda: newcomer.machine.words == leader.machine.words)
        assert driver.counters.snapshots_damaged == 1
        assert newest_file(tmp_path / "1") > damaged
        assert driver_of(newcomer).counters.snapshots_installed == 1
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "is damaged on this disk and is sent to nobody any more; another is made now" in told.getMessage()
    assert damaged.name in told.getMessage()


async def test_with_nothing_to_make_another_of_the_process_ends_with_a_sentence(tmp_path: Path) -> None:
    settings = replace(SETTINGS, snapshot_entries=1)
    async with cluster(tmp_path, 1, settings=settings) as made:
        (site,) = made.sites
        await site.server.propose(b"a")
        driver = driver_of(site)
        await until(lambda: driver.core.raft.snapshot_point() is None)
        ref = driver.raft_log.snapshot
        assert ref is not None
        turn_a_bit(newest_file(tmp_path / "1"))
        await driver.examine_snapshot(ref)
        await site.ended.wait()
    assert isinstance(site.error, StoreBroken)
    assert "does not match its hash in the log), and nothing was applied since" in str(site.error)
    assert "this process ends" in str(site.error)


async def test_a_sound_file_and_one_that_is_not_the_newest_are_left_alone(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, settings=SETTINGS) as made:
        (site,) = made.sites
        await site.server.propose(b"a")
        driver = driver_of(site)
        first = driver.raft_log.snapshot
        assert first is not None
        await driver.examine_snapshot(first)
        for number in range(30):
            await site.server.propose(b"%d" % number)
        await until(lambda: driver.counters.snapshots_made)
        for file in (tmp_path / "1").glob(f"{first.index:016x}*.snapshot"):
            file.unlink()
        await driver.examine_snapshot(first)
        assert driver.counters.snapshots_damaged == 0
        assert await site.server.propose(b"b") == b"heard b"
