from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from adsum.raft.batch import Batch, LogChange
from adsum.raft.types import Entry, EntryKind, HardState, SnapshotMeta, Term, Ticket
from adsum.servers.storing import Storing
from adsum.servers.writer import LogWriter
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, OsFolder
from adsum.storage.opening import open_log
from adsum.storage.raft_log import RaftLog
from tests.servers.support import SEGMENT_BYTES, Words


class Driver:
    """Notes what it may promise."""

    def __init__(self) -> None:
        self.promised: list[list[int]] = []
        self.woken = trio.Event()

    def promise(self, group: Sequence[Batch]) -> None:
        self.promised.append([batch.ticket for batch in group])

    def install(self, snapshot: SnapshotMeta, state: Any) -> None:
        raise AssertionError("nothing here installs")

    def wake(self) -> None:
        self.woken.set()

    async def until_woken(self) -> None:
        await self.woken.wait()
        self.woken = trio.Event()


def batch(ticket: int, *, index: int = 0, commit: int = 0) -> Batch:
    """With an entry, or only with the news of a commit."""
    entries = [Entry(index, Term(1), EntryKind.COMMAND, 0, 1, None, b"x")] if index else []
    hard_state = HardState(Term(1), None, commit)
    return Batch(Ticket(ticket), hard_state, None, entries, None, bool(entries), [], [], [], [], None)


@asynccontextmanager
async def storing(path: Path) -> AsyncIterator[tuple[Storing, Driver]]:
    opened = open_log(OsFolder(path), node="a", mint_log_id=lambda: "log", segment_bytes=SEGMENT_BYTES)
    driver = Driver()
    made = Storing(opened.log, Words(), driver)
    made.begin_with(LogWriter())
    yield made, driver
    made.close()


async def test_what_gathers_while_one_group_is_on_its_way_goes_together(tmp_path: Path) -> None:
    async with storing(tmp_path / "raft") as (made, driver):
        made.add(batch(1, index=1))
        assert not made.begin()
        for ticket in (2, 3, 4):
            made.add(batch(ticket, index=ticket))
        assert not made.begin()  # one at a time
        for _ in range(2):
            await driver.until_woken()
            assert made.finish()
            made.begin()
    assert driver.promised == [[1], [2, 3, 4]]
    assert made.counters.groups == 2


async def test_news_of_a_commit_makes_no_trip_of_its_own_and_is_kept_by_an_orderly_end(
    tmp_path: Path,
) -> None:
    async with storing(tmp_path / "raft") as (made, driver):
        made.add(batch(1, index=1))
        made.begin()
        await driver.until_woken()
        made.finish()
        made.add(batch(2, commit=1))
        assert made.begin()  # passed: the core may have more
        assert driver.promised == [[1], [2]]
        assert made.counters.groups == 1
    assert made.raft_log.hard_state.commit == 1


async def test_a_group_that_found_no_room_is_written_later_and_promised_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_room = False
    append = RaftLog.append

    def append_if_there_is_room(log: RaftLog, changes: Sequence[LogChange]) -> None:
        if not has_room:
            raise DiskFull("no space left")
        append(log, changes)

    monkeypatch.setattr(RaftLog, "append", append_if_there_is_room)
    async with storing(tmp_path / "raft") as (made, driver):
        made.add(batch(1, index=1))
        made.begin()
        await driver.until_woken()
        assert not made.finish()
        assert (made.has_room, driver.promised, made.counters.disk_full) == (False, [], 1)
        made.add(batch(2, index=2))
        assert not made.begin()  # not before it is told to try again
        has_room = True
        made.try_again()
        made.begin()
        await driver.until_woken()
        assert made.finish()
    assert driver.promised == [[1, 2]]
    assert [entry.index for entry in made.raft_log.entries(1, 2)] == [1, 2]


async def test_b21_a_group_that_failed_is_never_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_log: RaftLog, _changes: Sequence[LogChange]) -> None:
        raise StorageFailed("could not sync")

    monkeypatch.setattr(RaftLog, "append", fail)
    async with storing(tmp_path / "raft") as (made, driver):
        made.add(batch(1, index=1))
        made.begin()
        await driver.until_woken()
        with pytest.raises(StorageFailed):
            made.finish()
    assert driver.promised == []
