from __future__ import annotations

import trio

from adsum.api.answers import ITEMS_PER_TURN, in_turns
from adsum.config.config import Config
from tests.api.agents import Asker, FakeAgent


async def test_a_long_list_gives_others_a_turn_now_and_then() -> None:
    others_turns = 0
    seen = list[int]()

    async def other() -> None:
        nonlocal others_turns
        while len(seen) < 4 * ITEMS_PER_TURN:
            others_turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        async for item in in_turns(range(4 * ITEMS_PER_TURN)):
            seen.append(item)
    assert seen == list(range(4 * ITEMS_PER_TURN))
    assert others_turns >= 2  # trio picks who goes first in each round


async def test_small_answers_are_indented_when_it_is_asked_for_and_always_in_development() -> None:
    asker, developing = Asker(), Asker(FakeAgent(Config(is_dev=True)))
    pretty = b'[\n    "dc1"\n]\n'
    assert (await asker.ask("/v1/catalog/datacenters")).body.plain == b'["dc1"]'
    assert (await asker.ask("/v1/catalog/datacenters?pretty=false")).body.plain == pretty
    assert (await developing.ask("/v1/catalog/datacenters")).body.plain == pretty
