"""The lines of a client agent to servers: one for each, made when something is asked, dialled where gossip
says at that moment or else where it was last, and only to the node that was meant.

A line closes its connection when it was not used for some minutes (`net.calls`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import trio

from adsum.address import Address
from adsum.mutable import dataclass
from adsum.net import call_frames
from adsum.net.calls import CallConnection, CallError, Ended, NotSent
from adsum.net.errors import BadPeer, PeerUnreachable
from adsum.net.gate import Gate, OpenedChannel
from adsum.net.introduction import Purpose

LINES_MAX = 32  # as many servers as a cluster may have


@dataclass(slots=True)
class ServerLineCounters:
    wrong_node: int = 0  # somebody else answered where a server should be


class ServerLines:
    def __init__(
        self,
        gate: Gate,
        address_of: Callable[[bytes], Address | None],
        random: Random,
        *,
        lines_max: int = LINES_MAX,
    ) -> None:
        self.counters = ServerLineCounters()
        self._gate = gate
        self._address_of = address_of
        self._random = random
        self._lines_max = lines_max
        self._lines: dict[bytes, tuple[CallConnection, trio.CancelScope]] = {}  # the longest idle first
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def begin(
        self, node_id: bytes, method: str, body: bytes, ended: Ended, *, timeout_s: float
    ) -> Callable[[], CallError]:
        """As `CallConnection.begin`; what is returned gives it up."""
        line = self._line(node_id)
        return partial(line.give_up, line.begin(method, body, ended, timeout_s=timeout_s))

    def _line(self, node_id: bytes) -> CallConnection:
        made = self._lines.pop(node_id, None)
        if made is None:
            if self._nursery is None:
                raise NotSent("this agent has not begun to speak to servers")
            if len(self._lines) >= self._lines_max:
                idlest = next(iter(self._lines))
                self._lines.pop(idlest)[1].cancel()
            line = CallConnection(partial(self._dial, node_id), self._random)
            made = line, trio.CancelScope()
            self._nursery.start_soon(_run, *made)
        self._lines[node_id] = made
        return made[0]

    async def _dial(self, node_id: bytes) -> OpenedChannel:
        address = self._address_of(node_id)
        if address is None:
            raise PeerUnreachable("nobody knows the address of this server")
        opened = await self._gate.dial(address, Purpose.KEYS, payload_bytes_max=call_frames.PAYLOAD_BYTES_MAX)
        if opened.peer.identity.node_id != node_id:
            self.counters.wrong_node += 1
            async with opened.channel:
                raise BadPeer(f"another node answers at {address.host}:{address.port} than the server meant")
        return opened


async def _run(line: CallConnection, scope: trio.CancelScope) -> None:
    with scope:
        await line.run()
