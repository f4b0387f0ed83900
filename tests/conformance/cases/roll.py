"""What an agent tells of its cluster: coordinates, user events, keyrings, what is near. With one agent it is
the shapes and the refusals that show.
"""

from __future__ import annotations

import base64
from dataclasses import replace

from tests.conformance.case import Case, Family, Look, Request, Setting, Watch, get, put, send
from tests.conformance.worlds import SHOP, WEB1

KEY, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
SEALED = Setting("encrypted", {"encrypt": KEY})
KEYRING = "/v1/operator/keyring"
# Random ids, and an index made from them; the Lamport time counts what an agent did before the case.
EVENT = Look(types=("body.ID",))
EVENTS = Look(types=("body*.ID", "body*.LTime", "headers.X-Consul-Index"))
COORDINATES = Look(types=("body*.Coord.*", "headers.X-Consul-Index"))
ANY_INDEX = Look(ignore=("*index*",))
POOL = Look(unordered=("body",))
# Of Serf's own clocks and queues.
UNCOUNTED = (
    "body.Stats.serf_lan.*_time",
    "body.Stats.serf_lan.*_queue",
    "body.Stats.serf_lan.coordinate_resets",
)


def fire(target: str, payload: str | None = None) -> Request:
    return put(f"/v1/event/fire/{target}", payload, look=EVENT)


def listed(name: str) -> Request:
    """Serf tells its own agent a moment later, too."""
    return get(f"/v1/event/list?name={name}", look=EVENTS, until=f'"{name}"')


def key(method: str, body: object, query: str = "") -> Request:
    return send(method, f"{KEYRING}{query}", body)


EVENT_CASES = (
    Case("event", (fire("plain", "payload"), listed("plain"))),
    Case("event without payload", (fire("empty"), listed("empty"))),
    Case("event with a slash in its name", (fire("a%2Fb"), listed("a/b"))),
    Case("event for this node", (fire("mine?node=%5En1%24"), listed("mine"))),
    Case("event for a service", (fire("web?service=web1&tag=a"), listed("web")), SHOP),
    Case(
        "events for others",
        (
            fire("other?node=n2"),
            fire("other?node=N1"),
            fire("other?service=%5Eweb%24"),
            fire("other?service=web1&tag=zz"),
            fire("last"),
            listed("last"),
            get("/v1/event/list?name=other", look=EVENTS),
        ),
        (WEB1,),
    ),
    Case("event without a name", (put("/v1/event/fire/"),)),
    Case("event with a tag and no service", (put("/v1/event/fire/x?tag=y"),)),
    Case("event with a bad pattern", (put("/v1/event/fire/x?node=("),)),
    Case("event for another datacenter", (put("/v1/event/fire/x?dc=zz"),)),
    Case("event as large as it may be", (fire("x", "p" * 414),)),
    Case("event that is too large", (put("/v1/event/fire/x", "p" * 600),)),
    Case("event with POST", (send("POST", "/v1/event/fire/x"),)),
    Case("events of no name", (get("/v1/event/list?name=none"),)),
    Case("events with a foreign index", (get("/v1/event/list?name=none&index=5&wait=1s"),)),
    Case(
        "waiting for an event",
        (
            Watch(
                "/v1/event/list?name=awaited",
                (put("/v1/event/fire/awaited"),),
                look=Look(ignore=("*index*",)),
            ),
        ),
    ),
    Case("waiting in vain for an event", (Watch("/v1/event/list?name=never"),)),
)

COORDINATE_CASES = (
    Case("place of an unknown node", (get("/v1/coordinate/node/zz"),)),
    Case("place without a node", (get("/v1/coordinate/node/"),)),
    Case("places in a segment", (get("/v1/coordinate/nodes?segment=zz", look=COORDINATES),)),
    Case("map of datacenters", (get("/v1/coordinate/datacenters", look=COORDINATES),)),
    Case("setting a place", (put("/v1/coordinate/update", {"Node": "n1", "Coord": {"Vec": [0.0] * 8}}),)),
)

KEYRING_CASES = (
    Case("keys without encryption", (get(KEYRING),)),
    Case("a key without encryption", (key("POST", {"Key": OTHER}),)),
    Case(
        "keys with a bad relay factor", (get(f"{KEYRING}?relay-factor=9"), get(f"{KEYRING}?relay-factor=x"))
    ),
    Case("keys that are maybe local", (get(f"{KEYRING}?local-only=maybe"),)),
    Case("a key to install locally", (key("POST", {"Key": OTHER}, "?local-only=1"),), setting=SEALED),
    Case("a key without a body", (key("PUT", None),)),
    Case("a key that is no JSON", (key("PUT", "xx"),)),
    Case("a key with PATCH", (key("PATCH", {"Key": OTHER}),)),
    Case("keys", (get(KEYRING, look=POOL), get(f"{KEYRING}?local-only=true", look=POOL)), setting=SEALED),
    Case("no base64 for a key", (key("POST", {"Key": "xx"}),), setting=SEALED),
    Case("a short key", (key("POST", {"Key": "eHg="}),), setting=SEALED),
    Case("using an unknown key", (key("PUT", {"Key": OTHER}),), setting=SEALED),
    Case("removing an unknown key", (key("DELETE", {"Key": OTHER}),), setting=SEALED),
    Case("removing the primary key", (key("DELETE", {"Key": KEY}),), setting=SEALED),
    Case(
        "changing a key and back",
        (
            key("POST", {"Key": OTHER}),
            key("PUT", {"Key": OTHER}),
            get(f"{KEYRING}?local-only=true"),
            key("PUT", {"Key": KEY}),
            key("DELETE", {"Key": OTHER}),
            get(f"{KEYRING}?local-only=true"),
        ),
        setting=SEALED,
    ),
)

NEAR_CASES = tuple(
    Case(f"near: {target}", (get(target),), SHOP)
    for target in (
        "/v1/catalog/nodes?near=_agent",
        "/v1/catalog/nodes?near=zz",
        "/v1/catalog/service/web?near=n1",
        "/v1/health/service/web?near=_agent",
        "/v1/health/state/any?near=_agent",
    )
)

FAMILY = Family("roll", (*EVENT_CASES, *COORDINATE_CASES, *KEYRING_CASES, *NEAR_CASES))

# Of a client of one server, beside another client.
THREE = Setting("three agents, encrypted", {"encrypt": KEY}, arguments=(), others=({}, {}))
SERVER, OTHER_CLIENT = 1, 2
EVERYBODY = Look(unordered=("body",))
COUNTED = Look(only=("status", "body.Member", "body.Stats.consul", "body.Stats.serf_lan.*"), types=UNCOUNTED)


def at(agent: int, request: Request) -> Request:
    return replace(request, at=agent)


CLUSTER_CASES = (
    Case("members", (get("/v1/agent/members", look=EVERYBODY),)),
    Case("members as the server sees them", (at(SERVER, get("/v1/agent/members", look=EVERYBODY)),)),
    Case("members of the WAN, of a client", (get("/v1/agent/members?wan=1"),)),
    Case("self", (get("/v1/agent/self", look=COUNTED),)),
    Case("leader", (get("/v1/status/leader"), get("/v1/status/peers"))),
    Case("datacenters", (get("/v1/catalog/datacenters"),)),
    Case("map of datacenters", (get("/v1/coordinate/datacenters", look=COORDINATES),)),
    Case("event of another", (at(OTHER_CLIENT, fire("told", "payload")), listed("told"))),
    Case(
        "events of another for some",
        (
            at(OTHER_CLIENT, fire("other?node=n2")),
            at(OTHER_CLIENT, fire("other?node=%5En3%24")),
            at(OTHER_CLIENT, fire("last")),
            listed("last"),
            listed("other"),
        ),
    ),
    Case(
        "waiting for an event of another",
        (
            Watch(
                "/v1/event/list?name=awaited",
                (at(OTHER_CLIENT, put("/v1/event/fire/awaited")),),
                wait_ms=2_500,
                look=ANY_INDEX,
            ),
        ),
    ),
    Case("keys, of a client", (get(KEYRING),)),
    Case(
        "changing a key on all",
        (
            at(SERVER, key("POST", {"Key": OTHER})),
            at(SERVER, key("PUT", {"Key": OTHER})),
            at(SERVER, get(f"{KEYRING}?local-only=true")),
            at(SERVER, key("PUT", {"Key": KEY})),
            at(SERVER, key("DELETE", {"Key": OTHER})),
            at(SERVER, get(f"{KEYRING}?local-only=true")),
        ),
    ),
    Case("force-leave of the living", (put("/v1/agent/force-leave/n2"),)),
    Case("joining where one is", (put("/v1/agent/join/127.0.0.1"),)),
)
IN_CLUSTER = Family("roll, three agents", tuple(replace(case, setting=THREE) for case in CLUSTER_CASES))
