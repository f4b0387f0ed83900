"""What an agent does and tells for others, asked by those who may be mistaken."""

from __future__ import annotations

import logging
from typing import NoReturn

import cbor2
import pytest
import trio.testing

from adsum.address import Address
from adsum.agent.commands import Command, CommandRefused
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Service
from adsum.catalog.records import encode_service
from adsum.effects import Refusal, RefusalCause
from adsum.net.calls import Declined
from adsum.net.framing import MalformedFrame, read
from adsum.net.introduction import Peer, PeerIdentity
from adsum.peers import owner_calls, peer_handlers
from adsum.peers.owner_calls import CHECKS_MAX, TOLD_OWNERS, OwnerRow
from adsum.peers.owner_forwarding import OwnerAway, OwnerError, OwnerRefuses
from adsum.peers.peer_handlers import (
    DERIVED_SENTENCE,
    FAILED,
    MALFORMED,
    OUTPUT_BYTES_MAX,
    REFUSED,
)
from tests.api.agents import FakeAgent
from tests.api.linked import formed

CALLER = Peer(Address("10.0.0.9", 8301), PeerIdentity(b"\1" * 16), 1, is_authenticated=True)

GARBAGE = [
    b"",
    b"\xff\x00",
    cbor2.dumps({}),
    cbor2.dumps([]),
    cbor2.dumps([5, "x"]),
    cbor2.dumps(["", ""]),
    cbor2.dumps(["web1", [1, 2]]),
    cbor2.dumps([["x"] * (CHECKS_MAX + 1)]),
    cbor2.dumps([[[[[[]]]]]]),
]


@pytest.mark.parametrize("body", GARBAGE)
async def test_questions_that_make_no_sense_are_declined_and_change_nothing(body: bytes) -> None:
    agent = FakeAgent()
    agent.put_service("web1", "web", enable_tag_override=True)
    mine = agent.owners.mine
    codes = []
    for answer in (mine.answer_deregister, mine.answer_retag, mine.answer_output, mine.answer_owners):
        try:
            await answer(CALLER, body)
        except Declined as no:
            codes.append(no.code)
    assert len(codes) >= 3
    assert set(codes) == {MALFORMED}
    assert agent.own.services["web1"].definition.tags == ()
    assert list(agent.own.checks) == ["service:web1"]


async def test_the_entry_of_a_server_itself_goes_only_with_it() -> None:
    agent = FakeAgent()
    server = Service(service_id="consul", name="consul", port=8300)
    agent.core.published.put_service(agent.now(), server, encode_service(server))
    with pytest.raises(Declined) as declined:
        await agent.owners.mine.answer_deregister(CALLER, cbor2.dumps(["consul", ""]))
    assert (declined.value.code, declined.value.text) == (REFUSED, DERIVED_SENTENCE.format("consul"))
    assert agent.view.instances("consul")


@pytest.mark.parametrize(
    ("cause", "code", "raised"),
    [(RefusalCause.FAILED, FAILED, OwnerAway), (RefusalCause.INVALID, REFUSED, OwnerRefuses)],
)
async def test_what_could_not_be_done_is_told_apart_from_what_must_not_be(
    cause: RefusalCause, code: str, raised: type[OwnerError], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = FakeAgent()

    async def refuse(_command: Command) -> NoReturn:
        raise CommandRefused(Refusal(cause, "no room"))

    monkeypatch.setattr(agent.owners.mine, "_submit", refuse)
    with pytest.raises(Declined) as declined:
        await agent.owners.mine.answer_deregister(CALLER, cbor2.dumps(["web1", ""]))
    assert (declined.value.code, declined.value.text) == (code, "no room")
    with pytest.raises(raised, match="no room"):
        await agent.owners.deregister("n1", "web1", "")


async def test_outputs_beyond_what_an_answer_holds_are_left_out() -> None:
    agent = FakeAgent()
    agent.put_service("web1", "web")
    agent.report("service:web1", CheckStatus.WARNING, "slow")
    ids = ["service:web1", "nobody's"]
    assert agent.owners.mine.outputs(ids) == ["slow", None]
    agent.own.checks["service:web1"].output = "x" * (OUTPUT_BYTES_MAX * 2 // 3)
    first, second = agent.owners.mine.outputs(["service:web1"] * 2)
    assert first is not None
    assert second is None


ROW = [b"8 bytes.", 7, 3, 2, b"a digest", 4, 500, -1, True]


def test_fields_that_a_later_version_appends_to_a_row_are_ignored() -> None:
    ((row,), is_more) = read(TOLD_OWNERS, cbor2.dumps([[[*ROW, "later"]], True]))
    assert row == OwnerRow(
        owner=b"8 bytes.",
        generation=7,
        version=3,
        complete_up_to=2,
        digest=b"a digest",
        items=4,
        size_bytes=500,
        confirmed_ms=-1,
        is_complete=True,
    )
    assert is_more


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        cbor2.dumps([]),
        cbor2.dumps([[[]], False]),
        cbor2.dumps([[[b"short", 1]], False]),
        cbor2.dumps([1, 2]),
        cbor2.dumps([[[b"7 bytes", *ROW[1:]]], False]),
        *(cbor2.dumps([[[*ROW[:place], None, *ROW[place + 1 :]]], False]) for place in range(9)),
        cbor2.dumps([[ROW[:8]], False]),
    ],
)
def test_rows_that_are_none_are_malformed(answer: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read(TOLD_OWNERS, answer)


async def test_many_owners_are_told_in_pages(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = await formed(nursery)
    monkeypatch.setattr(peer_handlers, "ROWS_MAX", 1)
    rows = await three.a.owners.rows_of("b")
    assert rows == sorted(rows, key=lambda row: row.owner)
    assert len(rows) == 3
    assert [method for method, _ in three.network.calls].count(owner_calls.OWNERS) == 3


async def test_changes_that_others_ask_for_are_a_line_each_and_a_count_when_they_are_very_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = FakeAgent()
    with caplog.at_level(logging.INFO, "agent"):
        for number in range(100):
            await agent.owners.mine.answer_deregister(CALLER, cbor2.dumps([f"web{number}", ""]))
        agent.wall_ms += 2_000
        await agent.owners.mine.answer_deregister(CALLER, cbor2.dumps(["last", ""]))
    lines = [record.getMessage() for record in caplog.records if "asked" in record.getMessage()]
    assert len(lines) == 61
    assert lines[0] == "done as the agent at 10.0.0.9 asked: deregister service=web0"
    assert lines[60] == (
        "done as the agent at 10.0.0.9 asked: deregister service=last (40 more since the last such line)"
    )
