"""What a blocking query waits on: a topic, and the index at which that topic last changed.

An index is (milliseconds << 8 | tag of this agent): rising, below 2^53, local to one agent. It moves for
a topic only when something that queries of that topic can show has changed; other watchers sleep on.
Topics of things that are gone are forgotten, or a stream of passing names would fill memory: their watchers,
and those of names never seen, share one floor a family, which is raised by every disappearance.
"""

from __future__ import annotations

import enum

from adsum.topics import Topic

TAG_BITS = 8


class Family(enum.StrEnum):
    """Of the catalog's topics. The names in them are lower case, as names compare."""

    SERVICE = "service"  # instances of one service: what catalog/service shows
    HEALTH = "health"  # the same with their checks and their nodes' checks: health/service, health/checks
    NODE = "node"  # one node and its services
    NODE_CHECKS = "node_checks"  # the checks of one node
    STATE = "state"  # checks in one status, or "any"
    NODES = "nodes"  # the list of nodes
    SERVICES = "services"  # the list of service names with their tags
    INSTANCES = "instances"  # any service anywhere: for queries that search them all


class Indexes:
    def __init__(self, wall_ms: int, tag: int) -> None:
        assert 0 <= tag < 1 << TAG_BITS
        self._tag = tag
        self._ms = wall_ms
        self.current = wall_ms << TAG_BITS | tag
        self._by_topic: dict[Topic, int] = {}
        self._floors: dict[str, int] = dict.fromkeys(Family, self.current)
        self._touched: dict[Topic, None] = {}  # a dict keeps the order, which a seed must reproduce

    def advance(self, wall_ms: int) -> int:
        """Begin a change: what it touches gets this index. A clock set back does not set us back."""
        self._ms = max(self._ms + 1, wall_ms)
        self.current = self._ms << TAG_BITS | self._tag
        return self.current

    def touch(self, topic: Topic) -> None:
        self._by_topic[topic] = self.current
        self._touched[topic] = None

    def retire(self, topic: Topic) -> None:
        self._by_topic.pop(topic, None)
        self._floors[topic.family] = self.current
        self._touched[topic] = None

    def of(self, topic: Topic) -> int:
        return self._by_topic.get(topic) or self._floors[topic.family]

    def take_touched(self) -> tuple[Topic, ...]:
        touched = tuple(self._touched)
        self._touched.clear()
        return touched
