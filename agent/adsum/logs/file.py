"""The log file, set aside by age and by size, and the old ones removed, as Consul's log_rotate_* keys ask.

The current file keeps its name, so that `tail -F` works; those set aside carry the moment, in nanoseconds:
agent.log, agent-1763460000000000000.log. A file that cannot be written loses lines, which are counted; it
never stops the agent, nor its start where the disk is full or mounted read-only.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from io import TextIOWrapper
from pathlib import Path

from adsum.logs.settings import LogSettings
from adsum.logs.stream import LogCounters
from adsum.logs.system_errors import UNWRITABLE
from adsum.now import SECOND

NAME = "adsum.log"  # where only a folder is given
KEEP_NONE = -1  # log_rotate_max_files; 0 keeps all


class LogFile(logging.FileHandler):
    def __init__(self, settings: LogSettings, counters: LogCounters) -> None:
        """Raises OSError; but not for a disk that can be written later."""
        self._path = log_path(settings.file)
        self._settings = settings
        self._counters = counters
        self.problem: OSError | None = None
        super().__init__(self._path, encoding="utf-8", errors="backslashreplace", delay=True)
        self._began_s = time.time()
        try:
            self.stream = self._open()
            # A restart does not make an old file young: its first line would say better, its change must do.
            self._began_s = self._path.stat().st_mtime if self._size() else time.time()
        except OSError as problem:
            if problem.errno not in UNWRITABLE:
                raise
            self.problem = problem

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._is_due(record.created):
                self._set_aside()
            super().emit(record)
        except OSError:
            self._counters.lost_writing += 1  # the next line tries again, from opening the file

    def _open(self) -> TextIOWrapper:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return super()._open()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what is still unwritten was counted when it failed
            super().close()

    def _is_due(self, now_s: float) -> bool:
        age_ns_max, bytes_max = self._settings.rotate_duration_ns, self._settings.rotate_bytes
        is_old = age_ns_max > 0 and now_s - self._began_s >= age_ns_max / SECOND
        return is_old or 0 < bytes_max <= self._size()

    def _size(self) -> int:
        return os.stat(self.stream.fileno()).st_size if self.stream is not None else 0

    def _set_aside(self) -> None:
        self.close()
        self._began_s = time.time()
        self._path.rename(self._path.with_stem(f"{self._path.stem}-{time.time_ns()}"))
        if kept := self._settings.rotate_max_files:
            old = sorted(self._path.parent.glob(f"{self._path.stem}-{'[0-9]' * 19}{self._path.suffix}"))
            for path in old if kept == KEEP_NONE else old[:-kept]:
                path.unlink(missing_ok=True)
        self.stream = self._open()


def log_path(text: str) -> Path:
    return Path(text) / NAME if text.endswith("/") or Path(text).is_dir() else Path(text)
