"""The thread that writes: what is told, what is refused, and what is tried again."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from adsum.effects import FileChange, NotPersisted, Persist, Persisted, RemoveFile, Save, WriteFile
from adsum.storage.disk import OsDisk
from adsum.storage.failures import StorageFailed
from adsum.storage.owed import Owed, OwingDisk
from adsum.storage.writer import PAUSE_S, ROUND_S, DiskWriter, WriterCounters

FULL = "no space left on device: make room on its disk"
TTL_STATES = Save((WriteFile("ttl-states", b"1"),), is_synced=False)


class CrampedDisk(OsDisk):
    """Writing fails as long as `failures` says so, where the path begins with `where`."""

    failures = 0
    number = errno.ENOSPC
    where = ""

    def change(self, changes: tuple[FileChange, ...]) -> None:
        self._open(changes[0].path)
        super().change(changes)

    def replace(self, path: str, content: bytes) -> None:
        self._open(path)
        super().replace(path, content)

    def _open(self, path: str) -> None:
        if self.failures and path.startswith(self.where):
            self.failures -= 1
            raise OSError(self.number, os.strerror(self.number))


class Written:
    """A writer on a disk, and what it told."""

    def __init__(self, disk: OsDisk, renew: Callable[[], bool] = lambda: False) -> None:
        self.disk = disk
        self.told: list[tuple[int, str]] = []
        self.counters = WriterCounters()
        self.owed = Owed(disk, renew)
        self.writer = DiskWriter(self.owed, self.report, self.counters)

    def report(self, outcome: Persisted | NotPersisted) -> None:
        reason = outcome.reason if isinstance(outcome, NotPersisted) else ""
        self.told.append((outcome.ticket, reason))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.writer.run)
            yield
            nursery.cancel_scope.cancel()

    async def write(self, *effects: Persist | Save) -> None:
        for effect in effects:
            self.writer.write(effect)
        await self.writer.until_idle()


async def until(condition: Callable[[], bool]) -> None:
    """Rounds pass until it is so, each after the thread had its turn."""
    for _round in range(100):
        if condition():
            return
        await trio.sleep(ROUND_S)
    raise AssertionError("a hundred rounds were not enough")


@pytest.fixture
def autojump_clock(autojump_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    autojump_clock.autojump_threshold = 0.02  # so that no time passes while the thread writes
    return autojump_clock


@pytest.fixture
def disk(tmp_path: Path) -> CrampedDisk:
    return CrampedDisk(tmp_path)


async def test_writes_are_done_in_order_and_told_when_they_are_on_disk(tmp_path: Path) -> None:
    written = Written(OsDisk(tmp_path))
    async with written.running():
        await written.write(
            Persist(1, (WriteFile("a", b"1"),)),
            Save((WriteFile("a", b"2"), WriteFile("b", b"3")), is_synced=False),
            Persist(2, (RemoveFile("b"),)),
        )
    assert written.told == [(1, ""), (2, "")]
    assert (written.disk.read("a"), written.disk.read("b")) == (b"2", None)


async def test_one_that_is_refused_is_told_why_and_costs_the_others_of_its_batch_nothing(
    disk: CrampedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.failures, disk.where = 1, "b"
    written = Written(disk)
    async with written.running():
        await written.write(*(Persist(place, (WriteFile(path, b"1"),)) for place, path in enumerate("abc")))
    assert written.told == [(0, ""), (1, FULL), (2, "")]
    assert (disk.read("a"), disk.read("b"), disk.read("c")) == (b"1", None, b"1")
    assert (written.counters.refused, written.counters.unsaved) == (1, 0)
    assert caplog.messages == [
        f"a registration was refused, because it could not be kept in data_dir: {FULL}"
    ]


async def test_a_failed_sync_ends_the_process_rather_than_pretend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    written = Written(OsDisk(tmp_path))
    written.writer.write(Persist(1, (WriteFile("services/a", b"1"),)))
    with pytest.raises(StorageFailed, match=r"could not sync .*: Input/output error"):
        await written.writer.run()
    assert written.told == []


async def test_with_no_file_left_to_open_a_registration_waits(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients' connections use up files, and must not end the agent with them."""
    disk.failures, disk.number = 5, errno.EMFILE
    written = Written(disk)
    async with written.running():
        await written.write(Persist(1, (RemoveFile("b"), WriteFile("a", b"1"))))
    assert (written.told, disk.read("a")) == ([(1, "")], b"1")
    assert written.counters.put_off == 5
    assert trio.current_time() >= 5 * PAUSE_S
    assert len(caplog.messages) == 1


async def test_what_nobody_waits_for_is_tried_again_until_there_is_room_and_that_is_said_once(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk.failures = 9  # three files, three times
    written = Written(disk)
    async with written.running():
        await written.write(TTL_STATES, Save((WriteFile("peers", b"2"), RemoveFile("a")), is_synced=False))
        assert (written.counters.left_out, written.counters.unsaved) == (2, 3)
        await until(lambda: written.counters.left_out == 4)
        assert written.counters.unsaved == 3
        disk.failures = 0
        await until(lambda: not written.counters.unsaved)
        await trio.sleep(ROUND_S)
    assert (disk.read("ttl-states"), disk.read("peers")) == (b"1", b"2")
    unsaved, saved = caplog.messages
    assert unsaved == (
        f"what changed since is not saved in data_dir ({FULL}; tried again every 10 s), and a restart finds "
        "what was saved last: ttl-states, peers, a"
    )
    assert saved == "data_dir can be written again; nothing is left unsaved"


async def test_what_was_left_for_later_never_undoes_what_came_after_it(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    disk.failures = 1
    written = Written(disk)
    async with written.running():
        await written.write(
            Save((RemoveFile("services/a"),), is_synced=True), Persist(1, (WriteFile("services/a", b"new"),))
        )
        await trio.sleep(3 * ROUND_S)
    assert written.told == [(1, "")]
    assert disk.read("services/a") == b"new"


async def test_what_a_start_could_not_write_is_written_when_there_is_room(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk.failures = 3
    written = Written(disk)
    OwingDisk(written.owed).write_durably("node-id", b"me")
    assert disk.read("node-id") is None
    async with written.running():
        await until(lambda: disk.read("node-id") == b"me")
    assert "a restart finds what was saved last: node-id" in caplog.text


async def test_after_refusals_it_is_said_once_that_the_disk_can_be_written_again(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk.failures, disk.number = 2, errno.EROFS
    written = Written(disk)
    async with written.running():
        for ticket in range(5):
            await written.write(Persist(ticket, (WriteFile("a", b"1"),)))
    read_only = "read-only file system: mount it writable again"
    assert written.told == [(0, read_only), (1, read_only), (2, ""), (3, ""), (4, "")]
    assert caplog.messages[-1] == "data_dir can be written again; nothing is left unsaved"
    assert len(caplog.messages) == 2


async def test_a_folder_that_was_lost_is_told_of_before_what_was_written_there(
    disk: CrampedDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    renewals = [True, False, True]
    written = Written(disk, lambda: bool(renewals) and renewals.pop(0))
    written.writer.tell_of_loss(lambda: written.told.append((0, "lost")))
    async with written.running():
        await trio.testing.wait_all_tasks_blocked()
        await written.write(Persist(1, (WriteFile("a", b"1"),)))
        await written.write(Persist(2, (WriteFile("a", b"2"),)))
        assert written.told == [(0, "lost"), (1, ""), (2, "")]
        await until(lambda: written.told[3:] == [(0, "lost")])
    assert written.counters.folders_lost == 2
    assert "data_dir was deleted or emptied under the running agent" in caplog.text
