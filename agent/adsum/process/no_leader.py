"""Servers that cannot elect a leader say so again and again: who looks for a store finds it in any log."""

from __future__ import annotations

import logging

import trio

from adsum.api import leadership
from adsum.api.api_types import Agent

log = logging.getLogger("agent")

INTERVAL_S = 300.0


async def remind(agent: Agent) -> None:
    while True:
        sentence = leadership.without_leader(agent)
        if sentence and leadership.is_server(agent):
            log.warning("no leader: %s", sentence)
        await trio.sleep(INTERVAL_S)
