"""Log lines that an operator looks for, and of which others may cause any number.

Of each topic some are written at once. What comes beyond gathers for a while and is told as one line: for
members by their number and some names, for anything else by the last of them and how many it stands for. So
what happens seldom is found as it happened, and a thousand members that come at once are a few lines.
"""

from __future__ import annotations

import logging
import math

import trio

from adsum.allowance import Allowance
from adsum.frozen import dataclass
from adsum.now import MINUTE, SECOND

AT_ONCE = 10
GATHER_S = 15.0
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class NewsTopic:
    """`many` is what a number of members did; without it the last line stands for those left out."""

    name: str
    many: str = ""
    at_once: int = AT_ONCE  # and as many a minute
    gather_s: float = GATHER_S


class _Gathered:
    __slots__ = ("count", "last", "level", "names", "until_s")

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.count = 0
        self.names: list[str] = []
        self.level = logging.INFO
        self.last = ""

    def add(self, level: int, sentence: str, about: str) -> None:
        self.count += 1
        self.level = level
        self.last = sentence
        if len(self.names) < NAMED_MAX:
            self.names.append(about)


class LogNews:
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._allowances: dict[NewsTopic, Allowance] = {}
        self._gathered: dict[NewsTopic, _Gathered] = {}
        self._came = trio.Event()

    def log(self, topic: NewsTopic, level: int, sentence: str, about: str = "") -> None:
        """`topic` comes from a fixed set of ours; the sentence is logged escaped."""
        gathered = self._gathered.get(topic)
        if gathered is None:
            if self._is_allowed(topic):
                self._logger.log(level, "%s", sentence)
                return
            gathered = self._gathered[topic] = _Gathered(trio.current_time() + topic.gather_s)
            self._came.set()
        gathered.add(level, sentence, about)

    async def run(self) -> None:
        """Tells what has gathered when its time has come; all of it when it is cancelled."""
        try:
            while True:
                self._came = trio.Event()
                due_s = min((each.until_s for each in self._gathered.values()), default=math.inf)
                with trio.move_on_at(due_s):
                    await self._came.wait()
                self._log_gathered(trio.current_time())
        finally:
            self._log_gathered(math.inf)

    def _is_allowed(self, topic: NewsTopic) -> bool:
        allowance = self._allowances.get(topic)
        if allowance is None:
            a_second = topic.at_once * SECOND / MINUTE
            allowance = self._allowances[topic] = Allowance(a_second=a_second, at_once=topic.at_once)
        return allowance.take(int(trio.current_time() * SECOND))

    def _log_gathered(self, now_s: float) -> None:
        for topic, gathered in list(self._gathered.items()):
            if gathered.until_s <= now_s:
                del self._gathered[topic]
                self._logger.log(gathered.level, "%s", _summary(topic, gathered))


def _summary(topic: NewsTopic, gathered: _Gathered) -> str:
    if gathered.count == 1:
        return gathered.last
    if topic.many:
        return f"{gathered.count:,} more members {topic.many}, among them {', '.join(gathered.names)}"
    return f"{gathered.last} ({gathered.count - 1:,} more since the last such line)"
