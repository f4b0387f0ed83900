"""What gossip tells simulated servers of each other: the truth, until somebody misleads them.

Who is heard and where a server is looked for is decided by the rule that ships. Where a server was found
once is remembered by who found it, also over a start.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING

from adsum.address import Address
from adsum.consensus import admission

if TYPE_CHECKING:
    from adsum.testing.raft_server import SimulatedServer

NOBODY_THERE = Address("10.255.0.1", 8300)


class ServerGossip:
    def __init__(self, *, has_keys: bool) -> None:
        """Without keys nothing but its address proves who speaks."""
        self._has_keys = has_keys
        # What is said wrongly, by the host that hears it and the node it is about; None: that there is none.
        self._wrong: dict[int, dict[str, Address | None]] = {}
        self._found: dict[int, dict[str, Address]] = defaultdict(dict)

    def mislead(
        self, observers: list[SimulatedServer], servers: list[SimulatedServer], random: Random
    ) -> str:
        """About all others or most, in one way of a few; returns which."""
        way = random.choice(("nobody", "few", "nowhere", "mixed up"))
        for observer in observers:
            others = [server for server in servers if server.host is not observer.host]
            if way == "few":
                others = [server for server in others if random.random() < 0.7]
            addresses: list[Address | None] = [server.host.address for server in others]
            if way == "mixed up":
                addresses = [*addresses[1:], *addresses[:1]]
            else:
                addresses = [NOBODY_THERE if way == "nowhere" else None for _ in others]
            told = zip((server.me.node for server in others), addresses, strict=True)
            self._wrong[observer.host.index] = dict(told)
        return way

    def tell_the_truth(self) -> None:
        self._wrong = {}

    def has_line(self, source: SimulatedServer, target: SimulatedServer) -> bool:
        """Whether the one reaches the other, and is heard there. Whoever answers at a wrong address says who
        it is, and is left again."""
        found = self._found[source.host.index]
        if not self._wrong:
            found[target.me.node] = target.host.address
            return True
        places = admission.places_of(self._said(source, target), found.get(target.me.node))
        if target.host.address not in places:
            return False
        found[target.me.node] = target.host.address
        return self._is_heard(source, target)

    def _is_heard(self, source: SimulatedServer, target: SimulatedServer) -> bool:
        said, node = self._said(target, source), source.me.node
        members = target.raft.replica.configuration.members() if target.has_consensus else ()
        return admission.is_heard(
            source.host.address.host,
            admission.places_of(said, self._found[target.host.index].get(node)),
            is_said=said is not None,
            is_member=any(member.node == node for member in members),
            is_authenticated=self._has_keys,
        )

    def _said(self, observer: SimulatedServer, about: SimulatedServer) -> Address | None:
        wrong = self._wrong.get(observer.host.index, {})
        return wrong.get(about.me.node, about.host.address)
