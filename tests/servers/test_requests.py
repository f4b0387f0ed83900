"""What the leader's answer means to the server that asked, and the lack of one."""

from __future__ import annotations

import pytest

from adsum.consensus.effects import AskLeader
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.net.calls import CallError, Declined, NotSent, Unanswered
from adsum.now import SECOND
from adsum.raft.errors import RaftRefused
from adsum.servers.requests import LeaderLine


class Line:
    """To a leader whose answer is known."""

    def __init__(self, outcome: bytes | CallError) -> None:
        self._outcome = outcome

    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        if isinstance(self._outcome, CallError):
            raise self._outcome
        return self._outcome


async def asked(outcome: bytes | CallError, data: bytes | None = b"a") -> object:
    return await LeaderLine(Line(outcome)).ask(AskLeader(1, "b", data, None, SECOND))


@pytest.mark.parametrize(
    "outcome",
    [
        NotSent("nobody is there"),
        *(Declined(code, "no") for code in ("unavailable", "busy", "stranger", "malformed")),
    ],
    ids=["not sent", "unavailable", "busy", "stranger", "malformed"],
)
async def test_what_certainly_came_to_nothing_may_be_tried_again(outcome: CallError) -> None:
    assert type(await asked(outcome)) is Unavailable


@pytest.mark.parametrize(
    "outcome",
    [Unanswered("the line broke"), *(Declined(code, "no") for code in ("unknown", "fault", "of later"))],
    ids=["unanswered", "unknown", "fault", "of later"],
)
async def test_what_may_have_been_done_is_unknown(outcome: CallError) -> None:
    """A fault may lie in the answer: it was too long to be sent, and the proposal is committed."""
    assert type(await asked(outcome)) is OutcomeUnknown


async def test_an_answer_and_a_refusal_of_the_leader_are_passed_on() -> None:
    assert await asked(b"heard a") == b"heard a"
    assert type(await asked(Declined("refused", "too large"))) is RaftRefused


async def test_a_read_is_answered_by_an_index_and_by_nothing_else() -> None:
    assert await asked(b"\x0c", None) == 12
    assert type(await asked(b"\x61x", None)) is Unavailable
