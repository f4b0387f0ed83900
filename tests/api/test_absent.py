"""Keys and sessions, which there are none of."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.api.absent import SENTENCE
from adsum.http.response import Response
from tests.api.agents import Asker, header


def looks_like_an_empty_store(response: Response) -> bool:
    return (response.status, response.body.plain, header(response, "X-Consul-Index")) == (404, b"", "1")


@pytest.mark.parametrize("query", ["", "?recurse", "?raw"])
async def test_a_key_is_not_found_and_has_an_index_to_wait_with(query: str) -> None:
    assert looks_like_an_empty_store(await Asker().ask(f"/v1/kv/config/web{query}"))


@pytest.mark.parametrize(("index", "took_s"), [(0, 0.0), (1, 60.0), (4711, 1.0)])
async def test_who_watches_a_key_waits_instead_of_asking_again_at_once(
    index: int, took_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    begun = trio.current_time()
    response = await Asker().ask(f"/v1/kv/config/web?index={index}&wait=60s")
    assert looks_like_an_empty_store(response)
    assert trio.current_time() - begun == pytest.approx(took_s)


async def test_an_index_that_is_none_is_refused_as_everywhere() -> None:
    assert (await Asker().ask("/v1/kv/a?index=zz")).status == 400


@pytest.mark.parametrize("path", ["/v1/kv/a", "/v1/session/create", "/v1/session/renew/x", "/v1/txn"])
async def test_who_writes_is_told_that_there_is_no_store(path: str) -> None:
    response = await Asker().put(path, {})
    assert (response.status, response.body.plain) == (404, SENTENCE.encode())
    assert "agents do not elect one yet" in SENTENCE  # true of one agent and of a thousand
