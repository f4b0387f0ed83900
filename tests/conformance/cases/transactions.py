"""Transactions, and nodes without an agent."""

from __future__ import annotations

from tests.conformance.case import SESSION, Case, Family, Look, Request, get, put, send
from tests.conformance.cases.sessions import create

KV, TXN = "/v1/kv/", "/v1/txn"
EMPTY = (send("DELETE", KV + "?recurse"), create("one"))
ONE = SESSION.format("one")
UNKNOWN = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
NODE_ID = "adf4238a-882b-9ddc-4a9d-5b6758e4159e"
TOO_LARGE = Look(ignore=("body",))


def kv(verb: str, key: str, **fields: object) -> dict[str, object]:
    return {"KV": {"Verb": verb, "Key": key, **fields}}


def txn(name: str, body: object, *after: Request, query: str = "", look: Look = Look()) -> Case:  # noqa: B008
    given = (*EMPTY, put(KV + "a", "1"), put(KV + "a/b", "2"))
    return Case(f"txn: {name}", (put(TXN + query, body, look=look), *after), given)


TREE = get(KV + "?recurse")
READS = tuple(
    txn(f"{verb} {key}{query}", [kv(verb, key, **fields)], query=query)
    for verb, fields in (
        ("get", {}), ("get-tree", {}), ("check-index", {"Index": 1}), ("check-not-exists", {}),
        ("check-session", {"Session": "x"}),
    )
    for key in ("a", "none")
    for query in ("", "?stale", "?consistent")
)  # fmt: skip
WRITES = tuple(
    txn(f"{verb} {key} {fields}", [kv(verb, key, **fields)], TREE)
    for verb, fields in (
        ("set", {"Value": "YQ==", "Flags": 3}), ("set", {}), ("cas", {"Value": "YQ==", "Index": 0}),
        ("cas", {"Index": 1}), ("lock", {"Session": ONE}), ("lock", {"Session": UNKNOWN}),
        ("lock", {"Session": "foo"}), ("lock", {}), ("unlock", {"Session": ONE}), ("unlock", {}),
        ("delete", {}), ("delete-tree", {}), ("delete-cas", {"Index": 1}), ("delete-cas", {"Index": 0}),
    )
    for key in ("a", "none")
)  # fmt: skip
ASKED: tuple[object, ...] = (
    "", "nojson", "{}", "null", "[]", "[{}]", '[{"KV":null}]', '"x"', "5", [kv("set", "a", Value="!!")],
    [kv("set", "a", Value=5)], [kv("set", "")], [{"Session": {}}], [kv("get", "")],
)  # fmt: skip
BODIES = tuple(txn(f"body {body!r}", body) for body in ASKED)
SEVERAL = (
    txn(
        "each sees those before it",
        [
            kv("set", "x", Value="YQ==", Flags=3), kv("get", "x"), kv("check-not-exists", "y"),
            kv("lock", "x", Value="Yg==", Session=ONE), kv("check-session", "x", Session=ONE),
            kv("unlock", "x", Session=ONE), kv("delete", "x"), kv("delete", "x"), kv("delete-tree", "a"),
            kv("get-tree", "a"),
        ],
        TREE,
    ),
    txn(
        "all that fail are told",
        [
            kv("set", "x", Value="YQ=="), kv("get", "none"), kv("check-index", "x", Index=1),
            kv("cas", "a", Index=1), kv("delete-cas", "a", Index=1), kv("check-not-exists", "a"),
            kv("check-session", "a", Session="foo"), kv("check-index", "none", Index=1),
            kv("unlock", "none", Session="foo"), kv("delete", "none"),
        ],
        TREE,
    ),
    txn("at its limit", [kv("get", "a")] * 64),
    txn("too many", [kv("get", "a")] * 200),
    txn("too large", b" " * 524_289, look=TOO_LARGE),
)  # fmt: skip
FAMILY = Family("transactions", (*READS, *WRITES, *BODIES, *SEVERAL))

REGISTER, DEREGISTER = "/v1/catalog/register", "/v1/catalog/deregister"
GONE = tuple(put(DEREGISTER, {"Node": name}) for name in ("ext", "ext2"))
SHOWN = (get("/v1/catalog/node/ext"), get("/v1/health/node/ext"), get("/v1/health/service/web?passing"))
NODE = {"Node": "ext", "Address": "10.0.0.1"}
CHECK = {"Name": "c", "Status": "passing"}
DEFINITION = {"HTTP": "http://x", "Interval": "10s", "Timeout": 5_000_000_000}


def registered(name: str, *bodies: object, ask: tuple[Request, ...] = ()) -> Case:
    return Case(f"external: {name}", (*(put(REGISTER, body) for body in bodies), *ask, *SHOWN), GONE)


REFUSED: tuple[object, ...] = (
    {}, {"Node": "ext"}, NODE | {"ID": "x"}, NODE | {"Service": {"ID": "s"}},
    NODE | {"Service": {"Service": "s", "Address": "0.0.0.0"}},
    NODE | {"Check": CHECK | {"ServiceID": "nope"}}, NODE | {"Check": CHECK | {"Node": "zz"}},
    NODE | {"Check": {}}, NODE | {"Datacenter": "zz"}, "", "{nojson",
)  # fmt: skip

EXTERNAL = Family(
    "nodes without an agent",
    (
        registered("a node", NODE),
        registered("with all that it may have",
                   NODE | {"ID": NODE_ID, "NodeMeta": {"k": "v"}, "TaggedAddresses": {"wan": "1.2.3.4"}}),
        registered("a service", NODE | {"Service": {"Service": "web", "Port": 80}}),
        registered("a service with all that it may have", NODE | {"Service": {
            "ID": "w1", "Service": "web", "Port": 80, "Tags": ["a", "b"], "Meta": {"k": "v"},
            "Address": "1.2.3.4", "Weights": {"Passing": 3, "Warning": 2}, "EnableTagOverride": True,
            "TaggedAddresses": {"lan": {"Address": "5.6.7.8", "Port": 9}}}}),
        registered("checks", NODE | {"Service": {"Service": "web"}, "Check": CHECK, "Checks": [
            {"Name": "d", "ServiceID": "web", "Status": "passing", "Notes": "n", "Output": "o"}]}),
        registered("a definition", NODE | {"Check": CHECK | {"Definition": DEFINITION}}),
        registered("a check of a service that came before",
                   NODE | {"Service": {"Service": "web", "Tags": ["a"]}},
                   NODE | {"SkipNodeUpdate": True, "Check": CHECK | {"ServiceID": "web"}}),
        registered("anew", NODE, NODE | {"Address": "10.0.0.2", "NodeMeta": {"k": "v"}}),
        registered("nothing but a name", {"Node": "ext", "SkipNodeUpdate": True}),
        registered("deregistered", NODE | {"Check": CHECK, "Service": {"Service": "web"}},
                   ask=tuple(put(DEREGISTER, {"Node": "ext"} | what) for what in (
                       {"CheckID": "c"}, {"ServiceID": "web"}, {"ServiceID": "nope"}, {}, {}))),
        registered("a session there", NODE | {"Check": CHECK}, ask=(
            create("x", Node="ext"), create("y", Node="ext", NodeChecks=[]),
            create("z", Node="EXT", NodeChecks=["c"]),
            get("/v1/session/node/ext", look=Look(unordered=("body",))),
            put(DEREGISTER, {"Node": "ext"}), get("/v1/session/node/ext"))),
        *(
            registered(f"refused: {body!r}", body)
            for body in REFUSED
        ),
        *(
            Case(f"external: in a transaction: {verb}", (put(TXN, operations), *SHOWN), GONE)
            for verb, operations in (
                ("set", [
                    {"Node": {"Verb": "set", "Node": NODE | {"Meta": {"k": "v"}}}},
                    {"Service": {"Verb": "set", "Node": "ext", "Service": {"ID": "w", "Service": "web"}}},
                    {"Check": {"Verb": "set", "Check": CHECK | {"Node": "ext", "CheckID": "c"}}},
                    {"Node": {"Verb": "get", "Node": {"Node": "ext"}}},
                    {"Service": {"Verb": "get", "Node": "ext", "Service": {"ID": "w", "Service": "web"}}},
                    {"Check": {"Verb": "get", "Check": {"Node": "ext", "CheckID": "c"}}},
                ]),
                ("get", [
                    {"Node": {"Verb": "get", "Node": {"Node": "ext"}}},
                    {"Check": {"Verb": "get", "Check": {"Node": "ext", "CheckID": "c"}}},
                ]),
                ("cas", [{"Node": {"Verb": "cas", "Node": NODE | {"ModifyIndex": 1}}}]),
                ("delete", [{"Node": {"Verb": "delete", "Node": {"Node": "ext"}}}]),
                ("bogus", [{"Node": {"Verb": "bogus", "Node": {"Node": "ext"}}}]),
                ("without a node", [
                    {"Service": {"Verb": "set", "Node": "nope", "Service": {"Service": "web"}}},
                    {"Check": {"Verb": "set", "Check": CHECK | {"Node": "nope", "CheckID": "c"}}},
                ]),
            )
        ),
    ),
)  # fmt: skip
