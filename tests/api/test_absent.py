"""Snapshots and autopilot, which there are none of."""

from __future__ import annotations

import pytest

from adsum.api.absent import AUTOPILOT_SENTENCE, SNAPSHOT_SENTENCE
from tests.api.agents import Asker


@pytest.mark.parametrize(
    ("method", "path", "sentence"),
    [
        ("GET", "/v1/snapshot?stale", SNAPSHOT_SENTENCE),
        ("PUT", "/v1/snapshot", SNAPSHOT_SENTENCE),
        ("GET", "/v1/operator/autopilot/configuration", AUTOPILOT_SENTENCE),
        ("GET", "/v1/operator/autopilot/health", AUTOPILOT_SENTENCE),
    ],
)
async def test_what_consul_s_own_program_asks_for_is_answered_with_a_sentence(
    method: str, path: str, sentence: str
) -> None:
    response = await Asker().ask(path, method)
    assert (response.status, response.body.plain) == (404, sentence.encode())
