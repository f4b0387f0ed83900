"""How a log line looks: Consul's text form and Consul's JSON form, which people's collectors already read.

    2026-11-18T10:00:00.000Z [INFO]  agent: Synced service: service=web
    {"@level":"info","@message":"…","@module":"agent","@timestamp":"2026-11-18T10:00:00.000000Z"}

What the network says may end up in a message, so nothing in one can begin a new line or move a terminal's
cursor.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

TRACE = 5
LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "ERROR": logging.ERROR,
}
# A service may have a name of a megabyte; a log line may not.
MESSAGE_CHARACTERS_MAX = 4096
NAMES = ("trace", "debug", "info", "warn", "error")  # as JSON lines and metrics spell them


class UnknownLevel(ValueError):
    """The caller's word for a level is none of ours; the message is Consul's."""


def parse_level(word: str) -> int:
    level = LEVELS.get(word.upper())
    if level is None:
        raise UnknownLevel(f"Unknown log level: {word}")
    return level


def level_name(level: int) -> str:
    if level >= logging.ERROR:
        return "error"
    if level >= logging.WARNING:
        return "warn"
    if level >= logging.INFO:
        return "info"
    return "debug" if level >= logging.DEBUG else "trace"


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        label = f"[{level_name(record.levelno).upper()}]"
        stamp = _stamp(record, timespec="milliseconds")
        line = f"{stamp} {label:<7} {record.name}: {_one_line(_message(record))}"
        if record.exc_info:
            # Indented, so that no line of it can pass for a record.
            trace = self.formatException(record.exc_info).splitlines()
            line = "\n    ".join((line, *map(_one_line, trace)))
        return line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "@level": level_name(record.levelno),
            "@message": _message(record),
            "@module": record.name,
            "@timestamp": _stamp(record, timespec="microseconds"),
        }
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return json.dumps(line, separators=(",", ":"))


def _stamp(record: logging.LogRecord, timespec: str) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec=timespec).removesuffix("+00:00") + "Z"


def _message(record: logging.LogRecord) -> str:
    message = record.getMessage()
    missing = len(message) - MESSAGE_CHARACTERS_MAX
    return f"{message[:MESSAGE_CHARACTERS_MAX]}… ({missing} more)" if missing > 0 else message


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
