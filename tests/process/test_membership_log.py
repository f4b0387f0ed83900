"""What an operator finds in the log about members, and how much of it others can cause."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.gossip.claims import Profile
from adsum.gossip.effects import (
    ClockCompared,
    ConflictSeen,
    Effect,
    IsolationChanged,
    MemberChanged,
    Note,
    Noted,
    Paused,
    Refuser,
)
from adsum.gossip.evidence import ChangeCause, Evidence, Leg
from adsum.gossip.order import Rank, Standing
from adsum.process.membership_log import MembershipLog

SET_IT = "set it, by NTP for example."
ALIVE, SUSPECT, FAILED = (Standing(1, 0, 0, rank) for rank in Rank)


def profile(name: str) -> Profile:
    return Profile(name.encode().ljust(16, b"-"), name, Address("10.0.0.1", 8301))


def name_of(short: bytes) -> str:
    return short.decode().rstrip("-") if short.isascii() else short.hex()


def told(caplog: pytest.LogCaptureFixture, effects: Sequence[Effect], *, for_s: float = 0) -> list[str]:
    async def main() -> None:
        membership_log = MembershipLog(name_of)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(membership_log.run)
            for effect in effects:
                membership_log.log(effect)
            await trio.sleep(for_s)
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.INFO):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    return [record.getMessage() for record in caplog.records]


def joined(name: str) -> MemberChanged:
    return MemberChanged(profile(name), None, ALIVE, Evidence(ChangeCause.JOINED))


def test_who_is_not_known_any_more_accuses_by_its_digits(caplog: pytest.LogCaptureFixture) -> None:
    unknown = bytes.fromhex("0123456789abcdef")
    evidence = Evidence(
        ChangeCause.REFUSED, accusers=(b"n1------", unknown), refusers=(unknown,), legs=Leg.STREAM | Leg.HOST
    )
    changes = [MemberChanged(profile("web"), ALIVE, FAILED, evidence)]
    (line,) = told(caplog, changes)
    assert line == (
        "web at 10.0.0.1:8301 failed: accused by n1, 0123456789abcdef; legs that failed: stream, host; "
        "phi 0.0; refused to 0123456789abcdef"
    )


def test_each_change_in_a_quiet_cluster_is_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    web = profile("web")
    silent = Evidence(ChangeCause.SILENT, accusers=(b"n1------",), legs=Leg.DIRECT | Leg.STREAM, phi=8.25)
    changes = [
        joined("web"),
        MemberChanged(web, ALIVE, SUSPECT, silent),
        MemberChanged(web, SUSPECT, FAILED, silent),
        MemberChanged(web, FAILED, ALIVE, Evidence(ChangeCause.REFUTED)),
        MemberChanged(web, ALIVE, ALIVE, Evidence(ChangeCause.CHANGED)),
        MemberChanged(web, ALIVE, Standing(1, 1, 0, 0), Evidence(ChangeCause.FORCED)),
        MemberChanged(web, Standing(1, 1, 0, 0), None, Evidence(ChangeCause.REAPED)),
    ]
    why = "accused by n1; legs that failed: direct, stream; phi 8.2"
    assert told(caplog, changes) == [
        "web at 10.0.0.1:8301 joined",
        f"web at 10.0.0.1:8301 is suspected: {why}",
        f"web at 10.0.0.1:8301 failed: {why}",
        "web at 10.0.0.1:8301 is alive",
        "web at 10.0.0.1:8301 was made to leave",
        "web at 10.0.0.1:8301 is forgotten",
    ]
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


def test_newcomers_that_do_not_answer_are_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    notes = [
        Noted(Note.UNANSWERED, profile(f"n{number}"), Evidence(ChangeCause.SUSPECTED)) for number in range(50)
    ]
    lines = told(caplog, notes, for_s=61)
    assert lines[0].startswith("n0 wants to join, says one that is no member, and is not let in: it does not")
    assert lines[1].startswith("n49 wants to join")
    assert lines[1].endswith("(48 more since the last such line)")
    assert len(lines) == 2


def test_many_joins_are_ten_lines_and_one(caplog: pytest.LogCaptureFixture) -> None:
    lines = told(caplog, [joined(f"n{number}") for number in range(1_000)], for_s=16)
    assert lines == [
        *(f"n{number} at 10.0.0.1:8301 joined" for number in range(10)),
        "990 more members joined, among them n10, n11, n12, n13, n14",
    ]


def test_a_failure_is_found_among_many_joins(caplog: pytest.LogCaptureFixture) -> None:
    failure = MemberChanged(profile("web"), ALIVE, FAILED, Evidence(ChangeCause.SILENT))
    lines = told(caplog, [*(joined(f"n{number}") for number in range(1_000)), failure])
    assert lines[10].startswith("web at 10.0.0.1:8301 failed: ")


def test_refusals_are_a_line_a_minute_whomever_they_name(caplog: pytest.LogCaptureFixture) -> None:
    me = profile("me")
    refusals = [
        ConflictSeen(me, me, Refuser(b"n1------", Address("10.0.0.9", 8301), number.to_bytes(8)))
        for number in range(3_000)
    ]
    lines = told(caplog, refusals, for_s=61)
    assert len(lines) == 2
    assert lines[0].startswith("me itself, at 10.0.0.1:8301, is not let in: ")
    assert lines[1].endswith(" (2,998 more since the last such line)")
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_however_often_isolation_changes_the_last_line_says_how_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    changes = [IsolationChanged(is_isolated=bool(number % 2)) for number in range(101)]
    lines = told(caplog, changes, for_s=61)
    assert len(lines) == 5
    assert lines[-1] == "this agent reaches most members again (96 more since the last such line)"


def test_a_pause_is_one_warning_with_its_length_and_what_to_look_at(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = told(caplog, [Paused(120_300_000_000)])
    assert said == (
        "this process stood still for up to 120.3 s: stopped, its host suspended, or without processor time. "
        "What it says about others is marked stale until it has compared with one of them, and they may "
        "have called it failed meanwhile. If nobody stopped it, look at the load of this host, at processor "
        "limits (cpu.max) and at what suspends it"
    )
    assert caplog.records[0].levelname == "WARNING"


def test_pauses_without_end_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    said = told(caplog, [Paused(3_000_000_000)] * 100, for_s=61)
    assert len(said) == 5
    assert said[-1].endswith("(95 more since the last such line)")


def test_a_host_that_lost_its_data_folder_is_called_that_and_no_conflict(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reborn = MemberChanged(profile("web"), ALIVE, None, Evidence(ChangeCause.REBORN))
    assert told(caplog, [reborn]) == [
        "web at 10.0.0.1:8301 lost its data folder and is taken in under a new node id"
    ]


def test_a_clock_that_is_off_is_told_and_that_it_agrees_again(caplog: pytest.LogCaptureFixture) -> None:
    seen = [ClockCompared(5, 1), ClockCompared(-259_200_000, 3), ClockCompared(10, 4), ClockCompared(0, 5)]
    assert told(caplog, seen) == [
        f"This host's clock is 3 days behind those of most of the 3 agents it was compared with: {SET_IT}",
        "this host's clock agrees with those of other agents again",
    ]
