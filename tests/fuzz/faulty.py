"""The measured agent with mistakes built in, one for each thing that a look must see; asked for by a path."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from adsum.api.leadership import StatusEndpoints
from adsum.cli.main import main
from adsum.http.response import Response, empty
from adsum.logs.faults import Faults
from tests.fuzz import measured

if TYPE_CHECKING:
    from adsum.http.request import Request

BURNT_S = 0.3
LINES = 1_500

__all__ = ["main", "measured"]  # the second for what it changes


def burn() -> None:
    ends_s = time.thread_time() + BURNT_S
    while time.thread_time() < ends_s:
        pass


def fail() -> None:
    raise LookupError("a mistake")


def drop() -> None:
    Faults().dropped("call", LookupError("a mistake that one input met"))


def write() -> None:
    for number in range(LINES):
        logging.getLogger("agent").warning("line %d of many that one input causes", number)


def end() -> None:
    os._exit(3)


MISTAKES: dict[str, Callable[[], None]] = {
    "burn": burn,
    "fail": fail,
    "drop": drop,
    "write": write,
    "end": end,
}


async def faulty(_self: StatusEndpoints, request: Request, _rest: str) -> Response:
    MISTAKES[request.query.first("mistake")]()
    return empty(200)


StatusEndpoints.peers = faulty  # type: ignore[assignment, method-assign]  # a mistake made on purpose
