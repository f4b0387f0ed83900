"""Sessions and transactions, which there are none of."""

from __future__ import annotations

import pytest

from adsum.api.absent import SENTENCE
from tests.api.agents import Asker


@pytest.mark.parametrize("path", ["/v1/session/create", "/v1/session/renew/x", "/v1/txn"])
async def test_who_asks_for_them_is_told_that_there_are_none(path: str) -> None:
    response = await Asker().put(path, {})
    assert (response.status, response.body.plain) == (404, SENTENCE.encode())
