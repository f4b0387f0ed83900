"""Many requests in one packet, and others who also want an answer."""

from __future__ import annotations

import pytest
import trio

from adsum.http import connection
from adsum.http.request import Request
from adsum.http.response import Response, empty
from tests.http.http_support import connected, get, running

REQUESTS = 40


@pytest.mark.parametrize(("turn_s_max", "passes_min"), [(0.0, REQUESTS // 2), (3600.0, 0)])
async def test_others_get_a_turn_when_a_client_that_pipelines_has_had_its_time(
    monkeypatch: pytest.MonkeyPatch, turn_s_max: float, passes_min: int
) -> None:
    """Counted in requests, a turn of thirty-two large listings held everybody up for seconds."""
    monkeypatch.setattr(connection, "TURN_S_MAX", turn_s_max)
    passes, seen = 0, list[int]()

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async def app(_request: Request) -> Response:
        seen.append(passes)
        return empty(200)

    async with running(app) as server, connected(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(count_passes)
        await client.send(get("/") * REQUESTS)
        for _ in range(REQUESTS):
            await client.answer()
        nursery.cancel_scope.cancel()
    assert len(seen) == REQUESTS
    assert (seen[-1] - seen[0] >= passes_min) if passes_min else (seen[-1] == seen[0])
