from __future__ import annotations

import errno

import pytest
import trio
from trio.testing import MockClock

from adsum.logs.faults import Faults


def broken(message: str) -> None:
    raise ValueError(message)


def test_each_fault_is_counted_and_the_log_names_the_place_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = Faults()

    async def drop_five() -> None:
        for _ in range(5):
            try:
                broken("\x00 in a name")
            except ValueError as error:
                faults.dropped("datagram", error)

    trio.run(drop_five, clock=MockClock())
    assert faults.counts["datagram"] == 5
    (line,) = [record.getMessage() for record in caplog.records]
    assert "one input (datagram) was dropped because of ValueError(" in line
    assert "test_faults.py:13 broken < test_faults.py" in line


async def test_a_failed_assertion_is_no_input_s_fault_and_goes_on() -> None:
    faults = Faults()
    with pytest.raises(AssertionError, match="the queue is sorted"):
        faults.dropped("effect", AssertionError("the queue is sorted"))
    assert faults.counts["effect"] == 0


async def test_what_an_input_says_cannot_break_out_of_its_line(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    faults.dropped("stream", ValueError("a\nb"))
    assert "ValueError('a\\nb')" in caplog.records[0].getMessage()


async def test_what_a_nursery_wrapped_is_told_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    Faults().dropped("call", ExceptionGroup("a nursery", [ExceptionGroup("another", [KeyError("x")])]))
    assert "because of KeyError('x')" in caplog.records[0].getMessage()


async def test_a_failed_assertion_goes_on_out_of_a_nursery_too() -> None:
    with pytest.raises(AssertionError, match="sorted"):
        Faults().dropped("call", ExceptionGroup("a nursery", [KeyError("x"), AssertionError("sorted")]))


async def test_what_met_a_shortage_of_files_is_no_fault_and_the_log_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = Faults()
    for _ in range(3):
        faults.dropped("dns", OSError(errno.EMFILE, "Too many open files"))
    assert (faults.counts["dns"], faults.shortages["dns"]) == (0, 3)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("one input (dns) was dropped: too many open files: raise the agent's limit")
