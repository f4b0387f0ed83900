"""The search for the cluster, with somebody scripted to let it in or not."""

from __future__ import annotations

import logging
from random import Random

import cbor2
import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.config.config import Config
from adsum.process.joining import PEERS_AT_ONCE, Joining, NotJoined, read_peers
from adsum.process.sockets import CannotStart


class Doorman:
    """Lets in whoever asks one of its members; counts who was asked."""

    def __init__(self, *members: str) -> None:
        self.members = set(members)
        self.asked: list[tuple[Address, ...]] = []
        self.asked_at_s: list[float] = []
        self.objection = ""

    async def join(self, addresses: tuple[Address, ...]) -> str:
        self.asked.append(addresses)
        self.asked_at_s.append(trio.current_time())
        if not any(address.host in self.members for address in addresses):
            raise NotJoined("connection refused")
        return self.objection


def joining(doorman: Doorman, config: Config, peers: bytes | None = None) -> Joining:
    return Joining(config, read_peers(peers), doorman.join, Random(1))


def peers_file(count: int) -> bytes:
    return cbor2.dumps([[f"10.0.0.{number}", 8301] for number in range(1, count + 1)])


async def test_an_agent_that_was_in_a_cluster_asks_its_peers_of_then_and_nobody_else() -> None:
    doorman = Doorman("10.0.0.1", "10.0.0.2")
    await joining(doorman, Config(retry_join=("10.9.9.9",)), peers_file(2)).find()
    assert [set(asked) for asked in doorman.asked] == [{Address("10.0.0.1", 8301), Address("10.0.0.2", 8301)}]


async def test_peers_who_do_not_listen_yet_are_asked_again_when_nobody_else_is_known(
    autojump_clock: MockClock,
) -> None:
    doorman = Doorman()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining(doorman, Config(retry_interval_ns=7_000_000_000), peers_file(2)).find)
        await trio.sleep(15)
        doorman.members.add("10.0.0.2")
    assert [round(at_s - doorman.asked_at_s[0]) for at_s in doorman.asked_at_s] == [0, 1, 3, 7, 14, 21]


async def test_peers_who_go_on_refusing_are_warned_about_with_what_the_last_of_them_said(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    doorman = Doorman()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining(doorman, Config(), peers_file(PEERS_AT_ONCE + 1)).find)
        await trio.sleep(2)
        doorman.members.add("10.0.0.2")
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["the cluster of the last run does not let it in, attempt 2: connection refused"]


async def test_peers_are_asked_a_few_at_a_time_and_then_those_in_the_configuration() -> None:
    doorman = Doorman("10.9.9.9")
    await joining(doorman, Config(retry_join=("10.9.9.9:7301",)), peers_file(20)).find()
    assert [len(asked) for asked in doorman.asked] == [PEERS_AT_ONCE, PEERS_AT_ONCE, 4, 1]
    assert doorman.asked[-1] == (Address("10.9.9.9", 7301),)


async def test_retry_join_goes_on_soon_at_first_until_somebody_lets_us_in(autojump_clock: MockClock) -> None:
    doorman = Doorman()
    config = Config(retry_join=("10.0.0.1", "10.0.0.2"), retry_interval_ns=7_000_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining(doorman, config).find)
        await trio.sleep(15)
        doorman.members.add("10.0.0.2")
    assert [round(at_s - doorman.asked_at_s[0]) for at_s in doorman.asked_at_s] == [0, 1, 3, 7, 14, 21]


async def test_retry_max_ends_the_agent_as_consul_does(autojump_clock: MockClock) -> None:
    doorman = Doorman()
    with pytest.raises(CannotStart, match="tried 3 times"):
        await joining(doorman, Config(retry_join=("10.0.0.1",), retry_max=3)).find()
    assert len(doorman.asked) == 3


async def test_a_start_join_that_fails_fails_the_start() -> None:
    with pytest.raises(CannotStart, match="none of start_join let this agent in: connection refused"):
        await joining(Doorman(), Config(start_join=("10.0.0.1",))).find()


@pytest.mark.parametrize(
    ("config", "peers", "found_by"),
    [
        (Config(retry_join=("10.0.0.1",)), None, "retry_join"),
        (Config(start_join=("10.0.0.1",)), None, "start_join"),
        (Config(), peers_file(1), "the peers of the last run"),
    ],
    ids=["retry_join", "start_join", "peers"],
)
async def test_a_cluster_that_has_another_of_our_name_is_found_and_not_called_joined(
    config: Config,
    peers: bytes | None,
    found_by: str,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    doorman = Doorman("10.0.0.1")
    doorman.objection = "d at 10.0.0.4:8301 has its name."
    with caplog.at_level(logging.INFO), trio.move_on_after(0.5):
        await joining(doorman, config, peers).find()
    assert caplog.messages == [
        f"the cluster is found by {found_by} and does not let this agent in yet: {doorman.objection}"
    ]


def test_a_damaged_file_of_peers_names_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_peers(b"\xff") == []
    assert "damaged" in caplog.text
    hostile = [["x"], 7, ["fe80::1%a\0b", 8301], ["example.com", 8301], ["10.0.0.2", 0], ["10.0.0.2", True]]
    assert read_peers(cbor2.dumps([["10.0.0.1", 8301], *hostile])) == [Address("10.0.0.1", 8301)]
    assert "6 entries of the file of peers are no addresses and are passed over" in caplog.text
    assert read_peers(cbor2.dumps({"a": 1})) == []
    assert read_peers(None) == []


async def test_retry_join_goes_on_while_the_cluster_has_something_against_us(
    autojump_clock: MockClock,
) -> None:
    """The former life of this host has its name until it is called failed."""
    doorman = Doorman("10.0.0.1")
    doorman.objection = "Two members are called n1."
    async with trio.open_nursery() as nursery:
        nursery.start_soon(joining(doorman, Config(retry_join=("10.0.0.1",))).find)
        await trio.sleep(5)
        doorman.objection = ""
    assert [round(at_s - doorman.asked_at_s[0]) for at_s in doorman.asked_at_s] == [0, 1, 3, 7]


async def test_who_is_on_nobody_s_list_any_more_asks_again_and_says_so_once(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    doorman, forgotten_until_s = Doorman(), trio.current_time() + 100
    found = Joining(
        *(Config(retry_join=("10.0.0.1",)), (), doorman.join, Random(1)),
        is_forgotten=lambda: 50 <= forgotten_until_s - trio.current_time() + 50 <= 100,
    )
    doorman.members.add("10.0.0.1")
    with trio.move_on_after(200):
        await found.run()
    first_s = doorman.asked_at_s[0]
    assert [round(at_s - first_s) for at_s in doorman.asked_at_s] == [0, 60, 75, 90]
    assert sum("lists this one" in record.getMessage() for record in caplog.records) == 1


async def test_who_misses_others_asks_where_they_may_be_by_now(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    doorman = Doorman("10.0.0.1")
    turns = [False, True, False]
    found = Joining(
        *(Config(retry_join=("10.0.0.1",)), (), doorman.join, Random(1)),
        misses_others=lambda: bool(turns) and turns.pop(0),
    )
    with trio.move_on_after(60):
        await found.run()
    assert [round(at_s - doorman.asked_at_s[0]) for at_s in doorman.asked_at_s] == [0, 30]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_search_counts_as_tried_after_its_first_attempt(autojump_clock: MockClock) -> None:
    doorman = Doorman()
    search = joining(doorman, Config(retry_join=("10.0.0.1",)))
    assert not search.was_tried.is_set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(search.find)
        await search.was_tried.wait()
        assert (len(doorman.asked), trio.current_time() - doorman.asked_at_s[0]) == (1, 0)
        nursery.cancel_scope.cancel()


async def test_who_has_nobody_to_ask_has_tried() -> None:
    search = joining(Doorman(), Config())
    await search.find()
    assert search.was_tried.is_set()
