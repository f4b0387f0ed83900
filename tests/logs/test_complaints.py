from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from adsum.logs.complaints import Complaints


def test_complaints_are_made_once_a_minute_and_say_how_many_were_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = MockClock()

    async def complain() -> None:
        complaints = Complaints(logging.getLogger("test"))
        for _ in range(10):
            complaints.say("kind", "Refused %s", "a")
        clock.jump(61)
        complaints.say("kind", "Refused %s", "b")

    trio.run(complain, clock=clock)
    assert [record.getMessage() for record in caplog.records] == [
        "Refused a",
        "Refused b (9 more since the last such line)",
    ]


def test_who_complains_in_a_thread_has_a_clock_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 5.0
    complaints = Complaints(logging.getLogger("test"), clock=lambda: now_s)
    complaints.say("kind", "Refused")
    complaints.say("kind", "Refused")
    now_s = 65.0
    complaints.say("kind", "Refused")
    assert [record.getMessage() for record in caplog.records] == [
        "Refused",
        "Refused (1 more since the last such line)",
    ]


def test_a_mistake_of_ours_is_logged_with_where_it_was_made(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(logging.getLogger("test"), clock=lambda: 0.0)
    try:
        int("unexpected")
    except ValueError as error:
        complaints.say("bug", "It failed", trace=error)
    assert "It failed\nTraceback" in caplog.text
    assert "ValueError: invalid literal" in caplog.text
