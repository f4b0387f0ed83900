"""What every answer about the catalog says of its age, whatever it is about.

X-Consul-Knownleader by the membership, X-Consul-Lastcontact in milliseconds since this copy was last known
to be as others have it (0 while it is), and X-Adsum-Stale with the reason while what is answered may not be
as things are: `isolated` and `silence` (others cannot be heard, so nobody is taken off for being silent),
`saved copy` and `joining` (this agent has started, and compared with nobody yet), or `paused` (it stood
still, and has compared with nobody since).

Answers are made once and sent often, head and all, so these headers have a version: answers that carry an
older one get a new head, and keep their body. A version holds for a moment by the agent's own clock, which
goes on while the agent stands still: what was true before a pause is not said again after it.
"""

from __future__ import annotations

from adsum.api.api_types import Agent
from adsum.api.leadership import knows_leader
from adsum.http.response import HeaderList
from adsum.now import MILLISECOND, Now

# How often the age and the reason are looked at; the second while there is a reason, for after a start or a
# pause it is gone within a moment. A change of leader is seen at once.
LOOK_NS = 100 * MILLISECOND
STALE_LOOK_NS = 10 * MILLISECOND


class Freshness:
    __slots__ = ("_agent", "_leader_version", "_look_ns", "_monotonic_ns", "_servers", "headers", "version")

    def __init__(self, agent: Agent) -> None:
        self.version = 0
        self.headers: HeaderList = ()
        self._agent = agent
        self._monotonic_ns = agent.monotonic_ns
        self._look_ns = -1
        self._leader_version = -1
        self._servers = agent.cluster.servers

    def look(self) -> int:
        """The version of the headers that are true now. Asked for by every read, so mostly a comparison."""
        if self._leader_version == self._servers.version and self._monotonic_ns() < self._look_ns:
            return self.version
        agent = self._agent
        now = agent.now()
        reason = agent.cluster.staleness(now)
        self._look_ns = now.monotonic_ns + (STALE_LOOK_NS if reason else LOOK_NS)
        self._leader_version = self._servers.version
        headers: HeaderList = (*age_headers(agent, now), ("X-Consul-Effective-Consistency", "stale"))
        if reason:
            headers += (("X-Adsum-Stale", reason),)
        if headers != self.headers:
            self.headers = headers
            self.version += 1
        return self.version


def stale_header(agent: Agent) -> HeaderList:
    """For what is made anew for each who asks, and tells nothing else of its age."""
    reason = agent.cluster.staleness(agent.now())
    return (("X-Adsum-Stale", reason),) if reason else ()


def age_headers(agent: Agent, now: Now) -> HeaderList:
    return (
        ("X-Consul-Knownleader", "true" if knows_leader(agent) else "false"),
        ("X-Consul-Lastcontact", str(agent.cluster.behind_ns(now) // MILLISECOND)),
    )
