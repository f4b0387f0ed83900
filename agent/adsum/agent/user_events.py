"""User events heard here, the newest last: what `/v1/event/list` shows.

Consul keeps 256 of them, and so do we; an older one is forgotten. Each moves the index of its topic, on which
watchers sleep.
"""

from __future__ import annotations

from collections import deque

from adsum.catalog.indexes import Family, Topic
from adsum.catalog.view import View
from adsum.gossip.claims import UserEvent
from adsum.now import Now

EVENTS_MAX = 256


class UserEvents:
    def __init__(self, view: View) -> None:
        self.recent: deque[UserEvent] = deque(maxlen=EVENTS_MAX)
        self._view = view

    def heard(self, now: Now, event: UserEvent) -> None:
        self.recent.append(event)
        self._view.indexes.advance(now.wall_ms)
        self._view.indexes.touch(Topic(Family.EVENTS))
