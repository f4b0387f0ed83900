"""The log as the host's syslog takes it, if the operator wants it there."""

from __future__ import annotations

import logging
import logging.handlers

from adsum.logs.stream import LogCounters

SOCKET = "/dev/log"


def facility_of(name: str) -> int | None:
    return logging.handlers.SysLogHandler.facility_names.get(name.lower())


class Syslog(logging.handlers.SysLogHandler):
    def __init__(self, facility: int, counters: LogCounters) -> None:
        super().__init__(SOCKET, facility)
        self._counters = counters

    def handleError(self, _record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        self._counters.lost_writing += 1
