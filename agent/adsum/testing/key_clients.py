"""Clients of keys in a simulated world, each at one agent, which do one thing at a time: what they do is for
the workloads to say.

Now and then one hangs up. When the others have stopped, each does one thing for the last time, as often as it
takes to be answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Protocol

from adsum.kv import KeyRead, KeyWrite
from adsum.now import MILLISECOND, SECOND
from adsum.testing.key_agents import KeyAgent
from adsum.testing.key_calls import KeyCall

THINK_NS_MAX = 500 * MILLISECOND
HANGS_UP_SHARE = 0.03
PATIENCE_NS_MAX = SECOND  # of those who hang up


class KeyParticipant(Protocol):
    """Of a workload."""

    def stop(self) -> None:
        """Begins nothing new but what it needs to settle."""

    @property
    def is_settled(self) -> bool: ...


class KeyClient(ABC):
    def __init__(
        self, agent: KeyAgent, number: int, random: Random, *, think_ns_max: int = THINK_NS_MAX
    ) -> None:
        """Its number is its own in the world."""
        self.is_settled = False
        self.number = number
        self.random = random
        self.world = agent.world
        self._agent = agent
        self._think_ns_max = think_ns_max
        self._has_stopped = False
        self._soon()

    @abstractmethod
    def choose(self) -> KeyWrite | KeyRead: ...

    @abstractmethod
    def choose_last(self) -> KeyWrite | KeyRead: ...

    def expected(self, _asked: KeyWrite | KeyRead) -> bytes:
        """The value that a write compares with."""
        return b""

    def heard(self, call: KeyCall) -> None:  # noqa: B027  # few want to know
        """Whatever came of it."""

    def stop(self) -> None:
        self._has_stopped = True

    def _soon(self) -> None:
        self.world.call(self.world.now_ns + self.random.randrange(1, self._think_ns_max), self._ask)

    def _ask(self) -> None:
        if not self._agent.is_up:
            self._soon()
            return
        is_last = self._has_stopped
        asked = self.choose_last() if is_last else self.choose()

        def ended(call: KeyCall) -> None:
            self.heard(call)
            if is_last and call.operation.outcome is not None:
                self.is_settled = True
            else:
                self._soon()

        def hang_up() -> None:
            if not call.is_over:
                call.give_up()
                self._soon()

        call = KeyCall(self._agent, self.number, asked, ended, expected=self.expected(asked))
        if self.random.random() < HANGS_UP_SHARE:
            self.world.call(self.world.now_ns + self.random.randrange(PATIENCE_NS_MAX), hang_up)
