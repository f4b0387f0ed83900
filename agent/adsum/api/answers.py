"""The small answers that are made anew each time: a JSON value, or nothing but success.

Long lists are made in turns: nothing may hold the loop for longer than a client notices (20 ms).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import trio

from adsum.agent.commands import CommandRefused
from adsum.api import shapes
from adsum.api.api_types import Agent
from adsum.effects import RefusalCause
from adsum.http.request import Request
from adsum.http.response import HeaderList, Response, json_body
from adsum.http.router import HttpRefusal

# Newer clients look for it on every answer; the router adds it to all.
EVERYWHERE: HeaderList = (("X-Consul-Default-Acl-Policy", "allow"),)

# At some 20 µs an item, a turn is 5 ms.
ITEMS_PER_TURN = 256

Item = TypeVar("Item")

STATUS_OF = {
    RefusalCause.INVALID: 400,
    RefusalCause.UNKNOWN: 404,
    RefusalCause.FAILED: 500,
    RefusalCause.UNCERTAIN: 500,
}


def json_answer(
    agent: Agent, request: Request, value: object, *, status: int = 200, headers: HeaderList = ()
) -> Response:
    return encoded_answer(agent, request, shapes.encode(value), status=status, headers=headers)


def encoded_answer(
    agent: Agent, request: Request, encoded: bytes, *, status: int = 200, headers: HeaderList = ()
) -> Response:
    if agent.config.is_dev or request.query.has("pretty"):
        encoded = shapes.pretty(encoded)
    return json_body(encoded, headers, status)


@contextmanager
def refusing_commands() -> Iterator[None]:
    """Around what submits a command."""
    try:
        yield
    except CommandRefused as refused:
        raise HttpRefusal(STATUS_OF[refused.refusal.cause], refused.refusal.sentence) from None


async def in_turns(items: Sequence[Item]) -> AsyncIterator[Item]:
    """The items as they were when this began; others get the loop between turns."""
    for place, item in enumerate(items, start=1):
        yield item
        if place % ITEMS_PER_TURN == 0:
            await trio.lowlevel.checkpoint()
