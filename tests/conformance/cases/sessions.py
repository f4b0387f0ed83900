"""Sessions and the keys that they hold."""

from __future__ import annotations

from tests.conformance.case import SESSION, Case, Family, Look, Request, Watch, get, put, register, send
from tests.conformance.case import register_check as check

KV, CREATE = "/v1/kv/", "/v1/session/create"
UNKNOWN = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
EMPTY = (send("DELETE", KV + "?recurse"),)
LIST = get("/v1/session/list")


def create(name: str, **fields: object) -> Request:
    return put(CREATE, {"Name": name, "LockDelay": "0s", **fields})


def session(name: str, *ask: Request, given: tuple[Request, ...] = ()) -> Case:
    return Case(f"session: {name}", ask, given)


def lock(name: str, *ask: Request, given: tuple[Request, ...] = ()) -> Case:
    return Case(f"lock: {name}", ask, (*EMPTY, create("one"), create("two"), *given))


CHECKED = (
    check("mine", TTL="100s", Status="passing"),
    check("bad", TTL="100s", Status="critical"),
    check("unsure", TTL="100s", Status="warning"),
    register("web", Check={"TTL": "100s", "Status": "passing"}),
)
ASKED: tuple[object, ...] = (
    None, {}, "null", "", " ", "{nojson", "[]", '"x"', {"Name": "x"}, {"name": "x", "ttl": "15.0s"},
    {"TTL": "10s"}, {"TTL": "0"}, {"TTL": "0s"}, {"TTL": "5s"}, {"TTL": "25h"}, {"TTL": "-10s"},
    {"TTL": "abc"}, {"TTL": 10}, {"TTL": "86400s"}, {"TTL": "10"}, {"TTL": ""},
    {"Behavior": "delete"}, {"Behavior": "release"}, {"Behavior": "zz"}, {"Behavior": ""},
    {"LockDelay": "20s"}, {"LockDelay": 5}, {"LockDelay": 999}, {"LockDelay": 1000},
    {"LockDelay": 5_000_000_000}, {"LockDelay": "99h"}, {"LockDelay": "abc"}, {"LockDelay": True},
    {"LockDelay": "0s"}, {"LockDelay": 0}, {"LockDelay": None},
    {"Node": "n1"}, {"Node": "N1"}, {"Node": "nope"}, {"Node": ""}, {"Node": 5}, {"Node": None},
    {"NodeChecks": []}, {"NodeChecks": None}, {"NodeChecks": ["mine"]}, {"NodeChecks": ["bad"]},
    {"NodeChecks": ["unsure"]}, {"NodeChecks": ["nope"]}, {"NodeChecks": ["serfHealth", "mine"]},
    {"Checks": []}, {"Checks": None}, {"Checks": ["mine"]}, {"Checks": ["bad"]}, {"Checks": ["nope"]},
    {"Checks": [], "NodeChecks": ["mine"]}, {"Checks": ["mine"], "NodeChecks": ["serfHealth"]},
    {"ServiceChecks": [{"ID": "service:web"}]}, {"ServiceChecks": [{"ID": "nope"}]},
    {"ServiceChecks": []}, {"Bogus": 1}, {"ID": UNKNOWN}, {"node_checks": ["mine"]},
)  # fmt: skip
BODIES = tuple(session(f"create {body!r}", put(CREATE, body), LIST, given=CHECKED) for body in ASKED)
QUERIES = tuple(
    session(f"{method} {path}", send(method, f"/v1/session/{path}"), given=(create("one", TTL="10s"),))
    for method, path in (
        ("PUT", "create?dc=dc1"), ("PUT", "create?dc=zz"), ("PUT", "create?ns=x"), ("GET", "create"),
        ("PUT", "destroy/"), ("PUT", "destroy/foo"), ("PUT", f"destroy/{UNKNOWN}"),
        ("PUT", f"destroy/{SESSION.format('one')}"), ("GET", "destroy/x"),
        ("PUT", "renew/"), ("PUT", "renew/foo"), ("PUT", f"renew/{UNKNOWN}"),
        ("PUT", f"renew/{SESSION.format('one')}"), ("GET", "renew/x"),
        ("GET", "info/"), ("GET", "info/foo"), ("GET", f"info/{UNKNOWN}"),
        ("GET", f"info/{SESSION.format('one')}"), ("PUT", "info/x"),
        ("GET", f"info/{SESSION.format('one')}?stale"), ("GET", f"info/z{UNKNOWN[1:]}"),
        ("GET", "node/"), ("GET", "node/n1"), ("GET", "node/N1"), ("GET", "node/nope"), ("PUT", "node/n1"),
        ("GET", "list"), ("GET", "list?stale"), ("GET", "list?consistent"), ("GET", "list?stale&consistent"),
        ("GET", "list?dc=zz"), ("GET", "list?index=x"), ("GET", "list?wait=x"), ("GET", "list?pretty"),
        ("PUT", "list"), ("GET", "list/"), ("GET", "bogus"), ("GET", ""),
    )
)  # fmt: skip
ENDS = (
    session(
        "a check that goes critical",
        put("/v1/agent/check/fail/mine"),
        get("/v1/session/list", until="[]"),
        given=(*CHECKED, create("one", NodeChecks=["mine"])),
    ),
    session(
        "a check that only warns",
        put("/v1/agent/check/warn/mine"),
        get("/v1/session/list"),
        given=(*CHECKED, create("one", NodeChecks=["mine"])),
    ),
    session(
        "a check that is deregistered",
        put("/v1/agent/check/deregister/mine"),
        get("/v1/session/list", until="[]"),
        given=(*CHECKED, create("one", NodeChecks=["mine"])),
    ),
    session(
        "destroyed, with its key",
        put(f"/v1/session/destroy/{SESSION.format('one')}"),
        get(KV + "l"),
        given=(*EMPTY, create("one", Behavior="delete"), put(f"{KV}l?acquire={SESSION.format('one')}", "v")),
    ),
)
FAMILY = Family("sessions", (*BODIES, *QUERIES, *ENDS))

ONE, TWO = SESSION.format("one"), SESSION.format("two")
HELD = (put(f"{KV}l?acquire={ONE}", "v"),)
READ = get(KV + "l")
LOCKS = Family(
    "locks",
    (
        lock("acquire", put(f"{KV}l?acquire={ONE}", "v"), READ, get(KV + "l?raw"), get(KV + "?recurse")),
        lock("acquire again", put(f"{KV}l?acquire={ONE}", "w"), READ, given=HELD),
        lock("acquire with flags", put(f"{KV}l?acquire={ONE}&flags=3304740253564472344", "w"), READ),
        lock("acquire what another holds", put(f"{KV}l?acquire={TWO}", "w"), READ, given=HELD),
        lock("release", put(f"{KV}l?release={ONE}", "w"), READ, given=HELD),
        lock("release with flags", put(f"{KV}l?release={ONE}&flags=7", "w"), READ, given=HELD),
        lock("release what another holds", put(f"{KV}l?release={TWO}", "w"), READ, given=HELD),
        lock("release what nobody holds", put(f"{KV}l?release={ONE}", "w"), READ,
             given=(put(KV + "l", "v"),)),
        lock("release what is not there", put(f"{KV}l?release={ONE}", "w"), READ),
        lock("acquire once it is released", put(f"{KV}l?acquire={TWO}", "w"), READ,
             given=(*HELD, put(f"{KV}l?release={ONE}", "w"))),
        lock("a plain put of a held key", put(KV + "l", "w"), READ, given=HELD),
        lock("a delete of a held key", send("DELETE", KV + "l"), put(f"{KV}l?acquire={TWO}", "w"), READ,
             given=HELD),
        lock("a comparison on a held key", put(KV + "l?cas=0", "w"), READ, given=HELD),
        lock("acquire with a session that ended", put(f"/v1/session/destroy/{ONE}"), READ,
             put(f"{KV}l?acquire={TWO}", "w"), given=HELD),
        *(
            lock(f"PUT {query}", put(f"{KV}l?{query}", "w"), READ, given=HELD)
            for query in (
                "acquire=", "release=", "acquire=foo", "release=foo", f"acquire={UNKNOWN}",
                f"release={UNKNOWN}", f"acquire=z{UNKNOWN[1:]}", f"acquire={UNKNOWN[1:]}",
                f"acquire={ONE}&cas=1", f"acquire={ONE}&release={ONE}", f"acquire={ONE}&flags=x",
            )
        ),
    ),
)  # fmt: skip

WAKES = tuple(
    Case(
        f"session: {watched} wakes by {what}",
        (Watch(f"/v1/session/{watched}", change, wait_ms=500, look=Look(only=("woke", "index"))),),
        (*EMPTY, create("one"), create("two")),
    )
    for watched in ("list", "node/n1", f"info/{ONE}")
    for what, change in (
        ("another session", (create("three"),)),
        ("its end", (put(f"/v1/session/destroy/{ONE}"),)),
        ("a key", (put(KV + "z", "1"),)),
    )
)
WAITING = Family("waiting for sessions", WAKES)
