"""What this agent does and tells for others about what is its own: the answers to `owner_calls`.

Outputs may be long and anybody may ask, so at most five questions a second are answered. Whoever asks for a
change causes a line in the log; beyond one a second they are counted in the next.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import CommandRefused, DeregisterCheck, DeregisterService, OverrideTags, Submit
from adsum.allowance import Allowance
from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.own_services import OwnServices
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.replication.state import OwnerState
from adsum.effects import AnsweredWith, RefusalCause
from adsum.net.calls import Declined
from adsum.net.framing import MalformedFrame, Read, ReadsRows, read
from adsum.net.introduction import Peer
from adsum.now import MILLISECOND, Now
from adsum.peers.owner_calls import (
    AFTER_OWNER,
    DEREGISTER,
    DEREGISTRATION,
    DONE,
    OUTPUT,
    OWNERS,
    RETAG,
    RETAGGING,
    TOLD_OUTPUTS,
    TOLD_OWNERS,
    WANTED_OUTPUTS,
    OwnerRow,
)
from adsum.peers.peer_rpc import PeerRpc

log = logging.getLogger("agent")

REFUSED, FAILED, MALFORMED, BUSY = "refused", "failed", "malformed", "busy"
OUTPUTS_PER_S = 5
LINES_PER_S = 1
LINES_AT_ONCE = 60
OUTPUT_BYTES_MAX = 1024 * 1024  # of one answer
ROWS_MAX = 2_000

SERF_HEALTH_SENTENCE = (
    "serfHealth is registered by nobody: it says whether the node is present, as membership has it"
)
DERIVED_SENTENCE = 'The service "{}" says that its node is a server; it goes when that ends.'


class PeerHandlers:
    def __init__(
        self,
        cluster: ClusterState,
        published: OwnCatalogWriter,
        own: OwnServices,
        submit: Submit,
        clock: Callable[[], Now],
    ) -> None:
        self.outputs_refused = 0
        self._cluster = cluster
        self._published = published
        self._own = own
        self._submit = submit
        self._clock = clock
        self._lines = Allowance(a_second=LINES_PER_S, at_once=LINES_AT_ONCE)
        self._left_out = 0
        self._outputs = Allowance(a_second=OUTPUTS_PER_S, at_once=OUTPUTS_PER_S)

    # For this agent's own API as well: each raises `Declined`.

    async def deregister(self, service_id: str, check_id: str) -> None:
        """What is not there is as gone as its caller wants it."""
        if service_id:
            host = self._published.host
            is_shown = host is not None and service_id in host.instances
            if is_shown and service_id not in self._own.services:
                raise Declined(REFUSED, DERIVED_SENTENCE.format(service_id))
            await self._do(DeregisterService(service_id))
        elif check_id == SERF_HEALTH:
            raise Declined(REFUSED, SERF_HEALTH_SENTENCE)
        else:
            await self._do(DeregisterCheck(check_id))

    async def retag(self, service_id: str, tags: tuple[str, ...]) -> None:
        await self._do(OverrideTags(service_id, tags))

    def outputs(self, check_ids: Iterable[str]) -> list[str | None]:
        """As long as they are; what has no room is null, and what is not here."""
        found: list[str | None] = []
        room_bytes = OUTPUT_BYTES_MAX
        for check_id in check_ids:
            check = self._own.checks.get(check_id)
            output = self._own.published_check(check).output if check is not None else None
            room_bytes -= len(output) if output else 0
            found.append(output if room_bytes >= 0 else None)
        return found

    def rows(self, now: Now) -> list[OwnerRow]:
        replication = self._cluster.sharing.replication
        rows = []
        for owner, holding in replication.owners().items():
            if holding.state is not None:
                confirmed_ns = replication.confirmed_ns(owner)
                ago_ms = (now.monotonic_ns - confirmed_ns) // MILLISECOND if confirmed_ns is not None else -1
                rows.append(row_of(holding.state, ago_ms))
        rows.sort(key=lambda row: row.owner)
        return rows

    async def _do(self, command: AnsweredWith[None]) -> None:
        try:
            await self._submit(command)
        except CommandRefused as refused:
            code = FAILED if refused.refusal.cause is RefusalCause.FAILED else REFUSED
            raise Declined(code, refused.refusal.sentence) from None

    # For others.

    def register(self, peer_rpc: PeerRpc) -> None:
        peer_rpc.register(DEREGISTER, self.answer_deregister, is_change=True)
        peer_rpc.register(RETAG, self.answer_retag, is_change=True)
        peer_rpc.register(OUTPUT, self.answer_output)
        peer_rpc.register(OWNERS, self.answer_owners)

    async def answer_deregister(self, caller: Peer, body: bytes) -> bytes:
        service_id, check_id = _asked(DEREGISTRATION, body)
        if not service_id and not check_id:
            raise Declined(MALFORMED, "nothing to deregister is named")
        change = deregistration(service_id, check_id)
        await self._do_for(caller, change, self.deregister(service_id, check_id))
        return DONE

    async def answer_retag(self, caller: Peer, body: bytes) -> bytes:
        service_id, tags = _asked(RETAGGING, body)
        await self._do_for(caller, retagging(service_id, tags), self.retag(service_id, tags))
        return DONE

    async def answer_output(self, _caller: Peer, body: bytes) -> bytes:
        (check_ids,) = _asked(WANTED_OUTPUTS, body)
        if not self._outputs.take(self._clock().monotonic_ns):
            self.outputs_refused += 1
            raise Declined(BUSY, f"outputs are told {OUTPUTS_PER_S} times a second at most")
        return TOLD_OUTPUTS.bytes_of(self.outputs(check_ids))

    async def answer_owners(self, _caller: Peer, body: bytes) -> bytes:
        (after,) = _asked(AFTER_OWNER, body)
        rows = [row for row in self.rows(self._clock()) if row.owner > after]
        return TOLD_OWNERS.bytes_of(rows[:ROWS_MAX], len(rows) > ROWS_MAX)

    async def _do_for(self, caller: Peer, change: str, doing: Awaitable[None]) -> None:
        """Whoever owns what changed finds here who wanted it."""
        member = self._cluster.membership.member_by_id(caller.identity.node_id)
        asker = f"of node {member.profile.name}" if member is not None else f"at {caller.address.host}"
        try:
            await doing
        except Declined as no:
            self._log(f"refused what the agent {asker} asked: {change}: {no.text}")
            raise
        self._log(f"done as the agent {asker} asked: {change}")

    def _log(self, sentence: str) -> None:
        if not self._lines.take(self._clock().monotonic_ns):
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        log.info("%s%s", sentence, f" ({left_out} more since the last such line)" if left_out else "")


def row_of(state: OwnerState, confirmed_ms: int = -1) -> OwnerRow:
    return OwnerRow(
        owner=state.owner,
        generation=state.generation,
        version=state.version,
        complete_up_to=state.low_water,
        digest=state.digest.to_bytes(8, "big"),
        items=sum(1 for _ in state.live()),
        size_bytes=state.size_bytes,
        confirmed_ms=confirmed_ms,
        is_complete=state.is_complete,
    )


def deregistration(service_id: str, check_id: str) -> str:
    """In words for the log, here as at whoever asks for it."""
    return f"deregister service={service_id}" if service_id else f"deregister check={check_id}"


def retagging(service_id: str, tags: tuple[str, ...]) -> str:
    return f"change tags of service={service_id} to {list(tags)}"


def _asked(table: ReadsRows[Read], body: bytes) -> Read:
    try:
        return read(table, body)
    except MalformedFrame as problem:
        raise Declined(MALFORMED, str(problem)) from None
