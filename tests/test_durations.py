"""Vectors: what Consul takes, and Go's own printing of durations."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.durations import BadDuration, format_duration, parse_duration
from adsum.now import HOUR, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("10s", 10 * SECOND),
        ("1m30s", 90 * SECOND),
        ("500ms", SECOND // 2),
        ("15.0s", 15 * SECOND),
        ("15.000000s", 15 * SECOND),
        ("0.001s", SECOND // 1000),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("1h", HOUR),
        ("-1m", -MINUTE),
        ("+1m", MINUTE),
        ("0", 0),
        ("3us", 3000),
        ("3µs", 3000),
        ("7ns", 7),
        ("1h1m1s1ms1us1ns", HOUR + MINUTE + SECOND + 1_001_001),
    ],
)
def test_go_durations_are_read(text: str, duration_ns: int) -> None:
    assert parse_duration(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("15", 'time: missing unit in duration "15"'),
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("abc", 'time: invalid duration "abc"'),
        (".s", 'time: invalid duration ".s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1s5", 'time: missing unit in duration "1s5"'),
        ("99999999999h", 'time: invalid duration "99999999999h"'),
        (f"{'9' * 5_000}s", f'time: invalid duration "{"9" * 5_000}s"'),
    ],
)
def test_other_texts_are_refused_in_the_words_of_go(text: str, sentence: str) -> None:
    with pytest.raises(BadDuration) as caught:
        parse_duration(text)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (HOUR, "1h0m0s"),
        (24 * HOUR, "24h0m0s"),
        (90 * SECOND, "1m30s"),
        (SECOND // 2, "500ms"),
        (1500, "1.5µs"),
        (7, "7ns"),
        (-SECOND, "-1s"),
        (1_500_000_000, "1.5s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


@given(st.integers(min_value=-(10**17), max_value=10**17))
def test_what_is_printed_reads_back(duration_ns: int) -> None:
    assert parse_duration(format_duration(duration_ns)) == duration_ns


@given(st.text())
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(BadDuration):
        parse_duration(text)
