from __future__ import annotations

from pathlib import Path

import pytest
import trio

from adsum.effects import Persist, RemoveFile, WriteFile
from adsum.storage.disk import OsDisk
from adsum.storage.writer import Writer


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
