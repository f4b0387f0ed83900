"""Whose word about the store counts: that of servers that are present, and of nobody else.

The store is an owner that many tell of and that nobody is, so only servers know which of its generations is
in force. One of them names it by telling anything of it. Everything within a generation that was named is
theirs, whoever passes it on, so news goes from agent to agent as that of any owner. What somebody else
tells of a later one is in doubt, until a server that is asked names it. Without servers nothing is named,
and the copy stands.
"""

from __future__ import annotations

from adsum.now import SECOND, Now

DENIED_NS = 3 * SECOND  # for so long nobody is asked again after servers knew nothing of it


class StoreWord:
    def __init__(self) -> None:
        self.servers: frozenset[bytes] = frozenset()  # those that are present, but for this agent
        self.leader = b""  # of the servers; empty while it is unknown
        self.is_present = False  # some server is, that may publish; it may be this agent
        self.named = 0  # the latest generation that one of them told of
        self.doubted = 0  # the latest one that somebody else told of, not settled yet
        self.rests_until_ns = 0

    def counts(self, teller: bytes, generation: int) -> bool:
        """Of the teller's news; a server names the generation with them."""
        if teller in self.servers:
            self.named = max(self.named, generation)
        return generation <= self.named

    def is_asked_about(self, now: Now) -> bool:
        """Somebody told of a later generation, and the answer of servers is to be waited for."""
        return bool(self.doubted and self.servers) and now.monotonic_ns >= self.rests_until_ns

    def denied(self, now: Now) -> None:
        self.doubted = 0
        self.rests_until_ns = now.monotonic_ns + DENIED_NS
