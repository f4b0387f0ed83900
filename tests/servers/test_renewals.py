"""Renewals on a server: gathered, done by whoever leads, passed on to it by others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
import trio.testing

from adsum import forwarded
from adsum.consensus.errors import Unavailable
from adsum.forwarded import Renewed, RenewSessions
from adsum.kv import KeyCause, KeyRefusal
from adsum.net.calls import Declined, NotSent
from adsum.raft.types import MemberId
from adsum.servers.renewals import AllRenewed, ServerRenewals
from adsum.servers.requests import OneAnswer
from adsum.session import Session

ME, OTHER = MemberId("me", "log"), MemberId("other", "log")
KNOWN = {name: Session(name, "n1", b"", 0, 0) for name in ("s1", "s2")}


class Keeper:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.refuses: Exception | None = None

    def renew(self, ids: Sequence[str], answered: AllRenewed) -> None:
        self.asked.append(list(ids))
        answered(self.refuses or [KNOWN.get(each) for each in ids])


class Server:
    """What it is asked, what it is to others, and what others answer."""

    me = ME
    waits_for = "an election is on"

    def __init__(self, leader: MemberId | None) -> None:
        self.leader = leader
        self.keeper = Keeper()
        self.others: Callable[[bytes], Awaitable[bytes]] | None = None
        self.calls: list[tuple[str, str]] = []
        self.renewals = ServerRenewals(self, self.keeper, self, hold_s=7)

    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        self.calls.append((node, method))
        if self.others is None:
            raise NotSent("its host refused the connection")
        return await self.others(body)

    async def renew(self, session_id: str) -> Session | None:
        answer = OneAnswer["Session | None | str"]()
        self.renewals.renew(session_id, lambda outcome: answer("gone" if outcome is None else outcome))
        outcome = await answer.wait()
        return None if isinstance(outcome, str) else outcome


async def test_what_comes_within_five_milliseconds_is_one_batch_of_the_keeper(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(ME)
    await nursery.start(server.renewals.run)
    answers: list[Session | KeyRefusal | None] = []
    for session_id in ("s1", "s2", "s1", "gone"):
        server.renewals.renew(session_id, answers.append)
    await trio.sleep(1)
    assert server.keeper.asked == [["s1", "s2", "gone"]]
    assert answers == [KNOWN["s1"], KNOWN["s2"], KNOWN["s1"], None]


async def test_batches_are_a_hundred_milliseconds_apart_and_one_alone_does_not_wait_for_that(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(ME)
    await nursery.start(server.renewals.run)
    assert await server.renew("s1") == KNOWN["s1"]
    assert trio.current_time() == pytest.approx(0.005)
    assert await server.renew("s2") == KNOWN["s2"]
    assert trio.current_time() == pytest.approx(0.105)
    await trio.sleep(1)
    assert await server.renew("s1") == KNOWN["s1"]
    assert trio.current_time() == pytest.approx(1.11)


async def test_a_server_that_does_not_lead_passes_them_on_to_the_leader(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    follower, leader = Server(OTHER), Server(ME)
    follower.others = leader.renewals.answer
    for server in (follower, leader):
        await nursery.start(server.renewals.run)
    assert await follower.renew("s2") == KNOWN["s2"]
    assert follower.calls == [("other", "session.renew")]
    assert leader.keeper.asked == [["s2"]]


async def test_who_leads_no_more_says_so_and_the_batch_is_tried_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(ME)
    await nursery.start(server.renewals.run)
    server.keeper.refuses = Unavailable("it leads no more")
    answers: list[Session | KeyRefusal | None] = []
    server.renewals.renew("s1", answers.append)
    await trio.sleep(0.1)
    assert answers == []
    server.keeper.refuses = None
    await trio.sleep(0.1)
    assert answers == [KNOWN["s1"]]


async def test_without_a_leader_they_are_held_for_so_long_and_then_refused(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(None)
    await nursery.start(server.renewals.run)
    with pytest.raises(KeyRefusal) as refusal:
        await server.renew("s1")
    assert refusal.value.cause is KeyCause.NO_LEADER
    assert refusal.value.sentence == "it was held for 7 s, and at last: an election is on"
    assert 7 <= trio.current_time() < 7.1


async def test_a_batch_of_an_agent_is_tried_once(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(OTHER)
    await nursery.start(server.renewals.run)
    answers: list[list[Session | None] | Exception] = []
    server.renewals.renew_all(["s1"], answers.append)
    await trio.sleep(1)
    assert isinstance(answers[0], Unavailable)
    assert len(server.calls) == 1


async def test_whoever_hung_up_is_not_answered(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    server = Server(ME)
    await nursery.start(server.renewals.run)
    answers: list[object] = []
    server.renewals.give_up(server.renewals.renew("s1", answers.append))
    server.renewals.give_up(server.renewals.renew_all(["s1"], answers.append))
    await trio.sleep(1)
    assert answers == []


async def test_another_server_is_answered_by_the_leader_only() -> None:
    body = forwarded.encode(RenewSessions(("s1",)))
    follower = Server(OTHER)
    with pytest.raises(Declined) as no:
        await follower.renewals.answer(body)
    assert no.value.code == "unavailable"
    assert follower.calls == [], "it passes nothing on, or two could send it round for ever"
    leader = Server(ME)
    assert await leader.renewals.answer(body) == forwarded.encode(Renewed([KNOWN["s1"]]))
