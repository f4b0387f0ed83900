"""The lines to other servers: one for each, made when there is something to say, dialled where gossip says at
that moment or else where it was last found, and only to the node that was meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from random import Random
from uuid import UUID

import trio

from adsum.address import Address
from adsum.net import call_frames
from adsum.net.calls import CallConnection, NotSent
from adsum.net.errors import BadPeer, NetError, PeerUnreachable
from adsum.net.gate import Gate, OpenedChannel
from adsum.net.introduction import Purpose
from adsum.servers.last_addresses import LastAddresses

LINES_MAX = 64  # twice the members that consensus may have
RETRY_S = 0.05


@dataclass(slots=True)
class LinkCounters:
    told: int = 0
    dropped: int = 0  # for want of a line, or of room on it
    wrong_node: int = 0  # somebody else answered where a server should be
    retried: int = 0  # asks that could not be sent at first


class Links:
    def __init__(
        self,
        gate: Gate,
        addresses: LastAddresses,
        random: Random,
        lost: Callable[[str], None],
        members: Callable[[], Collection[str]],
        lines_max: int = LINES_MAX,
    ) -> None:
        """`members` keep their lines, whoever else is spoken to. `lost` hears of a node that could not be
        reached: what was sent to it may be gone."""
        self.counters = LinkCounters()
        self._gate = gate
        self._addresses = addresses
        self._random = random
        self._lost = lost
        self._members = members
        self._lines_max = lines_max
        self._lines: dict[str, tuple[CallConnection, trio.CancelScope]] = {}  # the longest idle first
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def tell(self, node: str, topic: str, body: bytes) -> bool:
        line = self._line(node)
        is_told = line is not None and line.tell(topic, body)
        self.counters.told += is_told
        self.counters.dropped += not is_told
        return is_told

    async def ask(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        """What could not be sent is tried again: a line gives up all that waits at the first failed dial."""
        deadline_s = trio.current_time() + timeout_s
        while True:
            left_s = deadline_s - trio.current_time()
            try:
                return await self.ask_once(node, method, body, timeout_s=max(left_s, RETRY_S))
            except NotSent:
                if trio.current_time() + RETRY_S >= deadline_s or len(body) > call_frames.BODY_BYTES_MAX:
                    raise
            self.counters.retried += 1
            await trio.sleep(RETRY_S)

    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes:
        """For what is asked again anyway."""
        line = self._line(node)
        if line is None:
            raise NotSent("this server is connected to as many others as it can be")
        return await line.ask(method, body, timeout_s=timeout_s)

    def _line(self, node: str) -> CallConnection | None:
        made = self._lines.pop(node, None)
        if made is None:
            if self._nursery is None or not self._has_room():
                return None
            line = CallConnection(partial(self._dial, node), Random(self._random.getrandbits(64)))
            made = line, trio.CancelScope()
            self._nursery.start_soon(_run, *made)
        self._lines[node] = made
        return made[0]

    def _has_room(self) -> bool:
        """Of those who are no members, the longest idle makes it."""
        if len(self._lines) >= self._lines_max:
            members = self._members()
            idle = next((node for node in self._lines if node not in members), None)
            if idle is None:
                return False
            self._lines.pop(idle)[1].cancel()
        return True

    async def _dial(self, node: str) -> OpenedChannel:
        problem: NetError = PeerUnreachable(f"nobody knows the address of server {node}")
        for address in self._addresses.addresses_of(node):
            try:
                return await self._dialled(node, address)
            except NetError as error:
                problem = error
        self._lost(node)
        raise problem

    async def _dialled(self, node: str, address: Address) -> OpenedChannel:
        opened = await self._gate.dial(
            address, Purpose.CALLS, payload_bytes_max=call_frames.PAYLOAD_BYTES_MAX
        )
        if str(UUID(bytes=opened.peer.identity.node_id)) != node:
            self.counters.wrong_node += 1
            async with opened.channel:
                raise BadPeer(f"another node answers at {address.host}:{address.port} than {node}")
        self._addresses.found(node, address)
        return opened


async def _run(line: CallConnection, scope: trio.CancelScope) -> None:
    with scope:
        await line.run()
