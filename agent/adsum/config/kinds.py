"""The types a configuration value can have, and how each is read from what a file or a flag says.

Files are read more strictly than the HTTP API: a port in quotes or a duration without a unit is a slip of
somebody who is there to mend it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

from adsum.durations import BadDuration, parse_duration

DISABLED = -1
PORT_MIN, PORT_MAX = DISABLED, 65535
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


class KeyKind(enum.Enum):
    BOOL = "bool"
    INTEGER = "integer"
    NUMBER = "number"
    PORT = "port"
    TEXT = "text"
    DURATION = "duration"
    TEXTS = "texts"
    TEXT_MAP = "map"
    DURATION_MAP = "durations"
    OBJECTS = "objects"
    OPAQUE = "opaque"

    @property
    def is_list(self) -> bool:
        return self in {KeyKind.TEXTS, KeyKind.OBJECTS}

    @property
    def is_map(self) -> bool:
        return self in {KeyKind.TEXT_MAP, KeyKind.DURATION_MAP}

    @property
    def element(self) -> KeyKind:
        """The kind of one value of a list or a map."""
        return ELEMENTS.get(self, self)


ELEMENTS = {
    KeyKind.TEXTS: KeyKind.TEXT,
    KeyKind.TEXT_MAP: KeyKind.TEXT,
    KeyKind.DURATION_MAP: KeyKind.DURATION,
}


class BadValue(ValueError):
    """The operator's value does not fit its key; the message says what would."""


def convert(kind: KeyKind, raw: object) -> object:
    """One plain value in the type that its key wants: durations become nanoseconds."""
    return READERS[kind](raw) if kind in READERS else raw


def describe(raw: object) -> str:
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, int) and not INTEGER_MIN <= raw <= INTEGER_MAX:
        return "a number that is too large"
    if isinstance(raw, int | float):
        return f"the number {raw}"
    if isinstance(raw, str):
        return f'the text "{raw}"' if len(raw) <= 60 else "a long text"
    if isinstance(raw, dict):
        return "an object"
    return "a list" if isinstance(raw, list | tuple) else f"a {type(raw).__name__}"


def _boolean(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise BadValue(f"must be true or false, not {describe(raw)}")
    return raw


def _integer(raw: object) -> int:
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not INTEGER_MIN <= raw <= INTEGER_MAX:
        raise BadValue(f"must be a whole number, not {describe(raw)}")
    return raw


def _number(raw: object) -> int | float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        raise BadValue(f"must be a number, not {describe(raw)}")
    return raw


def _port(raw: object) -> int:
    port = _integer(raw)
    if not PORT_MIN <= port <= PORT_MAX:
        raise BadValue(f"must be a port up to {PORT_MAX}, or -1 to disable it, not {port}")
    return port or DISABLED  # Consul takes both for "do not listen"


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise BadValue(f"must be a text, not {describe(raw)}")
    return raw


def _duration_ns(raw: object) -> int:
    if not isinstance(raw, str):
        raise BadValue(f'must be a duration with its unit, as "10s", not {describe(raw)}')
    try:
        duration_ns = parse_duration(raw)
    except BadDuration as problem:
        raise BadValue(f'must be a duration, as "10s" or "1h30m": {problem}') from None
    if duration_ns < 0:
        raise BadValue(f"must not be negative, as {raw} is")
    return duration_ns


READERS: dict[KeyKind, Callable[[object], object]] = {
    KeyKind.BOOL: _boolean,
    KeyKind.INTEGER: _integer,
    KeyKind.NUMBER: _number,
    KeyKind.PORT: _port,
    KeyKind.TEXT: _text,
    KeyKind.DURATION: _duration_ns,
}
