"""What this agent does and tells for others about what is its own. Calls: a question, an answer.

    catalog.deregister  [service id, check id]   →  []
    catalog.retag       [service id, [tag, …]]   →  []
    catalog.output      [[check id, …]]          →  [[output or null, …]]
    catalog.owners      [after which owner]      →  [[row, …], is more]

Outputs may be long and anybody may ask, so at most five questions a second are answered. In `owners` a row is
what this agent has of one owner, so that another can compare. Whoever asks for a change causes a line in the
log; beyond one a second they are counted in the next.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import cbor2

from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import CommandRefused, DeregisterCheck, DeregisterService, OverrideTags, Submit
from adsum.allowance import Allowance
from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.own_services import OwnServices
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.replication.state import OwnerState
from adsum.effects import AnsweredWith, RefusalCause
from adsum.net.calls import Declined
from adsum.net.framing import MalformedFrame, array
from adsum.net.introduction import Peer
from adsum.now import MILLISECOND, Now
from adsum.peers.peer_rpc import PeerRpc

log = logging.getLogger("agent")

DEREGISTER, RETAG = "catalog.deregister", "catalog.retag"
OUTPUT, OWNERS = "catalog.output", "catalog.owners"

REFUSED, FAILED, MALFORMED, BUSY = "refused", "failed", "malformed", "busy"
OUTPUTS_PER_S = 5
LINES_PER_S = 1
LINES_AT_ONCE = 60
CHECKS_MAX = 256  # in one question
OUTPUT_BYTES_MAX = 1024 * 1024  # of one answer
ROWS_MAX = 2_000
OWNER_BYTES = 8

SERF_HEALTH_SENTENCE = (
    "serfHealth is registered by nobody: it says whether the node is present, as membership has it"
)
DERIVED_SENTENCE = 'The service "{}" says that its node is a server; it goes when that ends.'


class OwnerRow(NamedTuple):
    """What one agent has of one owner, in the order in which it is told."""

    owner: bytes  # the first 8 bytes of its id
    generation: int
    version: int  # the newest it has heard of
    complete_up_to: int
    digest: bytes
    items: int
    size_bytes: int
    confirmed_ms: int  # since it last knew to have all; -1: never
    is_complete: bool


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
        self._untold = 0
        self._outputs = Allowance(a_second=OUTPUTS_PER_S, at_once=OUTPUTS_PER_S)

    # For this agent's own API as well: each raises `Declined`.

    async def deregister(self, service_id: str, check_id: str) -> None:
        """What is not there is as gone as its caller wants it."""
        if service_id:
            if service_id not in self._own.services and self._is_shown(service_id):
                raise Declined(REFUSED, DERIVED_SENTENCE.format(service_id))
            await self._do(DeregisterService(service_id))
        elif check_id == SERF_HEALTH:
            raise Declined(REFUSED, SERF_HEALTH_SENTENCE)
        else:
            await self._do(DeregisterCheck(check_id))

    async def retag(self, service_id: str, tags: tuple[str, ...]) -> None:
        await self._do(OverrideTags(service_id, tags))

    def outputs(self, check_ids: list[str]) -> list[str | None]:
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

    def _is_shown(self, service_id: str) -> bool:
        host = self._published.host
        return host is not None and service_id in host.instances

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
        match _fields(body):
            case [str(service_id), str(check_id), *_] if service_id or check_id:
                change = deregistration(service_id, check_id)
                await self._do_for(caller, change, self.deregister(service_id, check_id))
                return cbor2.dumps([])
        raise Declined(MALFORMED, "nothing to deregister is named")

    async def answer_retag(self, caller: Peer, body: bytes) -> bytes:
        match _fields(body):
            case [str(service_id), list(tags), *_] if all(isinstance(tag, str) for tag in tags):
                wanted = tuple(map(str, tags))
                change = retagging(service_id, wanted)
                await self._do_for(caller, change, self.retag(service_id, wanted))
                return cbor2.dumps([])
        raise Declined(MALFORMED, "no service with tags is named")

    async def answer_output(self, _caller: Peer, body: bytes) -> bytes:
        match _fields(body):
            case [list(check_ids), *_] if len(check_ids) <= CHECKS_MAX:
                if not self._outputs.take(self._clock().monotonic_ns):
                    self.outputs_refused += 1
                    raise Declined(BUSY, f"outputs are told {OUTPUTS_PER_S} times a second at most")
                return cbor2.dumps([self.outputs([str(each) for each in check_ids])])
        raise Declined(MALFORMED, "no checks are named")

    async def answer_owners(self, _caller: Peer, body: bytes) -> bytes:
        match _fields(body):
            case [bytes(after), *_]:
                rows = [row for row in self.rows(self._clock()) if row.owner > after]
                return cbor2.dumps([[list(row) for row in rows[:ROWS_MAX]], len(rows) > ROWS_MAX])
        raise Declined(MALFORMED, "it is not said where to begin")

    async def _do_for(self, caller: Peer, change: str, doing: Awaitable[None]) -> None:
        """Whoever owns what changed finds here who wanted it."""
        asker = self._named(caller)
        try:
            await doing
        except Declined as no:
            self._tell(f"refused what the agent {asker} asked: {change}: {no.text}")
            raise
        self._tell(f"done as the agent {asker} asked: {change}")

    def _tell(self, sentence: str) -> None:
        if not self._lines.take(self._clock().monotonic_ns):
            self._untold += 1
            return
        untold, self._untold = self._untold, 0
        log.info("%s%s", sentence, f" ({untold} more since the last such line)" if untold else "")

    def _named(self, caller: Peer) -> str:
        member = self._cluster.membership.member_by_id(caller.identity.node_id)
        return f"of node {member.profile.name}" if member is not None else f"at {caller.address.host}"


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


def read_rows(answer: bytes) -> tuple[list[OwnerRow], bool]:
    """Raises `MalformedFrame`."""
    match array(answer):
        case [list(rows), bool(is_more), *_]:
            return [_read_row(row) for row in rows], is_more
    raise MalformedFrame("an answer about owners that is none")


def _read_row(row: object) -> OwnerRow:
    match row:
        case [bytes(owner), int(), int(), int(), bytes(), int(), int(), int(), bool(), *_]:
            if len(owner) == OWNER_BYTES:
                return OwnerRow._make(row[: len(OwnerRow._fields)])
    raise MalformedFrame("an owner that is none")


def _fields(body: bytes) -> list[object]:
    try:
        return array(body)
    except MalformedFrame as problem:
        raise Declined(MALFORMED, str(problem)) from None
