"""What every answer about the catalog says of its age, whatever it is about.

X-Consul-Knownleader by the roll, X-Consul-Lastcontact in milliseconds since this copy was last known to be
as others have it (nought while it is), and X-Adsum-Stale with the reason while what is answered may not be
as things are: `isolated` and `silence` (others cannot be heard, so nobody is taken off for being silent) or
`saved copy` (this agent has started and heard nobody yet).

Answers are made once and sent often, head and all, so these headers have a version: answers that carry an
older one get a new head, and keep their body.
"""

from __future__ import annotations

import trio

from adsum.api.door import Agent
from adsum.api.response import HeaderList
from adsum.api.standing import knows_leader
from adsum.now import MILLISECOND

# How often the age and the reason are looked at. A change of leader is seen at once.
LOOK_S = 0.1


class Freshness:
    __slots__ = ("_agent", "_leader_version", "_look_at_s", "_servers", "headers", "version")

    def __init__(self, agent: Agent) -> None:
        self.version = 0
        self.headers: HeaderList = ()
        self._agent = agent
        self._look_at_s = -1.0
        self._leader_version = -1
        self._servers = agent.roll.servers

    def look(self) -> int:
        """The version of the headers that are true now. Asked for by every read, so mostly a comparison."""
        if self._leader_version != self._servers.version or trio.current_time() >= self._look_at_s:
            self._look_closely()
        return self.version

    def _look_closely(self) -> None:
        agent = self._agent
        self._look_at_s = trio.current_time() + LOOK_S
        self._leader_version = self._servers.version
        headers = meta(agent)
        if headers != self.headers:
            self.headers = headers
            self.version += 1


def meta(agent: Agent) -> HeaderList:
    roll = agent.roll
    reason = roll.staleness
    headers: HeaderList = (
        ("X-Consul-Knownleader", "true" if knows_leader(agent) else "false"),
        ("X-Consul-Lastcontact", str(roll.behind_ns(agent.now()) // MILLISECOND)),
        ("X-Consul-Effective-Consistency", "stale"),
    )
    return (*headers, ("X-Adsum-Stale", reason)) if reason else headers
