"""/v1/health/*: the endpoints that load balancers and Prometheus live on."""

from __future__ import annotations

from tests.conformance.case import Case, Family, get, put
from tests.conformance.worlds import DB, MANY, NODE_CHECK, SHOP, WEB, WEB1, check_fails, deregister

PASSING = (
    "passing",
    "passing=",
    "passing=1",
    "passing=true",
    "passing=True",
    "passing=false",
    "passing=0",
    "passing=x",
)

READS = (
    Case("checks of a node", (get("/v1/health/node/n1"),), SHOP),
    Case("checks of an unknown node", (get("/v1/health/node/zz"),), SHOP),
    Case("no node", (get("/v1/health/node/"),), SHOP),
    Case("node names ignore case", (get("/v1/health/node/N1"),), (DB,)),
    Case("checks of a service", (get("/v1/health/checks/web"),), SHOP),
    Case("checks of a service in capitals", (get("/v1/health/checks/WEB"),), SHOP),
    Case("checks of an unknown service", (get("/v1/health/checks/zz"),), SHOP),
    Case("checks of no service", (get("/v1/health/checks/"),), SHOP),
    Case("no state", (get("/v1/health/state/"),), SHOP),
    *(
        Case(f"checks in state {state}", (get(f"/v1/health/state/{state}"),), SHOP)
        for state in ("any", "passing", "warning", "critical", "bogus", "ANY")
    ),
    Case("a service", (get("/v1/health/service/web"),), SHOP),
    Case("a service with everything", (get("/v1/health/service/db"),), SHOP),
    Case("a service without checks", (get("/v1/health/service/plain"),), SHOP),
    Case("Consul's own service", (get("/v1/health/service/consul"),)),
    Case("service names ignore case", (get("/v1/health/service/WEB"),), SHOP),
    Case("an unknown service", (get("/v1/health/service/zz"),), SHOP),
    Case("no service", (get("/v1/health/service/"),), SHOP),
    Case("many instances", (get("/v1/health/service/many?passing"),), tuple(reversed(MANY))),
    *(Case(f"a service with {query}", (get(f"/v1/health/service/web?{query}"),), SHOP) for query in PASSING),
    Case("a tag", (get("/v1/health/service/web?tag=b"),), SHOP),
    Case("two tags", (get("/v1/health/service/web?tag=a&tag=c"),), SHOP),
    Case("tags ignore case", (get("/v1/health/service/web?tag=A"),), SHOP),
    Case("an unknown tag and passing", (get("/v1/health/service/web?tag=zz&passing"),), SHOP),
    Case(
        "near this agent",
        (get("/v1/health/service/web?near=_agent"), get("/v1/health/state/any?near=n1")),
        SHOP,
    ),
    Case(
        "node meta nobody has",
        (get("/v1/health/service/web?node-meta=a:b"), get("/v1/health/state/any?node-meta=a:b")),
        SHOP,
    ),
    Case("connect", (get("/v1/health/connect/web"),), SHOP),
    Case("connect without a service", (get("/v1/health/connect/"),), SHOP),
    Case("ingress", (get("/v1/health/ingress/web"),), SHOP),
    *(
        Case(f"a service with {query}", (get(f"/v1/health/service/web?{query}"),), WEB)
        for query in (
            "stale",
            "consistent",
            "stale&consistent",
            "cached",
            "dc=zz",
            "index=x",
            "wait=x",
            "max_stale=x",
            "pretty=false",
        )
    ),
    *(
        Case(
            f"checks with {query}",
            (get(f"/v1/health/checks/web?{query}"), get(f"/v1/health/node/n1?{query}")),
            WEB,
        )
        for query in ("stale", "consistent", "stale&consistent", "cached", "dc=zz", "index=x", "wait=x")
    ),
)

CHANGES = (
    Case(
        "a check turns critical",
        (check_fails("service:web1"), get("/v1/health/service/web?passing")),
        (WEB1,),
    ),
    Case(
        "a node check turns critical",
        (check_fails("mem"), get("/v1/health/service/web?passing")),
        (WEB1, NODE_CHECK),
    ),
    Case(
        "a node check warns",
        (put("/v1/agent/check/warn/mem"), get("/v1/health/service/web?passing")),
        (WEB1, NODE_CHECK),
    ),
    Case(
        "the last instance goes",
        (
            deregister("web1"),
            get("/v1/health/service/web"),
            get("/v1/catalog/service/web"),
            get("/v1/catalog/services"),
        ),
        (WEB1,),
    ),
)

FAMILY = Family("health", READS + CHANGES)
