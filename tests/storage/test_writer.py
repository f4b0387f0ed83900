from __future__ import annotations

from pathlib import Path

import pytest
import trio

from adsum.effects import Persist, RemoveFile, WriteFile
from adsum.storage.disk import OsDisk
from adsum.storage.writer import Writer


class Done:
    """Collects tickets and tells when a number of them is there."""

    def __init__(self) -> None:
        self.tickets: list[int] = []
        self._came = trio.Event()

    def __call__(self, ticket: int) -> None:
        self.tickets.append(ticket)
        self._came.set()

    async def wait_for(self, count: int) -> None:
        with trio.fail_after(10):
            while len(self.tickets) < count:
                await self._came.wait()
                self._came = trio.Event()


async def test_writes_are_done_in_order_and_told_when_they_are_on_disk(tmp_path: Path) -> None:
    disk, done = OsDisk(tmp_path), Done()
    writer = Writer(disk, done)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.write(Persist(1, (WriteFile("a", b"1"),), is_synced=True))
        writer.write(Persist(2, (WriteFile("a", b"2"), WriteFile("b", b"3")), is_synced=False))
        writer.write(Persist(3, (RemoveFile("b"),), is_synced=True))
        await done.wait_for(3)
        assert writer.is_idle
        nursery.cancel_scope.cancel()
    assert done.tickets == [1, 2, 3]
    assert (disk.read("a"), disk.read("b")) == (b"2", None)


async def test_a_failed_write_ends_the_process_rather_than_pretend(tmp_path: Path) -> None:
    (tmp_path / "services").write_text("a file where a folder must be")
    done = Done()
    writer = Writer(OsDisk(tmp_path), done)
    writer.write(Persist(1, (WriteFile("services/a", b"1"),), is_synced=True))
    with pytest.raises(OSError, match="services"):
        await writer.run()
    assert done.tickets == []
