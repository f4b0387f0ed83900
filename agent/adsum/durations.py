"""Go's duration syntax, as Consul's clients and configuration files write it: 10s, 1m30s, 0.001s, 1.5h.

Durations are integer nanoseconds everywhere inside, as they are on the wire.
"""

from __future__ import annotations

import re

from adsum.now import HOUR, MICROSECOND, MILLISECOND, MINUTE, NANOSECOND, SECOND

UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,  # U+00B5, the micro sign
    "μs": MICROSECOND,  # U+03BC, the Greek letter; Go accepts both
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
DURATION_NS_MAX = 2**63 - 1
DIGITS_MAX = 19  # of DURATION_NS_MAX: whatever has more is larger, and what is behind them counts for nothing


class BadDuration(ValueError):
    """The caller's text is not a duration; its message is Go's, which clients have seen before."""


def parse_duration(text: str) -> int:
    """Nanoseconds in a Go duration string."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0
    if not rest:
        raise BadDuration(f'time: invalid duration "{text}"')
    total_ns = 0
    while rest:
        term_ns, rest = _take_term(rest, text)
        total_ns += term_ns
        if total_ns > DURATION_NS_MAX:
            raise BadDuration(f'time: invalid duration "{text}"')
    return sign * total_ns


def _take_term(rest: str, text: str) -> tuple[int, str]:
    match = TERM.match(rest)
    assert match is not None  # every part of the pattern is optional
    whole, fraction, unit = match.groups()
    if not whole and not fraction:
        raise BadDuration(f'time: invalid duration "{text}"')
    if not unit:
        raise BadDuration(f'time: missing unit in duration "{text}"')
    if unit not in UNITS:
        raise BadDuration(f'time: unknown unit "{unit}" in duration "{text}"')
    scale = UNITS[unit]
    if len(whole.lstrip("0")) > DIGITS_MAX:
        raise BadDuration(f'time: invalid duration "{text}"')
    value_ns = int(whole.lstrip("0") or "0") * scale
    if fraction:
        fraction = fraction[:DIGITS_MAX]
        value_ns += int(fraction) * scale // 10 ** len(fraction)
    return value_ns, rest[match.end() :]


def format_duration(duration_ns: int) -> str:
    """As Go prints it: 1h0m0s, 1m30s, 10s, 500ms, 1.5µs, 0s."""
    if duration_ns < 0:
        return "-" + format_duration(-duration_ns)
    if duration_ns == 0:
        return "0s"
    for unit, scale in (("ns", NANOSECOND), ("µs", MICROSECOND), ("ms", MILLISECOND)):
        if duration_ns < 1_000 * scale:
            return _decimal(duration_ns, scale) + unit
    minutes, rest_ns = divmod(duration_ns, MINUTE)
    seconds = _decimal(rest_ns, SECOND) + "s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}"


def _decimal(value: int, scale: int) -> str:
    whole, rest = divmod(value, scale)
    digits = str(rest).rjust(len(str(scale)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
