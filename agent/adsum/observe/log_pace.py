from __future__ import annotations

import logging

INTERVAL_S = 60.0


class OnceAMinute(logging.Filter):
    """For loggers of libraries that repeat themselves for as long as something lasts, traceback and all."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_s = -INTERVAL_S

    def filter(self, record: logging.LogRecord) -> bool:
        if abs(record.created - self._passed_s) < INTERVAL_S:  # the clock may be set
            return False
        self._passed_s = record.created
        return True
