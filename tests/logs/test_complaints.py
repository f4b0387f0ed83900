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
