"""Sessions, at /v1/session: created, renewed, destroyed and shown as Consul does.

Whoever accepts a create judges it by its own copy of the catalog; whoever leads judges it again. Answers to
renewals come from a proven leader only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import trio
from msgspec import Struct

from adsum.api import parameters, shapes
from adsum.api.agent_self import SESSION_TTL_NS_MIN
from adsum.api.answers import encoded_answer, json_answer
from adsum.api.api_types import ApiParts, EndpointFamily
from adsum.api.blocking import FAILED_META, check_consistency, parse_asked
from adsum.api.bodies import decode_json, refusing_definitions
from adsum.api.kv import why_no_session_id
from adsum.api.session_judging import SeenNode, judged, topics_of
from adsum.api.store_access import StoreAccess, meta_of, mode_of, refusal_text
from adsum.catalog.decode import Fields
from adsum.catalog.model import SERF_HEALTH
from adsum.catalog.spelling import canonical_key
from adsum.durations import BadDuration, format_duration, parse_duration
from adsum.http.request import Request, TakesAnswer
from adsum.http.response import TRUE, HeaderList, Response, text
from adsum.http.router import HttpRefusal, Route
from adsum.kv import KeyRefusal, StoreAnswer, StoreOutcome
from adsum.now import HOUR, MILLISECOND, SECOND
from adsum.session import Session, SessionBehavior, SessionCreate, SessionDestroy
from adsum.store_requests import SessionRead, SessionShape
from adsum.topics import Watching

TTL_NS_MAX = 24 * HOUR
LOCK_DELAY_NS = 15 * SECOND  # unless another is asked for
SECONDS_BELOW = 1_000  # a smaller number is one of seconds, a larger one of nanoseconds
BODY = "struct { LockDelay interface {}; *structs.Alias }"  # Go's name for it
LOOK_S = 0.25  # whether this agent has compared its copy with anybody by now
SESSIONS_PER_TURN = 1_024  # some 2 ms
BEHAVIORS = {
    "": SessionBehavior.RELEASE,
    "release": SessionBehavior.RELEASE,
    "delete": SessionBehavior.DELETE,
}


class ServiceCheckEntry(Struct, frozen=True, gc=False):
    ID: str
    Namespace: str = ""


class SessionEntry(Struct, frozen=True, gc=False):
    """As Consul shows it, in its order."""

    ID: str
    Name: str
    Node: str
    LockDelay: int
    Behavior: str
    TTL: str
    NodeChecks: tuple[str, ...]
    ServiceChecks: list[ServiceCheckEntry] | None
    CreateIndex: int
    ModifyIndex: int


class SessionAsked(NamedTuple):
    name: str
    node: str
    lock_delay_ns: int
    behavior: SessionBehavior
    ttl: str
    ttl_ns: int
    node_checks: tuple[str, ...]
    service_checks: tuple[str, ...]


class SessionEndpoints(EndpointFamily):
    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._access = StoreAccess(parts.agent, parts.random)

    def routes(self) -> list[Route]:
        return [
            Route(("PUT",), "/v1/session/create", self.create, begin=self.begin_create),
            Route(("PUT",), "/v1/session/destroy/", self.destroy, rest=True, begin=self.begin_destroy),
            Route(("PUT",), "/v1/session/renew/", self.renew, rest=True, begin=self.begin_renew),
            Route(("GET",), "/v1/session/info/", self.info, rest=True),
            Route(("GET",), "/v1/session/node/", self.of_node, rest=True),
            Route(("GET",), "/v1/session/list", self.all),
        ]

    # What needs no task of its own: none of it waits for anything but the store.

    def begin_create(self, request: Request, _rest: str, answered: TakesAnswer) -> bool:
        asked = self._asked_to_create(request)
        agent = self._agent
        checks = (*asked.node_checks, *asked.service_checks)
        seen = judged(agent.cluster, agent.view, asked.node, checks)
        if not isinstance(seen, SeenNode):
            return False
        session = self._session(asked, seen)
        self._write(SessionCreate(session), answered, partial(self._created, request, session.id))
        return True

    def begin_destroy(self, request: Request, session_id: str, answered: TakesAnswer) -> bool:
        self._check_named(request, session_id)
        self._write(SessionDestroy(session_id), answered, partial(self._destroyed, request))
        return True

    def begin_renew(self, request: Request, session_id: str, answered: TakesAnswer) -> bool:
        self._check_named(request, session_id)

        def take(renewed: Session | KeyRefusal | None) -> None:
            if isinstance(renewed, KeyRefusal):
                answered(refusal_text(renewed))
            else:
                answered(self._renewed(request, session_id, renewed))

        self._agent.keys.renew(session_id, take)
        return True

    async def create(self, request: Request, _rest: str) -> Response:
        asked = self._asked_to_create(request)
        session = self._session(asked, await self._seen(request, asked))
        written = await self._access.write(request, SessionCreate(session))
        return self._created(request, session.id, written)

    async def destroy(self, request: Request, session_id: str) -> Response:
        self._check_named(request, session_id)
        written = await self._access.write(request, SessionDestroy(session_id))
        return self._destroyed(request, written)

    async def renew(self, request: Request, session_id: str) -> Response:
        self._check_named(request, session_id)
        return self._renewed(request, session_id, await self._access.renew(request, session_id))

    async def info(self, request: Request, session_id: str) -> Response:
        self._check(request, FAILED_META)
        check_session_id(session_id, FAILED_META)
        return await self._listed(request, SessionShape.ONE, session_id)

    async def of_node(self, request: Request, node: str) -> Response:
        self._check(request, FAILED_META)
        if not node:
            raise HttpRefusal(400, "Missing node name")
        return await self._listed(request, SessionShape.OF_NODE, node)

    async def all(self, request: Request, _rest: str) -> Response:
        self._check(request, FAILED_META)
        return await self._listed(request, SessionShape.ALL, "")

    def _asked_to_create(self, request: Request) -> SessionAsked:
        self._check(request)
        own_node = self._agent.cluster.membership.me.name
        ttl_ns_min = self._agent.config.session_ttl_min_ns or SESSION_TTL_NS_MIN
        return session_asked(request.body, own_node, ttl_ns_min)

    def _session(self, asked: SessionAsked, seen: SeenNode) -> Session:
        return Session(
            str(uuid4()),
            asked.node,
            *seen,
            name=asked.name,
            ttl=asked.ttl,
            ttl_ms=math.ceil(asked.ttl_ns / MILLISECOND),
            lock_delay_ns=asked.lock_delay_ns,
            behavior=asked.behavior,
            node_checks=asked.node_checks,
            service_checks=asked.service_checks,
            created_ms=self._agent.now().wall_ms,
        )

    def _write(
        self,
        change: SessionCreate | SessionDestroy,
        answered: TakesAnswer,
        told: Callable[[StoreAnswer], Response],
    ) -> None:
        def take(written: StoreAnswer | KeyRefusal) -> None:
            answered(refusal_text(written) if isinstance(written, KeyRefusal) else told(written))

        self._agent.keys.write(change, take)

    def _created(self, request: Request, session_id: str, written: StoreAnswer) -> Response:
        if written.outcome is not StoreOutcome.DONE:
            return text(500, written.extras.sentence if written.extras is not None else "")
        return json_answer(self._agent, request, {"ID": session_id})

    def _destroyed(self, request: Request, _written: StoreAnswer) -> Response:
        return encoded_answer(self._agent, request, TRUE.body.plain)

    def _renewed(self, request: Request, session_id: str, session: Session | None) -> Response:
        if session is None:
            return text(404, f"Session id '{session_id}' not found")
        return json_answer(self._agent, request, [shown(session)])

    async def _listed(self, request: Request, shape: SessionShape, name: str) -> Response:
        found = await self._access.sessions(request, SessionRead(shape, name, mode_of(request.query)))
        sessions, pieces = found.sessions, list[bytes]()
        for turn in range(0, len(sessions), SESSIONS_PER_TURN):
            if turn:
                await trio.lowlevel.checkpoint()
            entries = [shown(session) for session in sessions[turn : turn + SESSIONS_PER_TURN]]
            pieces.append(shapes.encode(entries)[1:-1])
        meta = meta_of(found.index, has_leader=found.has_leader, behind_ms=found.behind_ms)
        return encoded_answer(self._agent, request, shapes.list_of(pieces), headers=meta)

    async def _seen(self, request: Request, asked: SessionAsked) -> SeenNode:
        """Of the node that it belongs to; held for a while where this agent may only not have heard of it."""
        agent, checks = self._agent, (*asked.node_checks, *asked.service_checks)
        until_s = trio.current_time() + agent.config.consensus.rpc_hold_timeout_ns / SECOND
        with Watching(agent.watches, topics_of(asked.node), request.wake):
            while True:
                seen = judged(agent.cluster, agent.view, asked.node, checks)
                if isinstance(seen, SeenNode):
                    return seen
                if not seen.may_come or trio.current_time() >= until_s:
                    raise HttpRefusal(500, seen.sentence)
                await request.park(min(until_s, trio.current_time() + LOOK_S))

    def _check_named(self, request: Request, session_id: str) -> None:
        self._check(request)
        check_session_id(session_id)

    def _check(self, request: Request, headers: HeaderList = ()) -> None:
        if b"?" not in request.target:
            return
        parse_asked(request.query, self._agent)
        check_consistency(request.query)
        parameters.check_datacenter(request.query, self._agent.config.datacenter, headers)
        parameters.check_namespace(request.query)


def check_session_id(session_id: str, headers: HeaderList = ()) -> None:
    if not session_id:
        raise HttpRefusal(400, "Missing session")
    if problem := why_no_session_id(session_id):
        raise HttpRefusal(500, problem, headers)


def session_asked(body: bytes, own_node: str, ttl_ns_min: int) -> SessionAsked:
    raw = decode_json(body) if body else None
    with refusing_definitions():
        fields = Fields(raw, type_name=BODY)
        given = {canonical_key(str(key)) for key in raw} if isinstance(raw, dict) else set[str]()
        node = fields.text("Node") if fields.value("Node") is not None else own_node
        name, ttl, behavior = fields.text("Name"), fields.text("TTL"), fields.text("Behavior")
        lock_delay_ns = _lock_delay_ns(fields.value("LockDelay"))
        node_checks = _node_checks(fields, given)
        service_checks = tuple(
            Fields(each, type_name="structs.ServiceCheck", outer="ServiceChecks").text("ID")
            for each in fields.items("ServiceChecks", wanted="[]structs.ServiceCheck")
        )
    if not node:
        raise HttpRefusal(500, "Must provide Node")
    if behavior not in BEHAVIORS:
        raise HttpRefusal(500, f"Invalid Behavior setting '{behavior}'")
    ttl_ns = _ttl_ns(ttl, ttl_ns_min)
    return SessionAsked(
        *(name, node, lock_delay_ns, BEHAVIORS[behavior], ttl, ttl_ns, node_checks, service_checks)
    )


def shown(session: Session) -> SessionEntry:
    return SessionEntry(
        session.id,
        session.name,
        session.node,
        session.lock_delay_ns,
        session.behavior.name.lower(),
        session.ttl,
        session.node_checks,
        [ServiceCheckEntry(check_id) for check_id in session.service_checks] or None,
        session.create,
        session.modify,
    )


def _node_checks(fields: Fields, given: set[str]) -> tuple[str, ...]:
    """Those of the old field `Checks` come along. One that is there and empty asks for none at all, and so
    does a null under the new name."""
    old = fields.texts("Checks")
    checks = fields.texts("NodeChecks")
    is_none_wanted = fields.value("Checks") is not None and not old
    if "nodechecks" not in given and not is_none_wanted:
        checks = (SERF_HEALTH,)
    return (*checks, *[check_id for check_id in old if check_id not in checks])


def _lock_delay_ns(raw: object) -> int:
    if raw is None:
        return LOCK_DELAY_NS
    if isinstance(raw, str):
        try:
            return parse_duration(raw)
        except BadDuration as bad:
            raise HttpRefusal(400, f"Request decode failed: {bad}") from None
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return 0  # as Consul takes what is no duration
    ns = max(-(2**63), min(raw, 2**63 - 1))
    return max(-(2**63), int(ns * SECOND)) if ns < SECONDS_BELOW else int(ns)


def _ttl_ns(ttl: str, ttl_ns_min: int) -> int:
    """0 if it does not expire."""
    if not ttl:
        return 0
    try:
        ns = parse_duration(ttl)
    except BadDuration as bad:
        raise HttpRefusal(500, f"Session TTL '{ttl}' invalid: {bad}") from None
    if ns and not ttl_ns_min <= ns <= TTL_NS_MAX:
        bounds = f"[{format_duration(ttl_ns_min)}={format_duration(TTL_NS_MAX)}]"
        raise HttpRefusal(500, f"Invalid Session TTL '{ns}', must be between {bounds}")
    return ns
