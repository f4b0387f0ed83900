"""What an operator of a server finds in its log about who leads."""

from __future__ import annotations

import pytest

from adsum.consensus.effects import Turned
from adsum.process.leadership_log import LeadershipLog
from adsum.raft.types import MemberId, Role, Term, Turn, TurnCause

N1, N2, N3 = (MemberId(name, "log") for name in ("n1", "n2", "n3"))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "raft")
    return caplog


def turned(
    role: Role, leader: MemberId | None, term: int, cause: TurnCause, by: tuple[MemberId, ...] = ()
) -> Turned:
    return Turned(role, leader, Term(term), Turn(cause, by))


def told(lines: pytest.LogCaptureFixture, *turns: Turned) -> list[tuple[str, str]]:
    log = LeadershipLog(lambda member: member.node)
    for each in turns:
        log.log(each)
    return [(record.levelname, record.getMessage()) for record in lines.records]


SILENT = "nothing was heard of it within the election timeout"
NO_MAJORITY = "no majority of the voters answered within the election timeout"
LEADS = turned(Role.LEADER, N1, 4, TurnCause.ELECTED, (N1, N3))
FOLLOWS = turned(Role.FOLLOWER, N2, 4, TurnCause.HEARD, (N2,))
ASKS = turned(Role.PRE_CANDIDATE, None, 4, TurnCause.LEADER_SILENT, (N2,))
STANDS = turned(Role.CANDIDATE, None, 5, TurnCause.LEADER_SILENT, (N2,))


def test_whoever_is_elected_says_by_whom(lines: pytest.LogCaptureFixture) -> None:
    alone = turned(Role.LEADER, N1, 2, TurnCause.ELECTED, (N1,))
    assert told(lines, LEADS) == [
        ("INFO", "elected in term 4: this server leads, with the votes of n3 and its own")
    ]
    lines.clear()
    assert told(lines, alone) == [("INFO", "elected in term 2: this server leads, with its own vote alone")]


def test_an_election_that_a_silent_leader_causes_is_two_lines(lines: pytest.LogCaptureFixture) -> None:
    again = turned(Role.PRE_CANDIDATE, None, 5, TurnCause.LEADER_SILENT, (N2,))
    elsewhere = turned(Role.FOLLOWER, N3, 6, TurnCause.HEARD, (N3,))
    assert told(lines, FOLLOWS, FOLLOWS, ASKS, STANDS, again, elsewhere) == [
        ("INFO", "n2 leads in term 4"),
        ("WARNING", f"lost contact to n2, which led in term 4: {SILENT}, so an election begins"),
        ("INFO", "n3 leads in term 6"),
    ]


@pytest.mark.parametrize(
    ("turn", "line"),
    [
        (
            turned(Role.FOLLOWER, None, 4, TurnCause.QUORUM_SILENT),
            ("WARNING", f"{NO_MAJORITY}: see which servers run and reach it"),
        ),
        (
            turned(Role.FOLLOWER, None, 4, TurnCause.DISK),
            ("WARNING", "its disk failed, or did not answer within the election timeout"),
        ),
        (turned(Role.FOLLOWER, None, 4, TurnCause.NO_VOTER), ("INFO", "it is no voter any more")),
        (
            turned(Role.FOLLOWER, None, 5, TurnCause.HANDED_OVER, (N2,)),
            ("INFO", "leadership is handed over to n2"),
        ),
        (turned(Role.FOLLOWER, None, 6, TurnCause.LATER_TERM, (N3,)), ("INFO", "n3 began term 6")),
    ],
    ids=lambda value: value.turn.cause.value if isinstance(value, Turned) else "",
)
def test_a_leader_that_steps_down_says_why(
    lines: pytest.LogCaptureFixture, turn: Turned, line: tuple[str, str]
) -> None:
    level, why = line
    assert told(lines, LEADS, turn)[1:] == [(level, f"stepped down, after leading in term 4: {why}")]


def test_a_leader_that_hears_a_later_one_says_both(lines: pytest.LogCaptureFixture) -> None:
    later = turned(Role.FOLLOWER, N2, 7, TurnCause.HEARD, (N2,))
    assert told(lines, LEADS, later)[1:] == [
        ("INFO", "stepped down, after leading in term 4: n2 began term 7"),
        ("INFO", "n2 leads in term 7"),
    ]
