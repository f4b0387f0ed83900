"""The words a conformance case is written in.

A case is data: what the agents were told before (`given`), what is asked (`ask`, one or several exchanges,
each compared), and what of the answer counts (`look`).The same is
sent to real Consul and to Adsum; the runner prints what differs. Differences that are meant are listed in
expected.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True)
class Look:
    """What of an answer is compared. Paths are as in the report (`body[0].Meta`), `*` matches anything."""

    only: tuple[str, ...] = ()
    """Nothing but these and what is below them."""
    ignore: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    """Lists whose order real Consul draws at random."""
    types: tuple[str, ...] = ()
    """Values that differ by construction: only their JSON type counts."""


WHOLE = Look()


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    """Path and query, sent exactly as written."""
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    look: Look = WHOLE
    read_s_max: float = 10.0
    """For streams: stop reading then and compare what came."""
    until: str = ""
    """Ask again until the body holds this text: for what an agent does in its own time."""
    at: int = 0
    """Which agent of a cluster; 0 is the one that is asked."""


@dataclass(frozen=True, slots=True)
class Question:
    name: str
    type: str = "A"
    edns: int | None = None
    tcp: bool = False
    recursion: bool = True
    class_: str = "IN"
    subnet: str | None = None
    counts_only: bool = False
    """Where real Consul picks records at random, their number is compared and not which."""
    look: Look = WHOLE


@dataclass(frozen=True, slots=True)
class Watch:
    """A blocking query on the current index (plus `ahead`), during which `change` is sent."""

    target: str
    change: tuple[Request, ...] = ()
    wait_ms: int = 1000
    ahead: int = 0
    by_hash: bool = False
    """agent/service blocks on a hash of the content instead of an index."""
    body: bool = False
    """Compare the answer itself too, not only when it came and how the index moved."""
    look: Look = WHOLE


@dataclass(frozen=True, slots=True)
class Kill:
    """An agent of a cluster dies without a word."""

    at: int
    look: Look = WHOLE


Ask: TypeAlias = "Request | Question | Watch | Kill"


@dataclass(frozen=True, slots=True)
class Setting:
    """How the agents of a case are started. Cases that share one share the two processes."""

    name: str = "-dev"
    config: Mapping[str, object] = field(default_factory=dict, hash=False)
    arguments: tuple[str, ...] = ("-dev",)
    open: bool = True
    """False where the setting itself keeps the harness from cleaning up and from reading the catalog."""
    others: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    """What the other agents of a cluster are configured with besides. The first of them is its server, and
    all are named n1, n2 … with the one that is asked last."""


DEV = Setting()
RESOLVER = "<the resolver of upstream.py>"
OWN_HTTP = "<the agent's own HTTP address>"
"""In a body: somewhere for a check to go, without a server of the harness."""
INDEX_OF_KEY = "<ModifyIndex of {}>"
"""In a target: what the agent shows of that key when the request is sent; 1 if there is none."""
SESSION = "<session {}>"
"""In a target or body: the id of the session with that name, as the agent lists it at that moment."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    ask: tuple[Ask, ...]
    given: tuple[Request, ...] = ()
    setting: Setting = DEV
    ends_agent: bool = False
    """The exchange stops the process: compare its exit code, and start a new one for the next case."""
    breaks_cluster: bool = False
    """An agent is missing afterwards: start all anew for the next case."""


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    cases: tuple[Case, ...]


def get(target: str, *, look: Look = WHOLE, until: str = "", **headers: str) -> Request:
    return Request("GET", target, None, header_fields(headers), look, until=until)


def put(target: str, body: object = None, *, look: Look = WHOLE, **headers: str) -> Request:
    return Request("PUT", target, body_bytes(body), header_fields(headers), look)


def send(method: str, target: str, body: object = None, *, look: Look = WHOLE, **headers: str) -> Request:
    return Request(method, target, body_bytes(body), header_fields(headers), look)


def register(name: str, **fields: object) -> Request:
    """A service definition in Consul's own spelling: register("web", ID="web1", Port=80)."""
    return put("/v1/agent/service/register", {"Name": name, **fields})


def register_check(name: str, **fields: object) -> Request:
    return put("/v1/agent/check/register", {"Name": name, **fields})


def body_bytes(body: object) -> bytes | None:
    """A string is sent as it stands, so that a case can send what no JSON library would write."""
    if body is None:
        return None
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return dumps(body)


def dumps(value: object) -> bytes:
    return json.dumps(value).encode()


def loads(body: bytes) -> Json:
    value: Json = json.loads(body)
    return value


def header_fields(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.replace("_", "-"), value) for name, value in headers.items())
