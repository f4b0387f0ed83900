"""What somebody can wait on, whichever core keeps it: topics, and the indexes at which they last changed.

A core says which families of topics it has, and with an effect `Notify` which topics moved; one table of
watches wakes whoever waits on them (`process.watches`). Where the index of an answer is kept, the read says
that makes the answer: so what is no part of the catalog is waited for like what is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from adsum.named import NamedTuple


class Topic(NamedTuple):
    family: str  # unlike those of all other cores
    name: str = ""


class IndexSource(Protocol):
    def of(self, topic: Topic) -> int:
        """Greater than before once something changed that queries of this topic can show."""
        ...


class WaitsOnTopics(Protocol):
    """Who sleeps until a topic moves. Waking is a plain call, so that a task per waiter is not needed."""

    def add(self, topic: Topic, wake: Callable[[], None]) -> None: ...

    def remove(self, topic: Topic, wake: Callable[[], None]) -> None: ...


class Watching:
    """For as long as it is entered, each of the topics that moves wakes."""

    __slots__ = ("_topics", "_wake", "_watches")

    def __init__(self, watches: WaitsOnTopics, topics: tuple[Topic, ...], wake: Callable[[], None]) -> None:
        self._watches = watches
        self._topics = topics
        self._wake = wake

    def __enter__(self) -> None:
        for topic in self._topics:
            self._watches.add(topic, self._wake)

    def __exit__(self, *_raised: object) -> None:
        for topic in self._topics:
            self._watches.remove(topic, self._wake)
