"""The log as others may follow it while it is written: `/v1/agent/monitor`, and the count of lines by level.

A follower may ask for more than the agent itself writes, so the level at which records are made is the lowest
that anybody wants. Each follower has a bounded queue; one that reads too slowly loses lines and is told how
many. Records may come from any thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import field

import trio

from adsum.logs.lines import NAMES, JsonLines, TextLines, level_name
from adsum.mutable import dataclass

LINES_WAITING_MAX = 512  # Consul's
FOLLOWERS_MAX = 32  # each costs a little for every line


class TooManyFollowers(Exception):
    """Nothing is wrong with the request; try again when one of the others has gone."""


@dataclass(slots=True)
class LogCounters:
    lines: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    lost_writing: int = 0  # standard output, the file or syslog did not take them
    lost_following: int = 0  # a follower was too slow


class LogFollower:
    """Made by `LogStream.follow`, inside trio."""

    def __init__(self, level: int, formatter: logging.Formatter, counters: LogCounters) -> None:
        self.level = level
        self._formatter = formatter
        self._counters = counters
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._came = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def put(self, record: logging.LogRecord) -> None:
        if len(self._waiting) >= LINES_WAITING_MAX:
            self._lost += 1
            self._counters.lost_following += 1
            return
        self._waiting.append(self._formatter.format(record))
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._wake, idempotent=True)

    def _wake(self) -> None:
        self._came.set()

    async def next_lines(self) -> list[str]:
        """All that came since the last call; waits for the first."""
        while not self._waiting:
            await self._came.wait()
            self._came = trio.Event()
        lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if self._lost:
            message = "%d lines were left out here: they came faster than they were read"
            record = logging.LogRecord("agent", logging.WARNING, "", 0, message, (self._lost,), None)
            lines.append(self._formatter.format(record))
            self._lost = 0
        return lines


class LogStream(logging.Handler):
    """One of the root logger's handlers; the others write, this one counts and tells followers."""

    def __init__(self, level: int, counters: LogCounters, writers: tuple[logging.Handler, ...] = ()) -> None:
        super().__init__()
        self.counters = counters
        self._level = level
        self.writers = writers
        self._followers: tuple[LogFollower, ...] = ()
        self.set_level(level)

    def set_level(self, level: int) -> None:
        """Of what the agent writes; followers keep theirs."""
        self._level = level
        for writer in self.writers:
            writer.setLevel(level)
        self._adjust()

    @contextlib.contextmanager
    def follow(self, level: int, *, as_json: bool) -> Iterator[LogFollower]:
        if len(self._followers) >= FOLLOWERS_MAX:
            raise TooManyFollowers(f"{FOLLOWERS_MAX} others follow the log already; try again later")
        formatter = JsonLines() if as_json else TextLines()
        follower = LogFollower(level, formatter, self.counters)
        self._followers = (*self._followers, follower)
        self._adjust()
        try:
            yield follower
        finally:
            self._followers = tuple(each for each in self._followers if each is not follower)
            self._adjust()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= self._level:
            self.counters.lines[level_name(record.levelno)] += 1
        for follower in self._followers:
            if record.levelno >= follower.level:
                follower.put(record)

    def _adjust(self) -> None:
        logging.getLogger().setLevel(min((self._level, *(each.level for each in self._followers))))
