"""The journal's entries in one SQLite file, bounded by number and by size; in memory where there is no path.

Everything here blocks and belongs into one worker thread at a time. History is not worth an agent: a damaged
file is set aside, one that cannot be opened is replaced by memory until it can, entries that cannot be
written wait, and beyond a number are lost and counted. None of it is raised: `is_behind` says that there is
something to `catch_up` with.

The write-ahead log without a sync per batch keeps the file whole through a power loss, which may cost the
last entries. One process at a time: the exclusive lock also does without shared memory, so that the file may
lie on a network disk. The oldest entries are dropped first, and their pages used again, so the file stays
about as large as its limit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from adsum import frozen, mutable
from adsum.journal.entry import JournalEntry
from adsum.logs.system_errors import is_shortage
from adsum.named import NamedTuple
from adsum.storage.disk import DAMAGED_SUFFIX

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION = 1
TABLE = (
    "CREATE TABLE entries (sequence INTEGER PRIMARY KEY AUTOINCREMENT, wall_ms INTEGER NOT NULL,"
    " kind TEXT NOT NULL, node_id TEXT NOT NULL, node TEXT NOT NULL, other_id TEXT NOT NULL,"
    " other TEXT NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL)"
)
SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 256",  # pages: a log of 1 MiB
    "PRAGMA journal_size_limit = 1048576",
    "PRAGMA cache_size = -512",  # KiB, a quarter of SQLite's own
)
INSERT = (
    "INSERT INTO entries (wall_ms, kind, node_id, node, other_id, other, size, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
FIND = (
    "SELECT sequence, body FROM entries WHERE sequence > :after AND wall_ms >= :since AND wall_ms < :until"
    " AND (:everybody OR node IN (:one, :two) OR node_id IN (:one, :two) OR other IN (:one, :two)"
    " OR other_id IN (:one, :two) OR (kind = 'isolation' AND :isolation)) ORDER BY sequence "
)
TOTALS = "SELECT count(*), coalesce(sum(size), 0) FROM entries"
NEWEST_FIRST, OLDEST_FIRST = FIND + "DESC LIMIT :limit", FIND + "ASC LIMIT :limit"
ALL = "SELECT wall_ms, kind, node_id, node, other_id, other, size, body FROM entries ORDER BY sequence"
SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB = 1, 11, 26
NOT_OURS = (SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB)  # the first: tables, but not these
FILES = ("", "-wal", "-shm", "-journal")
ROW_BYTES = 160  # what an entry takes beside its body: two ids, two names, numbers
WALL_MS_MAX = 2**62

log = logging.getLogger("agent.journal")


@frozen.dataclass(frozen=True, slots=True)
class JournalLimits:
    entries_max: int = 50_000  # fourteen hours of a member that is killed and restarted every 5 s
    bytes_max: int = 16 * 1024 * 1024


IN_MEMORY = JournalLimits(entries_max=5_000, bytes_max=2 * 1024 * 1024)
WAITING_MAX = 5_000  # entries for a disk that refuses


@mutable.dataclass(slots=True)
class JournalCounters:
    recorded: int = 0
    dropped: int = 0  # because the queue before the disk was full
    rationed: int = 0  # conflicts and newcomers that do not answer, of which there were too many
    lost_writing: int = 0  # because the disk refused for too long
    forgotten: int = 0  # the oldest, to stay within the limits
    unreadable: int = 0  # entries that a damaged place in the file, or a later version, made illegible
    set_aside: int = 0  # files


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class JournalQuery:
    limit: int
    since_ms: int = 0
    until_ms: int = WALL_MS_MAX
    after: int | None = None  # a sequence: what came later, the earliest first if it is more than the limit
    nodes: tuple[str, ...] = ()  # names or ids of one node, at most two; none: everybody
    with_isolation: bool = False  # the observer's own, which bear on what it said about others


@frozen.dataclass(frozen=True, slots=True)
class FoundEntries:
    entries: tuple[JournalEntry, ...]  # oldest first
    is_cut: bool  # there are more like these
    oldest_ms: int  # of all that are held; 0 when there is none


class _Row(NamedTuple):
    """As in the schema, but for the sequence, which SQLite counts."""

    wall_ms: int
    kind: str
    node_id: str
    node: str  # without regard to case, as names are
    other_id: str
    other: str
    size: int
    body: bytes


class _Damaged(Exception):
    """The file is not a journal of ours; nothing was changed."""


class JournalFile:
    def __init__(
        self, path: Path | None, limits: JournalLimits, counters: JournalCounters, observer: str
    ) -> None:
        self.path = path
        self._limits = limits
        self._counters = counters
        self._observer = observer
        self._opened: sqlite3.Connection | None = None
        self._is_in_memory = False  # until the file can be opened
        self._waiting: list[_Row] = []  # that the disk refused, the newest
        self._entries = 0
        self._bytes = 0

    def append(self, entries: Sequence[JournalEntry]) -> Exception | None:
        """What went wrong, if they are not written yet."""
        return self._append([*self._waiting, *map(_row, entries)])

    @property
    def is_behind(self) -> bool:
        return self._is_in_memory or bool(self._waiting)

    def catch_up(self) -> None:
        """With the file, when it can be written again."""
        if self._is_in_memory:
            self._return_to_file()
        if self._waiting:
            self._append(self._waiting)

    def file_is_gone(self) -> None:
        """Deleted under us: what it held can still be read, and goes into a new one."""
        if self._opened is None or self.path is None or self._is_in_memory:
            return
        rows = self._rows(self._opened)
        # Before there is a new one: SQLite removes its log by name when it closes.
        self.close()
        self._append([*rows, *self._waiting])

    def find(self, wanted: JournalQuery) -> FoundEntries:
        import sqlite3

        try:
            return self._find(self._connection(), wanted)
        except sqlite3.Error as problem:
            log.error("the journal cannot be read: %s", problem)
            if _is_damage(problem):
                self._begin_anew(str(problem))
            return FoundEntries((), is_cut=False, oldest_ms=0)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # Writing.

    def _append(self, rows: list[_Row]) -> Exception | None:
        problem = self._try_append(rows)
        if problem is not None and _is_damage(problem):
            self._begin_anew(str(problem))
            problem = self._try_append(rows)
        self._waiting = rows[-WAITING_MAX:] if problem is not None else []
        if problem is not None:
            self._counters.lost_writing += len(rows) - len(self._waiting)
        return problem

    def _try_append(self, rows: Sequence[_Row]) -> Exception | None:
        try:
            import sqlite3

            connection = self._connection()
        except (OSError, ImportError) as shortage:  # no file to open it, or to load what does
            return shortage
        try:
            with connection:
                connection.executemany(INSERT, rows)
                forgotten = self._forget(connection, rows)
        except sqlite3.Error as problem:
            return problem
        self._counters.forgotten += forgotten
        return None

    def _forget(self, connection: sqlite3.Connection, rows: Sequence[_Row]) -> int:
        """The oldest, until what is left is within the limits."""
        entries = self._entries + len(rows)
        size = self._bytes + sum(row.size for row in rows)
        last, forgotten = 0, 0
        limits = IN_MEMORY if self._is_in_memory else self._limits
        if entries > limits.entries_max or size > limits.bytes_max:
            for sequence, taken in connection.execute("SELECT sequence, size FROM entries ORDER BY sequence"):
                if entries <= limits.entries_max and size <= limits.bytes_max:
                    break
                last, forgotten = sequence, forgotten + 1
                entries, size = entries - 1, size - taken
            connection.execute("DELETE FROM entries WHERE sequence <= ?", (last,))
        self._entries, self._bytes = entries, size
        return forgotten

    # Reading.

    def _find(self, connection: sqlite3.Connection, wanted: JournalQuery) -> FoundEntries:
        names = [name.casefold() for name in wanted.nodes]
        found = connection.execute(
            NEWEST_FIRST if wanted.after is None else OLDEST_FIRST,
            {
                "after": wanted.after or 0,
                "since": wanted.since_ms,
                "until": wanted.until_ms,
                "everybody": not names,
                "one": names[0] if names else "",
                "two": names[-1] if names else "",
                "isolation": wanted.with_isolation,
                "limit": wanted.limit + 1,
            },
        ).fetchall()
        oldest = connection.execute("SELECT wall_ms FROM entries ORDER BY sequence LIMIT 1").fetchone()
        chosen = found[: wanted.limit]
        if wanted.after is None:
            chosen.reverse()
        entries = [entry for row in chosen if (entry := self._entry(*row)) is not None]
        return FoundEntries(
            tuple(entries), is_cut=len(found) > wanted.limit, oldest_ms=oldest[0] if oldest else 0
        )

    def _entry(self, sequence: int, body: bytes) -> JournalEntry | None:
        try:
            entry = msgspec.json.decode(body, type=JournalEntry)
        except msgspec.MsgspecError:
            self._counters.unreadable += 1
            return None
        return msgspec.structs.replace(entry, sequence=sequence, observer=self._observer)

    # Opening.

    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._open()
            self._entries, self._bytes = self._opened.execute(TOTALS).fetchone()
        return self._opened

    def _open(self) -> sqlite3.Connection:
        """Whatever is wrong with the file, something that takes entries. Raises OSError and ImportError for
        want of files only."""
        import sqlite3

        if self.path is None:
            return _opened(":memory:")
        try:
            return _opened_file(self.path)
        except (sqlite3.Error, OSError, _Damaged) as problem:
            if not _is_damage(problem, NOT_OURS):
                return self._in_memory(problem)
            self._set_aside(str(problem))
        try:
            return _opened_file(self.path)
        except (sqlite3.Error, OSError, _Damaged) as problem:
            return self._in_memory(problem)

    def _in_memory(self, problem: Exception) -> sqlite3.Connection:
        if is_shortage(problem):
            raise problem  # it passes, and the next entries try again
        log.error(
            "the journal %s cannot be opened (%s): new entries are kept in memory, and lost at the next "
            "start unless the file can be opened before",
            self.path,
            problem,
        )
        self._is_in_memory = True
        return _opened(":memory:")

    def _return_to_file(self) -> None:
        import sqlite3

        assert self.path is not None
        assert self._opened is not None
        rows = self._rows(self._opened)
        try:
            found = _opened_file(self.path)
        except (sqlite3.Error, OSError, _Damaged):
            return
        self.close()
        self._opened, self._is_in_memory = found, False
        self._entries, self._bytes = found.execute(TOTALS).fetchone()
        log.warning("the journal is kept in %s again", self.path)
        self._append([*rows, *self._waiting])

    def _rows(self, opened: sqlite3.Connection) -> list[_Row]:
        import sqlite3

        try:
            return [_Row(*row) for row in opened.execute(ALL)]
        except sqlite3.Error as problem:
            log.error("the journal cannot be read: %s", problem)
            return []

    def _begin_anew(self, reason: str) -> None:
        self.close()
        if self.path is not None:
            self._set_aside(reason)

    def _set_aside(self, reason: str) -> None:
        path = str(self.path)
        aside = path + DAMAGED_SUFFIX
        for each in FILES:
            try:
                os.replace(path + each, aside + each)
            except FileNotFoundError:
                continue
            except OSError as problem:
                log.error("%s cannot be set aside: %s", path + each, problem.strerror)
        self._counters.set_aside += 1
        log.error(
            "the journal of membership changes is damaged (%s); it was set aside as %s, and a new one begun",
            reason,
            aside,
        )


def _opened_file(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would let everybody read it
    return _opened(str(path))


def _opened(name: str) -> sqlite3.Connection:
    import sqlite3

    connection = sqlite3.connect(name, timeout=0, check_same_thread=False)  # one thread at a time, not one
    try:
        for setting in SETTINGS:
            connection.execute(setting)
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise _Damaged(f"a later version of Adsum wrote it, in form {version}")
    if not version:
        with connection:
            connection.execute("BEGIN")
            connection.execute(TABLE)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    told = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if told != "ok":
        raise _Damaged(told)
    connection.execute(TOTALS).fetchone()


def _is_damage(problem: Exception, codes: tuple[int, ...] = (SQLITE_CORRUPT, SQLITE_NOTADB)) -> bool:
    code = getattr(problem, "sqlite_errorcode", None)
    return isinstance(problem, _Damaged) or (code is not None and code & 0xFF in codes)


def _row(entry: JournalEntry) -> _Row:
    body = msgspec.json.encode(entry)
    other_id, other = (entry.other.id, entry.other.name.casefold()) if entry.other else ("", "")
    node, size = entry.node, len(body) + ROW_BYTES
    return _Row(entry.wall_ms, entry.kind.value, node.id, node.name.casefold(), other_id, other, size, body)
