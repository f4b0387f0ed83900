"""/v1/agent/service/* and /v1/agent/services: registration, its defaults and refusals, reading back,
maintenance.
"""

from __future__ import annotations

from tests.conformance.case import Ask, Case, Family, Look, get, put, register, send
from tests.conformance.worlds import DB, PLAIN, SHOP, TTL, WEB, WEB1, check_passes, ttl

SERVICES = get("/v1/agent/services")
CHECKS = get("/v1/agent/checks")
# 1.8.7 writes the default reason of a maintenance in its own words.
ANY_ORDER = Look(unordered=("body", "body.Checks", "body[*].Checks"))
REASON = Look(ignore=("body*.Notes",))

# Consul's alias runs a moment later, and its result now and then misses the next push to the catalog.
SHADOW = put(
    "/v1/agent/service/register",
    {"Name": "shadow", "Check": {"AliasService": "web1"}},
    look=Look(ignore=("catalog follows",)),
)


def refused(name: str, **fields: object) -> Case:
    """A registration that is answered with an error, and leaves nothing behind."""
    return Case(f"refused: {name}", (register("x", **fields), SERVICES, CHECKS))


def registered(name: str, *asks: Ask) -> Case:
    return Case(name, (*asks, SERVICES, CHECKS))


READING = (
    Case("services of an empty agent", (SERVICES,)),
    Case("services", (SERVICES,), SHOP),
    Case("one service", (get("/v1/agent/service/web1"),), SHOP),
    Case("one service with tagged addresses and meta", (get("/v1/agent/service/db1"),), SHOP),
    Case("one service without anything", (get("/v1/agent/service/plain"),), SHOP),
    Case("an unknown service", (get("/v1/agent/service/zz"),), SHOP),
    Case("no service id", (get("/v1/agent/service/"),), SHOP),
    Case("service ids are matched exactly", (get("/v1/agent/service/WEB1"),), SHOP),
    Case(
        "health of an instance that passes", (get("/v1/agent/health/service/id/web1", look=ANY_ORDER),), SHOP
    ),
    Case(
        "health of an instance that warns", (get("/v1/agent/health/service/id/web2", look=ANY_ORDER),), SHOP
    ),
    Case(
        "health of an instance that is critical",
        (get("/v1/agent/health/service/id/web3", look=ANY_ORDER),),
        SHOP,
    ),
    Case("health of an unknown instance", (get("/v1/agent/health/service/id/zz", look=ANY_ORDER),), SHOP),
    Case(
        "health of an instance without checks",
        (get("/v1/agent/health/service/id/plain", look=ANY_ORDER),),
        (PLAIN,),
    ),
    Case(
        "health of an instance as text",
        tuple(
            get(f"/v1/agent/health/service/id/{each}?format=text", look=ANY_ORDER)
            for each in ("web1", "web2", "web3", "zz")
        ),
        SHOP,
    ),
    Case("health as text by Accept", (get("/v1/agent/health/service/id/web1", Accept="text/plain"),), SHOP),
    Case(
        "health in an unknown format",
        (get("/v1/agent/health/service/id/web1?format=yaml", look=ANY_ORDER),),
        SHOP,
    ),
    Case(
        "health by name is the worst of all", (get("/v1/agent/health/service/name/web", look=ANY_ORDER),), WEB
    ),
    Case(
        "health by name as text", (get("/v1/agent/health/service/name/web?format=text", look=ANY_ORDER),), WEB
    ),
    Case(
        "health by name of one that passes", (get("/v1/agent/health/service/name/db", look=ANY_ORDER),), SHOP
    ),
    Case("health by an unknown name", (get("/v1/agent/health/service/name/zz", look=ANY_ORDER),), SHOP),
    Case(
        "health by an unknown name as text",
        (get("/v1/agent/health/service/name/zz?format=text", look=ANY_ORDER),),
        SHOP,
    ),
    Case("health without an id", (get("/v1/agent/health/service/id/", look=ANY_ORDER),), SHOP),
    Case("health without a name", (get("/v1/agent/health/service/name/", look=ANY_ORDER),), SHOP),
    Case(
        "a critical node check makes every instance critical",
        (
            put("/v1/agent/check/fail/mem"),
            get("/v1/agent/health/service/id/web1", look=ANY_ORDER),
            get("/v1/agent/health/service/name/db?format=text", look=ANY_ORDER),
        ),
        SHOP,
    ),
)

REGISTERING = (
    registered("a name is enough", register("web")),
    registered(
        "id, tags, address, port, meta", register("web", ID="w1", Tags=["a"], Address="10.0.0.1", Port=1)
    ),
    registered("one check without an id", register("web", ID="w1", Check=ttl("passing"))),
    registered("two checks without ids", register("web", ID="w1", Checks=[ttl("passing"), ttl("warning")])),
    registered("a check beside a list of one", register("w", Check={"TTL": TTL}, Checks=[{"TTL": TTL}])),
    registered("checks start critical", register("web", Check={"TTL": TTL})),
    registered("a check with an id of its own", register("web", Check={"TTL": TTL, "CheckID": "mine"})),
    registered("a check with ID for CheckID", register("web", Check={"TTL": TTL, "ID": "mine"})),
    registered("a check with a name and notes", register("web", Check=ttl("passing", Name="N", Notes="why"))),
    registered("an empty check is no check", register("web", Check={}, Checks=[{}])),
    registered("HTTP check", register("web", Check={"HTTP": "http://127.0.0.1:1/", "Interval": "1h"})),
    registered("TCP check", register("web", Check={"TCP": "127.0.0.1:1", "Interval": "1h", "Timeout": "1s"})),
    registered("gRPC check", register("web", Check={"GRPC": "127.0.0.1:1", "Interval": "1h"})),
    registered("alias check", WEB1, SHADOW),
    registered("meta and weights", register("web", Meta={"k": "v"}, Weights={"Passing": 10, "Warning": 1})),
    registered("only one weight", register("web", Weights={"Passing": 10})),
    registered(
        "tagged addresses", register("web", TaggedAddresses={"wan": {"Address": "192.0.2.1", "Port": 8}})
    ),
    registered("tag override", register("web", EnableTagOverride=True)),
    registered("names need not be DNS labels", register("My_Svc.X"), register("x y")),
    registered("an id with a slash", register("web", ID="a/b", Check=ttl("passing"))),
    registered("duplicate tags stay", register("web", Tags=["a", "a", "b"])),
    registered(
        "a proxy service", register("p", Kind="connect-proxy", Port=1, Proxy={"DestinationServiceName": "w"})
    ),
    registered(
        "a proxy service in snake case",
        register("p", Kind="connect-proxy", Port=1, Proxy={"destination_service_name": "w"}),
    ),
    registered("connect native", register("w", Connect={"Native": True})),
    registered(
        "registering again replaces the service and keeps the status of its checks",
        register("web", ID="w1", Port=1, Check=ttl("critical")),
        check_passes("service:w1?note=fine"),
        register("web", ID="w1", Port=2, Tags=["new"], Check={"TTL": TTL}),
    ),
    registered(
        "registering again without checks keeps them",
        register("web", ID="w1", Checks=[ttl("passing"), ttl("passing")]),
        register("web", ID="w1"),
    ),
    registered(
        "replace-existing-checks drops the others",
        register("web", ID="w1", Checks=[ttl("passing", CheckID="one"), ttl("passing", CheckID="two")]),
        put(
            "/v1/agent/service/register?replace-existing-checks=true",
            {"Name": "web", "ID": "w1", "Check": {"TTL": TTL, "CheckID": "three"}},
        ),
    ),
    registered(
        "replace-existing-checks with no value",
        register("web", ID="w1", Checks=[ttl("passing", CheckID="one"), ttl("passing", CheckID="two")]),
        put("/v1/agent/service/register?replace-existing-checks", {"Name": "web", "ID": "w1"}),
    ),
    registered("an id can move to another name", register("web", ID="w1"), register("api", ID="w1")),
    registered(
        "the token of a registration is not shown",
        register("web", Token="secret", Check=ttl("passing", Token="s")),
    ),
    registered("a check status in a registration", register("web", Check={"TTL": TTL, "Status": "warning"})),
    registered("a sidecar", register("web", Port=80, Connect={"SidecarService": {}})),
)

REFUSALS = (
    Case("refused: no name", (put("/v1/agent/service/register", {"Port": 80}), SERVICES)),
    Case("refused: an empty name", (register(""), SERVICES)),
    refused("address 0.0.0.0", Address="0.0.0.0"),
    refused("address ::", Address="::"),
    refused("address [::]", Address="[::]"),
    refused("interval and TTL", Check={"TTL": "10s", "Interval": "10s", "HTTP": "http://x"}),
    refused("no interval", Check={"HTTP": "http://127.0.0.1:1"}),
    refused("a check of no kind", Check={"Name": "x"}),
    refused("a check of no kind with an interval", Check={"Interval": "10s"}),
    refused("a negative TTL", Check={"TTL": "-5s"}),
    refused("an alias with an interval", Check={"AliasService": "w", "Interval": "1s"}),
    refused("an alias with a TTL", Check={"AliasService": "w", "TTL": "1s"}),
    refused("a negative output size", Check={"TTL": "10s", "OutputMaxSize": -1}),
    refused("the second check", Checks=[{"TTL": TTL}, {"Interval": "10s", "TTL": "1s"}]),
    refused("a check status", Check={"TTL": TTL, "Status": "fine"}),
    refused("a script while scripts are off", Check={"Args": ["true"], "Interval": "10s"}),
    refused("weights of zero", Weights={"Passing": 0, "Warning": 1}),
    refused("weights below zero", Weights={"Passing": 1, "Warning": -1}),
    refused("weights above 65535", Weights={"Passing": 65536, "Warning": 1}),
    refused("meta key characters", Meta={"bad key": "1"}),
    refused("meta key empty", Meta={"": "1"}),
    refused("meta key length", Meta={"k" * 129: "1"}),
    refused("meta value length", Meta={"k": "v" * 513}),
    refused("meta reserved prefix", Meta={"consul-x": "1"}),
    refused("too many meta pairs", Meta={f"k{number}": "v" for number in range(65)}),
    refused("an unknown kind", Kind="nonsense"),
    refused("a proxy without a destination", Kind="connect-proxy", Port=1),
    refused("a proxy without anything", Kind="connect-proxy"),
    refused(
        "a native proxy",
        Kind="connect-proxy",
        Port=1,
        Connect={"Native": True},
        Proxy={"DestinationServiceName": "w"},
    ),
    refused("a gateway without a port", Kind="mesh-gateway"),
    refused("a gateway with a destination", Kind="ingress-gateway", Proxy={"DestinationServiceName": "w"}),
    refused("a tagged address without an address", TaggedAddresses={"wan": {"Port": 1}}),
    refused("a tagged address 0.0.0.0", TaggedAddresses={"wan": {"Address": "0.0.0.0", "Port": 1}}),
    refused("a negative port", Port=-1),
    refused("a port above 65535", Port=65536),
    refused("a bad threshold", Check={"TTL": TTL, "SuccessBeforePassing": -1}),
)

LEAVING = (
    registered("deregister", put("/v1/agent/service/deregister/w1")),
    Case(
        "deregister takes the checks with it",
        (put("/v1/agent/service/deregister/db1"), SERVICES, CHECKS),
        (DB, PLAIN),
    ),
    Case("deregister an unknown id", (put("/v1/agent/service/deregister/zz"),), SHOP),
    Case("deregister without an id", (put("/v1/agent/service/deregister/"),), SHOP),
    registered(
        "deregister an id with a slash", register("w", ID="a/b"), put("/v1/agent/service/deregister/a/b")
    ),
    registered(
        "deregister an id with an encoded slash",
        register("w", ID="a/b"),
        put("/v1/agent/service/deregister/a%2Fb"),
    ),
    registered(
        "deregister an id with a space", register("w", ID="a b"), put("/v1/agent/service/deregister/a%20b")
    ),
    Case("deregister with a body", (put("/v1/agent/service/deregister/web1", {"x": 1}), SERVICES), (WEB1,)),
    Case(
        "service maintenance and back",
        (
            put("/v1/agent/service/maintenance/web1?enable=true&reason=upgrade"),
            CHECKS,
            get("/v1/agent/health/service/name/web?format=text", look=ANY_ORDER),
            get("/v1/agent/health/service/id/web1", look=ANY_ORDER),
            get("/v1/health/service/web?passing"),
            put("/v1/agent/service/maintenance/web1?enable=false"),
            CHECKS,
        ),
        (WEB1,),
    ),
    Case(
        "service maintenance as python says it, without a reason",
        (
            put("/v1/agent/service/maintenance/web1?enable=True"),
            get("/v1/agent/checks", look=REASON),
            get("/v1/agent/health/service/id/web1?format=text", look=ANY_ORDER),
        ),
        (WEB1,),
    ),
    Case(
        "service maintenance twice keeps the first reason",
        (
            put("/v1/agent/service/maintenance/web1?enable=true&reason=one"),
            put("/v1/agent/service/maintenance/web1?enable=true&reason=two"),
            CHECKS,
        ),
        (WEB1,),
    ),
    Case("service maintenance without enable", (put("/v1/agent/service/maintenance/web1"),), (WEB1,)),
    Case(
        "service maintenance with an odd enable",
        (put("/v1/agent/service/maintenance/web1?enable=maybe"),),
        (WEB1,),
    ),
    Case(
        "service maintenance with an empty enable",
        (put("/v1/agent/service/maintenance/web1?enable="),),
        (WEB1,),
    ),
    Case(
        "service maintenance of an unknown service",
        (put("/v1/agent/service/maintenance/zz?enable=true"),),
        (WEB1,),
    ),
    Case("service maintenance without an id", (put("/v1/agent/service/maintenance/?enable=true"),), (WEB1,)),
    Case(
        "node maintenance and back",
        (
            put("/v1/agent/maintenance?enable=true&reason=kernel"),
            CHECKS,
            get("/v1/agent/health/service/name/web?format=text", look=ANY_ORDER),
            get("/v1/agent/health/service/id/web1", look=ANY_ORDER),
            get("/v1/health/service/web?passing"),
            get("/v1/health/node/n1"),
            put("/v1/agent/maintenance?enable=false"),
            CHECKS,
        ),
        (WEB1,),
    ),
    Case("node maintenance without a reason", (put("/v1/agent/maintenance?enable=1"), CHECKS), (WEB1,)),
    Case("node maintenance without enable", (put("/v1/agent/maintenance"),), (WEB1,)),
    Case("node maintenance with an odd enable", (put("/v1/agent/maintenance?enable=yes"),), (WEB1,)),
    Case(
        "maintenance of a service with a slash in its id",
        (
            register("w", ID="a/b"),
            put("/v1/agent/service/maintenance/a/b?enable=true&reason=x"),
            CHECKS,
        ),
    ),
    Case("register with POST", (send("POST", "/v1/agent/service/register", {"Name": "web"}), SERVICES)),
)

FAMILY = Family("agent services", READING + REGISTERING + REFUSALS + LEAVING)
