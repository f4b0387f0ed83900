from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from adsum.address import Address
from adsum.gossip.claims import Profile
from adsum.gossip.effects import ConflictSeen, IsolationChanged, Note, Noted
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.journal import file
from adsum.journal.entry import JournalEntry, Recorded
from adsum.journal.file import JournalLimits, JournalQuery
from adsum.journal.journal import CATCH_UP_S, QUEUE_ENTRIES_MAX, Journal
from tests.files import no_file_left
from tests.observe.membership import (
    ALL,
    IDS,
    WALL_MS,
    at,
    close_all,
    failed,
    joined,
    journal,
    profile,
    suspected,
    vetoed,
)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


def shown(entries: tuple[JournalEntry, ...]) -> list[tuple[str, str, str]]:
    return [(entry.node.name, entry.before, entry.after) for entry in entries]


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def put_away(kept: Journal) -> None:
    """As at the end of the process."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_who_reads_gets_what_was_just_recorded_oldest_first() -> None:
    kept = journal()
    kept.record(at(1), joined("n3"))
    kept.record(at(2), suspected("n3", "n1"))
    found = await kept.entries(ALL)
    assert shown(found.entries) == [("n3", "unknown", "alive"), ("n3", "alive", "suspect")]
    assert [(entry.sequence, entry.observer) for entry in found.entries] == [(1, "n1"), (2, "n1")]
    assert (found.is_cut, found.oldest_ms) == (False, WALL_MS + 1)


async def test_each_life_of_the_observer_begins_with_its_start_once_there_is_news(tmp_path: Path) -> None:
    for place in range(2):
        kept = journal(tmp_path / "j", is_fresh=True)
        kept.record(at(2 * place), joined("n3"))
        kept.record(at(2 * place + 1), joined("n4"))
        await put_away(kept)
    assert shown((await journal(tmp_path / "j").entries(ALL)).entries) == [
        *(("n1", "", "started"), ("n3", "unknown", "alive"), ("n4", "unknown", "alive")),
        *(("n1", "", "started"), ("n3", "unknown", "alive"), ("n4", "unknown", "alive")),
    ]


async def test_a_life_is_dated_by_its_start_and_one_that_met_nobody_tells_of_it_when_asked() -> None:
    kept = journal(is_fresh=True)
    (start,) = (await kept.entries(ALL)).entries
    assert (start.wall_ms, start.after) == (WALL_MS, "started")
    kept.record(at(5_000), joined("n3"))
    assert [entry.wall_ms - WALL_MS for entry in (await kept.entries(ALL)).entries] == [0, 5_000]


async def test_grounds_come_back_as_they_were_recorded() -> None:
    kept = journal()
    kept.record(at(1), failed("n3", "n1", "n4"))
    (entry,) = (await kept.entries(ALL)).entries
    assert [each.name for each in entry.grounds.accusers] == ["n1", "n4"]
    assert entry.grounds.legs == ("direct", "indirect", "stream")
    assert (entry.grounds.phi, entry.grounds.parts.accusation) == (2.9, 6.1)


async def test_the_file_survives_a_restart_and_counts_on(tmp_path: Path) -> None:
    path = tmp_path / "membership.sqlite"
    first = journal(path)
    first.record(at(1), joined("n3"))
    await put_away(first)
    second = journal(path)
    second.record(at(2), joined("n4"))
    found = await second.entries(ALL)
    assert [(entry.sequence, entry.node.name) for entry in found.entries] == [(1, "n3"), (2, "n4")]


async def test_what_gathered_is_written_when_the_agent_ends(tmp_path: Path) -> None:
    path = tmp_path / "membership.sqlite"
    kept = journal(path)
    for place in range(500):
        kept.record(at(place), joined("n3"))
    await put_away(kept)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (500,)
    connection.close()


async def test_what_gathers_is_written_without_anybody_reading(tmp_path: Path) -> None:
    kept = journal(tmp_path / "j")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        kept.record(at(1), joined("n3"))
        kept.record(at(2), joined("n4"))
        with trio.fail_after(30):
            while kept._queue:  # noqa: ASYNC110 - the thread that empties it has no event to set
                await trio.sleep(0.01)
            async with kept._one_at_a_time:  # the thread is through
                assert kept._file._entries == 2
        nursery.cancel_scope.cancel()


async def test_entries_are_chosen_by_time_and_node(tmp_path: Path) -> None:
    kept = journal(tmp_path / "j")
    for place, name in enumerate(["n2", "n3", "n4", "n3"]):
        kept.record(at(place * 1_000), joined(name))

    async def sequences(wanted: JournalQuery) -> list[int]:
        return [entry.sequence for entry in (await kept.entries(wanted)).entries]

    assert await sequences(JournalQuery(limit=9, since_ms=WALL_MS + 1_000, until_ms=WALL_MS + 3_000)) == [
        2,
        3,
    ]
    assert await sequences(JournalQuery(limit=9, nodes=("N3",))) == [2, 4]
    assert await sequences(JournalQuery(limit=9, nodes=(str(IDS["n4"]),))) == [3]
    assert await sequences(JournalQuery(limit=9, nodes=("n2", str(IDS["n4"])))) == [1, 3]
    assert await sequences(JournalQuery(limit=9, nodes=("nobody",))) == []


async def test_a_limit_keeps_the_newest_and_says_that_there_are_more() -> None:
    kept = journal()
    for place in range(5):
        kept.record(at(place), joined("n3"))
    found = await kept.entries(JournalQuery(limit=2))
    assert [entry.sequence for entry in found.entries] == [4, 5]
    assert found.is_cut
    assert not (await kept.entries(JournalQuery(limit=5))).is_cut


async def test_who_follows_misses_nothing_however_much_came() -> None:
    kept = journal()
    for place in range(5):
        kept.record(at(place), joined("n3"))
    found = await kept.entries(JournalQuery(limit=2, after=1))
    assert [entry.sequence for entry in found.entries] == [2, 3]


async def test_isolation_is_told_with_any_node_when_asked_for() -> None:
    kept = journal()
    kept.record(at(1), joined("n3"))
    kept.record(at(2), IsolationChanged(is_isolated=True))
    kept.record(at(3), joined("n4"))
    found = await kept.entries(JournalQuery(limit=9, nodes=("n3",), with_isolation=True))
    assert [entry.sequence for entry in found.entries] == [1, 2]


async def test_oldest_entries_go_first_when_there_are_too_many(tmp_path: Path) -> None:
    kept = journal(tmp_path / "j", JournalLimits(entries_max=3))
    for place in range(5):
        kept.record(at(place), joined("n3"))
    assert [entry.sequence for entry in (await kept.entries(ALL)).entries] == [3, 4, 5]
    kept.record(at(9), joined("n4"))
    assert [entry.sequence for entry in (await kept.entries(ALL)).entries] == [4, 5, 6]
    assert kept.counters.forgotten == 3


async def test_bytes_are_bounded_and_so_is_the_file(tmp_path: Path) -> None:
    path, bytes_max = tmp_path / "j", 512 * 1024
    kept = journal(path, JournalLimits(bytes_max=bytes_max))
    for _batch in range(10):
        for place in range(1_000):
            kept.record(at(place), failed("n3", "n1", "n2", "n4"))
        await kept.entries(JournalQuery(limit=1))
    assert kept.counters.forgotten > 5_000
    assert kept._file._bytes <= bytes_max
    await put_away(kept)
    assert sum(each.stat().st_size for each in files_in(tmp_path)) < 2 * bytes_max


async def test_limits_hold_for_what_a_former_life_left(tmp_path: Path) -> None:
    for place in range(4):
        kept = journal(tmp_path / "j", JournalLimits(entries_max=2))
        kept.record(at(place), joined("n3"))
        await put_away(kept)
    assert [entry.sequence for entry in (await journal(tmp_path / "j").entries(ALL)).entries] == [3, 4]


async def test_a_full_queue_drops_the_newest_and_counts_them() -> None:
    kept = journal()
    for place in range(QUEUE_ENTRIES_MAX + 3):
        kept.record(at(place), joined("n3"))
    assert (kept.counters.recorded, kept.counters.dropped) == (QUEUE_ENTRIES_MAX, 3)


async def test_a_veto_every_second_is_one_entry_a_minute_with_a_count() -> None:
    kept = journal()
    for second in range(61):
        kept.record(at(second * 1_000), vetoed("n3"))
    kept.record(at(61_000), vetoed("n4"))
    found = (await kept.entries(ALL)).entries
    assert [(entry.node.name, entry.repeats) for entry in found] == [("n3", 0), ("n3", 59), ("n4", 0)]


async def test_a_conflict_that_is_reported_again_and_again_is_one_entry_a_minute() -> None:
    kept = journal()
    for second in range(61):
        kept.record(at(second * 1_000), ConflictSeen(profile("n3"), profile("n4")))
    kept.record(at(61_000), ConflictSeen(profile("n3"), profile("n2")))
    found = (await kept.entries(ALL)).entries
    assert [(entry.other and entry.other.name, entry.repeats) for entry in found] == [
        *(("n4", 0), ("n4", 59), ("n2", 0)),
    ]


@pytest.mark.parametrize(
    "told",
    [
        lambda made_up: ConflictSeen(profile("n3"), made_up),
        lambda made_up: Noted(Note.UNANSWERED, made_up, Evidence(ChangeCause.JOINED)),
        lambda made_up: Noted(Note.ACCUSED_ME, made_up, Evidence(ChangeCause.SUSPECTED)),
    ],
    ids=["conflicts", "newcomers", "accusations"],
)
async def test_members_who_are_made_up_do_not_push_out_what_happened(
    told: Callable[[Profile], Recorded],
) -> None:
    kept = journal()
    kept.record(at(0), joined("n3"))
    for number in range(20_000):
        kept.record(at(number), told(Profile(number.to_bytes(16), f"x{number}", Address("192.0.2.1", 8301))))
    found = (await kept.entries(JournalQuery(limit=5_000))).entries
    assert shown(found)[0] == ("n3", "unknown", "alive")
    assert (len(found), kept.counters.rationed) == (1 + 1_024, 18_976)


@pytest.mark.parametrize(
    "content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4_096], ids=["text", "garbage"]
)
async def test_a_damaged_file_is_set_aside_with_a_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "membership.sqlite"
    path.write_bytes(content)
    kept = journal(path)
    kept.record(at(1), joined("n3"))
    assert shown((await kept.entries(ALL)).entries) == [("n3", "unknown", "alive")]
    assert (tmp_path / "membership.sqlite.damaged").read_bytes() == content
    assert kept.counters.set_aside == 1
    assert "set aside as" in caplog.text
    await put_away(kept)
    assert len((await journal(path).entries(ALL)).entries) == 1


async def test_a_page_that_is_damaged_later_costs_the_old_entries_and_not_the_new_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "membership.sqlite"
    kept = journal(path)
    for place in range(2_000):
        kept.record(at(place), failed("n3", "n1", "n2"))
    await put_away(kept)
    with path.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * (path.stat().st_size - 5 * 4_096))
    second = journal(path)
    second.record(at(9_000), joined("n4"))
    assert shown((await second.entries(ALL)).entries) == [("n4", "unknown", "alive")]
    assert second.counters.set_aside == 1


async def test_damage_that_is_met_while_writing_costs_no_new_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "membership.sqlite"
    kept = journal(path)
    for place in range(2_000):
        kept.record(at(place), failed("n3", "n1", "n2"))
    await kept.entries(JournalQuery(limit=1))
    assert kept._file._opened is not None
    for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA shrink_memory"):
        kept._file._opened.execute(statement).fetchall()
    with path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * (path.stat().st_size - 4_096))
    kept.record(at(9_000), joined("n4"))
    assert shown((await kept.entries(ALL)).entries) == [("n4", "unknown", "alive")]
    assert (kept.counters.set_aside, kept.counters.lost_writing) == (1, 0)


async def test_a_journal_of_a_later_version_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "membership.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    kept = journal(path)
    kept.record(at(1), joined("n3"))
    assert len((await kept.entries(ALL)).entries) == 1
    assert "a later version of Adsum wrote it, in form 99" in caplog.text


async def test_another_program_s_database_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "membership.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE entries (colour TEXT)")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    kept = journal(path)
    kept.record(at(1), joined("n3"))
    assert len((await kept.entries(ALL)).entries) == 1
    assert kept.counters.set_aside == 1


async def test_a_file_that_cannot_be_opened_is_replaced_by_memory_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "no such folder"
    kept = journal(folder / "membership.sqlite")
    kept.record(at(1), joined("n3"))
    assert len((await kept.entries(ALL)).entries) == 1
    assert "kept in memory, and lost at the next start unless the file can be opened before" in caplog.text
    assert files_in(tmp_path) == []
    folder.mkdir()
    kept.record(at(2), joined("n4"))
    await kept.entries(ALL)
    kept._file.close()
    again = journal(folder / "membership.sqlite")
    assert [name for name, _, _ in shown((await again.entries(ALL)).entries)] == ["n3", "n4"]


async def test_a_file_that_was_deleted_is_written_anew_with_all_that_it_held(tmp_path: Path) -> None:
    kept = journal(tmp_path / "one" / "j")
    (tmp_path / "one").mkdir()
    kept.record(at(1), joined("n3"))
    await kept.entries(ALL)
    shutil.rmtree(tmp_path / "one")
    kept.record(at(2), joined("n4"))
    await kept.entries(ALL)
    (tmp_path / "one").mkdir()
    kept.file_is_gone()
    kept.record(at(3), failed("n3", "n1", "n2"))
    await kept.entries(ALL)
    kept._file.close()
    again = journal(tmp_path / "one" / "j")
    assert shown((await again.entries(ALL)).entries) == [
        ("n3", "unknown", "alive"),
        ("n4", "unknown", "alive"),
        ("n3", "suspect", "failed"),
    ]


async def test_a_second_agent_on_one_folder_harms_neither(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "membership.sqlite"
    first, second = journal(path), journal(path)
    first.record(at(1), joined("n3"))
    await first.entries(ALL)
    second.record(at(2), joined("n4"))
    assert shown((await second.entries(ALL)).entries) == [("n4", "unknown", "alive")]
    assert shown((await first.entries(ALL)).entries) == [("n3", "unknown", "alive")]
    assert "locked" in caplog.text


async def test_entries_that_the_disk_refuses_wait_and_past_a_number_the_oldest_are_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "WAITING_MAX", 60)
    kept = journal(tmp_path / "j")
    kept.record(at(1), joined("n3"))
    await kept.entries(ALL)
    assert kept._file._opened is not None
    kept._file._opened.execute("PRAGMA max_page_count = 3")  # a full disk, as SQLite sees it
    for place in range(100):
        kept.record(at(place), joined("n4"))
    assert shown((await kept.entries(ALL)).entries) == [("n3", "unknown", "alive")]
    assert kept.counters.lost_writing == 40
    assert "wait to be written to the journal: database or disk is full" in caplog.text
    kept._file._opened.execute("PRAGMA max_page_count = 10000")
    kept.record(at(200), joined("n4"))
    assert len((await kept.entries(ALL)).entries) == 62


async def test_what_the_disk_refused_is_written_when_there_is_room_though_nothing_happens(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.02  # so that no time passes while the thread writes
    kept = journal(tmp_path / "j")
    kept.record(at(1), joined("n3"))
    await kept.entries(ALL)
    assert kept._file._opened is not None
    kept._file._opened.execute("PRAGMA max_page_count = 3")
    for place in range(100):
        kept.record(at(place), joined("n4"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        await trio.sleep(3 * CATCH_UP_S)
        assert kept._file.is_behind
        kept._file._opened.execute("PRAGMA max_page_count = 10000")
        await trio.sleep(3 * CATCH_UP_S)
        assert not kept._file.is_behind
        nursery.cancel_scope.cancel()
    assert len((await journal(tmp_path / "j").entries(ALL)).entries) == 101


async def test_an_entry_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    kept = journal(path)
    kept.record(at(1), joined("n3"))
    kept.record(at(2), joined("n4"))
    await put_away(kept)
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE entries SET body = \'{"kind":"of another time"}\' WHERE sequence = 1')
    connection.close()
    again = journal(path)
    assert shown((await again.entries(ALL)).entries) == [("n4", "unknown", "alive")]
    assert again.counters.unreadable == 1


async def test_watchers_are_woken_until_they_go() -> None:
    kept, woken = journal(), list[str]()

    def wake() -> None:
        woken.append("woken")

    kept.watch(wake)
    kept.record(at(1), joined("n3"))
    kept.unwatch(wake)
    kept.record(at(2), joined("n4"))
    assert woken == ["woken"]


async def test_the_file_is_the_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "membership.sqlite"
    kept = journal(path)
    kept.record(at(1), joined("n3"))
    await kept.entries(ALL)
    assert {each.stat().st_mode & 0o777 for each in files_in(tmp_path)} == {0o600}


def test_sqlite_is_loaded_when_there_is_something_to_keep_and_not_before() -> None:
    program = (
        "import sys, trio, adsum.journal.journal\n"
        "assert 'sqlite3' not in sys.modules, 'sqlite3 was loaded at import'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_a_journal_of_nothing_makes_no_file(tmp_path: Path) -> None:
    kept = Journal(tmp_path / "j", profile("n1"), lambda _short: "", WALL_MS)
    await put_away(kept)
    assert files_in(tmp_path) == []


async def test_without_a_file_entries_wait_and_reach_the_disk_with_the_next_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = journal(tmp_path / "journal")
    with no_file_left():
        kept.record(at(1), joined("n2"))
        await put_away(kept)
    assert kept.counters.lost_writing == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "changes of membership wait to be written to the journal: too many open files: raise"
    )
    kept.record(at(2), joined("n3"))
    await put_away(kept)
    assert [entry.node.name for entry in (await journal(tmp_path / "journal").entries(ALL)).entries] == [
        "n2",
        "n3",
    ]
