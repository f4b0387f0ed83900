"""Where the agent's log goes: standard output always, a file and syslog if asked, and whoever follows it."""

from __future__ import annotations

import logging
import sys

from adsum.logs.file import LogFile
from adsum.logs.lines import JsonLines, TextLines, parse_level
from adsum.logs.settings import LogSettings
from adsum.logs.stream import LogCounters, LogStream
from adsum.logs.system_errors import told

# Libraries that have much to say below WARN about every frame they see.
TALKATIVE = ("hpack", "h2")
SYSLOG_SOCKET = "/dev/log"
NOT_WRITTEN = "the log file %s cannot be written yet: %s; lines until then are on standard output alone"

log = logging.getLogger("agent")


class CannotLog(OSError):
    """The operator's log settings cannot be used on this host; nothing was started."""


def start(settings: LogSettings) -> LogStream:
    """Takes over the root logger. Raises `CannotLog` with a sentence, or `UnknownLevel`."""
    counters = LogCounters()
    formatter = JsonLines() if settings.is_json else TextLines()
    writers = _writers(settings, counters)

    def count_lost(record: logging.LogRecord) -> None:  # noqa: ARG001 (the name is logging's)
        counters.lost_writing += 1

    for writer in writers:
        writer.setFormatter(formatter)
        writer.handleError = count_lost  # type: ignore[method-assign]  # logging's own prints a trace
    stream = LogStream(parse_level(settings.level), counters, writers)
    root = logging.getLogger()
    for handler in (*writers, stream):
        root.addHandler(handler)
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for writer in writers:
        if isinstance(writer, LogFile) and writer.problem is not None:
            log.warning(NOT_WRITTEN, settings.file, told(writer.problem))
    return stream


def _writers(settings: LogSettings, counters: LogCounters) -> tuple[logging.Handler, ...]:
    writers: list[logging.Handler] = [logging.StreamHandler(sys.stdout)]
    if settings.file:
        try:
            writers.append(LogFile(settings, counters))
        except OSError as problem:
            raise CannotLog(f"the log file {settings.file} cannot be written: {problem.strerror}") from None
    if settings.has_syslog:
        from logging.handlers import SysLogHandler  # few hosts want it, and it loads slowly

        facility = SysLogHandler.facility_names.get(settings.syslog_facility.lower())
        if facility is None:
            name = settings.syslog_facility
            raise CannotLog(f"syslog_facility {name} is not one of syslog's, such as LOCAL0")
        try:
            writers.append(SysLogHandler(SYSLOG_SOCKET, facility))
        except OSError as problem:
            why = f"{SYSLOG_SOCKET} cannot be used: {problem.strerror}"
            raise CannotLog(f"enable_syslog is set, but {why}") from None
    return tuple(writers)
