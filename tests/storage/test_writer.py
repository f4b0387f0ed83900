from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from adsum.effects import Persist, RemoveFile, WriteFile
from adsum.storage.disk import OsDisk
from adsum.storage.writer import PAUSE_S, Writer, WriterCounters


async def test_writes_are_done_in_order_and_told_when_they_are_on_disk(tmp_path: Path) -> None:
    disk, done = OsDisk(tmp_path), list[int]()
    writer = Writer(disk, done.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.write(Persist(1, (WriteFile("a", b"1"),), is_synced=True))
        writer.write(Persist(2, (WriteFile("a", b"2"), WriteFile("b", b"3")), is_synced=False))
        writer.write(Persist(3, (RemoveFile("b"),), is_synced=True))
        await writer.until_idle()
        nursery.cancel_scope.cancel()
    assert done == [1, 2, 3]
    assert (disk.read("a"), disk.read("b")) == (b"2", None)


async def test_a_failed_write_ends_the_process_rather_than_pretend(tmp_path: Path) -> None:
    (tmp_path / "services").write_text("a file where a folder must be")
    done = list[int]()
    writer = Writer(OsDisk(tmp_path), done.append)
    writer.write(Persist(1, (WriteFile("services/a", b"1"),), is_synced=True))
    with pytest.raises(OSError, match="services"):
        await writer.run()
    assert done == []


class CrampedDisk(OsDisk):
    """Opening a file fails as long as `failures` says so."""

    failures = 0
    number = errno.EMFILE

    def write_durably(self, path: str, content: bytes) -> None:
        self._open()
        super().write_durably(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._open()
        super().replace(path, content)

    def _open(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(self.number, "cramped")


async def test_with_no_file_left_to_open_a_registration_waits(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients' connections use up files, and must not end the agent with them."""
    disk, done, counters = CrampedDisk(tmp_path), list[int](), WriterCounters()
    disk.failures = 5
    writer = Writer(disk, done.append, counters)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.write(Persist(1, (RemoveFile("b"), WriteFile("a", b"1")), is_synced=True))
        await writer.until_idle()
        nursery.cancel_scope.cancel()
    assert (done, disk.read("a")) == ([1], b"1")
    assert counters.put_off == 5
    assert trio.current_time() >= 5 * PAUSE_S
    assert len(caplog.messages) == 1


async def test_a_full_disk_costs_ttl_states_and_not_the_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk, done, counters = CrampedDisk(tmp_path), list[int](), WriterCounters()
    disk.failures, disk.number = 3, errno.ENOSPC
    writer = Writer(disk, done.append, counters)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        for ticket in range(4):
            writer.write(Persist(ticket, (WriteFile("ttl-states", b"%d" % ticket),), is_synced=False))
        await writer.until_idle()
        nursery.cancel_scope.cancel()
    assert (done, disk.read("ttl-states")) == ([0, 1, 2, 3], b"3")
    assert counters.left_out == 3
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
