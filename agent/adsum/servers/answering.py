"""Who may say what on the servers' port, and who answers.

Only servers are heard: members of the configuration, whatever gossip says of them, and those that gossip
knows as servers of this datacenter. Where neither a key nor a certificate proves who speaks, it must speak
from an address that is known for it, by gossip or because it was found there. And nobody speaks for another:
a message's source is the node that was introduced.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import trio

from adsum.address import Address
from adsum.consensus import admission
from adsum.logs.complaints import Complaints
from adsum.net.calls import Declined
from adsum.net.introduction import Peer
from adsum.raft.messages import Message, SnapshotOffer
from adsum.servers import carrying, wire
from adsum.servers.directory import KnownServer

RAFT = "raft"
STRANGER, MALFORMED = "stranger", "malformed"  # codes with which a call is declined before it is looked at
ADMITTED_S = 1.0  # what was found out about a caller is believed so long
CALLERS_MAX = 512  # as many as may be connected
NOBODY = "", 0.0

log = logging.getLogger("raft")


@dataclass(slots=True)
class AnswerCounters:
    messages: int = 0
    strangers: int = 0  # from who is no server of ours
    impostors: int = 0  # in another server's name
    malformed: int = 0
    other_version: int = 0
    misplaced: int = 0  # an offer without its file, a topic that nobody knows


class Admits(Protocol):
    def known(self, node: str) -> KnownServer | None: ...

    def addresses_of(self, node: str) -> Sequence[Address]: ...

    def is_member(self, node: str) -> bool: ...


class Answering:
    """`CallServer` asks this."""

    def __init__(
        self,
        admits: Admits,
        methods: Mapping[str, Callable[[bytes], Awaitable[bytes]]],
        hear: Callable[[Message], None],
    ) -> None:
        self.counters = AnswerCounters()
        self._admits = admits
        self._methods = methods
        self._hear = hear
        self._admitted: dict[Peer, tuple[str, float]] = {}  # the node, and until when it is believed
        self._complaints = Complaints(log)

    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        node = self._admitted_node(caller)
        if node is None:
            raise Declined(STRANGER, "this is for servers of the cluster only")
        answer = self._methods.get(method)
        if answer is None:
            raise Declined("unknown", f"there is no call {method!r}")
        try:
            if method == carrying.BEGIN and carrying.offered(body)[0].source.node != node:
                self.counters.impostors += 1
                raise Declined("impostor", "this snapshot is offered in another server's name")
            return await answer(body)
        except wire.UnreadableMessage as error:
            self._count(error, caller)
            raise Declined(MALFORMED, str(error)) from error

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        node = self._admitted_node(caller)
        if node is None:
            return
        if topic != RAFT:
            self.counters.misplaced += 1
            return
        try:
            message = wire.decode(body)
        except wire.UnreadableMessage as error:
            self._count(error, caller)
            return
        if message.source.node != node:
            self.counters.impostors += 1
        elif type(message) is SnapshotOffer:
            self.counters.misplaced += 1
        else:
            self.counters.messages += 1
            self._hear(message)

    def _count(self, error: wire.UnreadableMessage, caller: Peer) -> None:
        if isinstance(error, wire.OtherVersion):
            self.counters.other_version += 1
        else:
            self.counters.malformed += 1
        self._complaints.say("dropped", "a message from %s was dropped: %s", caller.address.host, error)

    def _admitted_node(self, caller: Peer) -> str | None:
        """Who speaks, if it is one of our servers."""
        now_s = trio.current_time()
        node, until_s = self._admitted.get(caller, NOBODY)
        if now_s < until_s:
            return node
        node = str(UUID(bytes=caller.identity.node_id))
        if not self._is_server(caller, node):
            self.counters.strangers += 1
            self._complaints.say(
                "stranger", "%s spoke to this server and is no server of its cluster", caller.address.host
            )
            return None
        if len(self._admitted) >= CALLERS_MAX:
            self._admitted.clear()
        self._admitted[caller] = node, now_s + ADMITTED_S
        return node

    def _is_server(self, caller: Peer, node: str) -> bool:
        return admission.is_heard(
            caller.address.host,
            self._admits.addresses_of(node),
            is_said=self._admits.known(node) is not None,
            is_member=self._admits.is_member(node),
            is_authenticated=caller.is_authenticated,
        )
