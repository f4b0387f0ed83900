from __future__ import annotations

import pytest

from adsum.logs.clock_words import off_by

DAY_MS = 86_400_000
MOST = "of most of the {} agents it was compared with: set it, by NTP for example."
ONE = "of the only other agent it was compared with: see which of the two is right."


@pytest.mark.parametrize(
    ("ahead_ms", "others", "sentence"),
    [
        (0, 5, ""),
        (59_999, 5, ""),
        (-59_999, 1, ""),
        (
            -60_000,
            5,
            f"This host's clock is 60 seconds behind those {MOST.format(5)}",
        ),
        (
            3 * DAY_MS + 5_000,
            2,
            f"This host's clock is 3 days ahead of those {MOST.format(2)}",
        ),
        (
            -9_000_000,
            1,
            f"This host's clock is 2.5 hours behind that {ONE}",
        ),
    ],
)
def test_a_clock_that_is_off_by_a_minute_is_told_with_what_to_do(
    ahead_ms: int, others: int, sentence: str
) -> None:
    assert off_by(ahead_ms, others) == sentence
