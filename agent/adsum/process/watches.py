"""Who sleeps until a topic moves. Waking is a plain call, so a waiter costs no task but its own.

Thousands may wait on one topic, and each answers in one step of the loop when it is woken; all at once they
would hold the loop for a tenth of a second. So a crowd is woken a slice at a time, with a breath for others
between the slices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from adsum.effects import Notify
from adsum.topics import Topic

Wake = Callable[[], None]

# At some 30 µs for a waiter to answer, a slice holds the loop for about 8 ms.
SLICE = 256


class Watches:
    def __init__(self) -> None:
        self._waiting: dict[Topic, dict[Wake, None]] = {}
        self._crowd: deque[Wake] = deque()
        self._crowd_came = trio.Event()

    @property
    def waiting(self) -> int:
        return sum(len(wakes) for wakes in self._waiting.values())

    def add(self, topic: Topic, wake: Wake) -> None:
        self._waiting.setdefault(topic, {})[wake] = None

    def remove(self, topic: Topic, wake: Wake) -> None:
        wakes = self._waiting.get(topic)
        if wakes is None:
            return
        wakes.pop(wake, None)
        if not wakes:
            del self._waiting[topic]

    def notify(self, effect: Notify) -> None:
        self.wake_all(
            [wake for topic in effect.topics if topic in self._waiting for wake in self._waiting[topic]]
        )

    def wake_all(self, woken: list[Wake]) -> None:
        for wake in woken[:SLICE]:
            wake()
        if len(woken) > SLICE:
            self._crowd.extend(woken[SLICE:])
            self._crowd_came.set()

    async def run(self) -> None:
        """Wakes the rest of every crowd. Somebody who left meanwhile is woken in vain, which does no harm."""
        while True:
            await self._crowd_came.wait()
            while self._crowd:
                for _ in range(min(SLICE, len(self._crowd))):
                    self._crowd.popleft()()
                await trio.lowlevel.checkpoint()
            self._crowd_came = trio.Event()
