"""How a leader takes in servers that its cluster does not have yet: those that gossip knows and that say
themselves, in a direct call, that they are of no cluster or of this one.

A newcomer begins as learner and votes when it has been one for a while (Consul's autopilot: 10 s) and lacks
little of the log. A server whose disk was wiped or damaged comes back under another log id, as a newcomer;
its former self will never speak again, and leaves in the same change in which the new one gets its vote. So
the number of voters does not move, and no majority is ever counted with one who has forgotten.

One change a round, and only on the leader. What the core refuses now it is asked again in the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from adsum.consensus.bootstrap import ServerStanding
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Configuration, MemberId
from adsum.servers.directory import KnownServer
from adsum.servers.driver import Driver
from adsum.servers.founding import ask_standing

INTERVAL_S = 1.0
CHANGE_S = 10.0  # for one change to be in force; then it is looked at again

log = logging.getLogger("raft")


class AsksJoiner(Protocol):
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class TakingIn:
    def __init__(
        self,
        driver: Driver,
        asks: AsksJoiner,
        servers: Callable[[], Sequence[KnownServer]],
        change: Callable[[ConfigurationChange], Awaitable[None]],
    ) -> None:
        self._driver = driver
        self._asks = asks
        self._servers = servers
        self._change = change
        self._learning_since_s: dict[MemberId, float] = {}

    async def run(self) -> None:
        while True:
            await trio.sleep(min(INTERVAL_S, self._driver.core.settings.stable_s))
            if self._driver.is_leader:
                await self._look()
            else:
                self._learning_since_s.clear()

    async def _look(self) -> None:
        standings = await self._standings()
        configuration = self._driver.core.raft.replica.configuration
        change = next_change(configuration, standings, self._ripe(configuration))
        if change is None:
            return
        try:
            with trio.move_on_after(CHANGE_S):
                await self._change(change)
                said = ", ".join(f"{step.member.node} to {step.verb.value}" for step in change.steps)
                log.info("the membership was changed: %s", said)
        except (RaftRefused, Unavailable, OutcomeUnknown) as error:
            log.info("the membership was not changed: %s", error)

    async def _standings(self) -> list[ServerStanding]:
        """Of those that answered, in order, and that may be of this cluster."""
        answers: dict[str, ServerStanding | None] = {}
        stamp, settings = self._driver.core.raft.replica.stamp, self._driver.core.settings
        async with trio.open_nursery() as nursery:
            for server in self._servers():
                if server.datacenter == settings.datacenter:
                    nursery.start_soon(self._ask, server.node, answers)
        found = [answers[node] for node in sorted(answers)]
        return [
            standing
            for standing in found
            if standing is not None
            and standing.datacenter == settings.datacenter
            and standing.cluster_id in ("", stamp.cluster_id)
        ]

    async def _ask(self, node: str, answers: dict[str, ServerStanding | None]) -> None:
        if node == self._driver.core.raft.replica.me.node:
            return
        standing = await ask_standing(self._asks, node)
        if standing is not None and standing.member.node == node:
            answers[node] = standing

    def _ripe(self, configuration: Configuration) -> list[MemberId]:
        """Learners that have been that for long enough."""
        now_s = trio.current_time()
        since = self._learning_since_s
        self._learning_since_s = {each: since.get(each, now_s) for each in configuration.learners}
        stable_s = self._driver.core.settings.stable_s
        return [each for each, begun_s in self._learning_since_s.items() if now_s - begun_s >= stable_s]


def next_change(
    configuration: Configuration, standings: Sequence[ServerStanding], ripe: Sequence[MemberId]
) -> ConfigurationChange | None:
    """The first that is due."""
    if configuration.is_joint:
        return None
    for standing in standings:
        member = standing.member
        if member not in configuration.members():
            return ConfigurationChange((Step(ChangeVerb.LEARN, member),))
        if member in ripe:
            former = [each for each in configuration.members() if each.node == member.node and each != member]
            return ConfigurationChange(
                (Step(ChangeVerb.VOTE, member), *(Step(ChangeVerb.LEAVE, each) for each in former))
            )
    return None
