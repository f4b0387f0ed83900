"""Questions between agents, over gossip's port: keyrings, journals, full outputs of checks.

Seldom enough that each takes a connection of its own. What is asked is named by a method; the room that can
answer it registers for it. With a key all of it is sealed and authenticated. Without one, a method that
changes something is answered only to hosts of members that are present.

Who counts as a member, and may therefore send more at once, is told by the node id, which is only said: a
member may be reached at one address and connect from another. Whoever copies an id meets the limits that hold
for members too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import trio

from adsum.address import Address
from adsum.gossip.membership_view import MembershipView
from adsum.logs.faults import Faults
from adsum.net.call_server import CallLimits, CallServer
from adsum.net.calls import CallConnection, CallError, Declined, NotSent, dial_for_calls
from adsum.net.gate import Gate
from adsum.net.introduction import Peer

ASK_TIMEOUT_S = 5.0
CALLS_MAX = 256  # of ours to others at once, a connection each; beyond, a call waits within its own time
# The longest is half of it: what a fetch of the catalog gives.
QUESTION_BYTES_MAX = 1024 * 1024
NOT_SERVED = "not served"
NOT_TRUSTED = "not trusted"

Handler = Callable[[Peer, bytes], Awaitable[bytes]]


class AsksMembers(Protocol):
    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        """Raises a `CallError`, which says whether it may have been done."""
        ...


class PeerRpc:
    """Both sides: it `AsksMembers`, and answers them by what was registered."""

    def __init__(
        self,
        membership: MembershipView,
        random: Random,
        *,
        faults: Faults | None = None,
        calls_max: int = CALLS_MAX,
    ) -> None:
        self.waited = 0  # calls, for their turn
        self.server = CallServer(self, CallLimits(question_bytes_max=QUESTION_BYTES_MAX), faults=faults)
        self.gate: Gate | None = None  # None: this agent does not listen for others
        self._membership = membership
        self._random = random
        self._methods: dict[str, tuple[Handler, bool]] = {}  # and whether it changes something
        self._turns = trio.Semaphore(calls_max)

    def register(self, method: str, handler: Handler, *, is_change: bool = False) -> None:
        self._methods[method] = handler, is_change

    async def ask(self, to: Address, method: str, body: bytes, *, timeout_s: float = ASK_TIMEOUT_S) -> bytes:
        if self.gate is None:
            raise Declined(NOT_SERVED, "this agent does not listen for others (ports.serf_lan is -1)")
        deadline_s = trio.current_time() + timeout_s
        self.waited += not self._turns.value
        with trio.move_on_at(deadline_s) as patience:
            await self._turns.acquire()
        if patience.cancelled_caught:
            raise NotSent("as many calls to other agents as there may be at once are under way")
        try:
            line = CallConnection(dial_for_calls(self.gate, to), self._random)
            return await _asked(line, method, body, deadline_s - trio.current_time())
        finally:
            self._turns.release()

    # What others ask of us.

    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        known = self._methods.get(method)
        if known is None:
            raise Declined(NOT_SERVED, f"this agent does not know the question {method!r}")
        handler, is_change = known
        if is_change and not self._is_trusted(caller):
            raise Declined(NOT_TRUSTED, "without encryption only hosts of present members may change things")
        return await handler(caller, body)

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Nothing is told without an answer yet."""

    def is_member(self, caller: Peer) -> bool:
        if caller.is_authenticated:
            return True
        return self._membership.member_by_id(caller.identity.node_id) is not None

    def _is_trusted(self, caller: Peer) -> bool:
        if caller.is_authenticated:
            return True
        present = self._membership.present()
        return any(member.profile.address.host == caller.address.host for member in present)


async def _asked(line: CallConnection, method: str, body: bytes, timeout_s: float) -> bytes:
    outcome: bytes | CallError
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.run)
        try:
            outcome = await line.ask(method, body, timeout_s=timeout_s)
        except CallError as error:  # raised below: a nursery would wrap it
            outcome = error
        nursery.cancel_scope.cancel()
    if isinstance(outcome, CallError):
        raise outcome
    return outcome
