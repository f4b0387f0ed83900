"""/v1/catalog/* reads. Real Consul's own `consul` service is part of every answer."""

from __future__ import annotations

from tests.conformance.case import DEV, Case, Family, Look, Setting, get
from tests.conformance.worlds import DB, MANY, ODD_NAMES, SHOP, WEB

TAGS = Look(unordered=("body.*",))
NODE_META = Setting("node meta", {"node_meta": {"rack": "r1", "zone": "z 1"}})

READS = (
    Case("datacenters", (get("/v1/catalog/datacenters"),)),
    Case("nodes", (get("/v1/catalog/nodes"),), SHOP),
    Case("services of an empty agent", (get("/v1/catalog/services"),)),
    Case("services with the union of tags", (get("/v1/catalog/services", look=TAGS),), SHOP),
    Case("instances of a service", (get("/v1/catalog/service/web"),), SHOP),
    Case("a service with everything", (get("/v1/catalog/service/db"),), SHOP),
    Case(
        "Consul's own service", (get("/v1/catalog/service/consul", look=Look(ignore=("body*.ServiceMeta",))),)
    ),
    Case("Consul's own service and its meta", (get("/v1/catalog/service/consul"),)),
    Case("service names ignore case", (get("/v1/catalog/service/WEB"),), SHOP),
    Case("an unknown service", (get("/v1/catalog/service/zz"),), SHOP),
    Case("no service", (get("/v1/catalog/service/"),), SHOP),
    Case("a tag", (get("/v1/catalog/service/web?tag=b"),), SHOP),
    Case("two tags", (get("/v1/catalog/service/web?tag=a&tag=c"),), SHOP),
    Case("tags ignore case", (get("/v1/catalog/service/web?tag=A"),), SHOP),
    Case("an unknown tag", (get("/v1/catalog/service/web?tag=zz"),), SHOP),
    Case("an empty tag", (get("/v1/catalog/service/web?tag="),), SHOP),
    Case("instances are ordered by id", (get("/v1/catalog/service/many"),), tuple(reversed(MANY))),
    Case("odd names", (get("/v1/catalog/service/My_Svc.X"), get("/v1/catalog/service/my_svc.x")), ODD_NAMES),
    Case("connect of a service without proxies", (get("/v1/catalog/connect/web"),), SHOP),
    Case("connect without a service", (get("/v1/catalog/connect/"),), SHOP),
    Case("a node", (get("/v1/catalog/node/n1"),), SHOP),
    Case("node names ignore case", (get("/v1/catalog/node/N1"),), (DB,)),
    Case("an unknown node", (get("/v1/catalog/node/zz"),), SHOP),
    Case("no node", (get("/v1/catalog/node/"),), SHOP),
    Case("services of a node", (get("/v1/catalog/node-services/n1"),), SHOP),
    Case("services of an unknown node", (get("/v1/catalog/node-services/zz"),), SHOP),
    Case("no node for services", (get("/v1/catalog/node-services/"),), SHOP),
    Case("gateway services", (get("/v1/catalog/gateway-services/web"),), SHOP),
    Case(
        "near this agent",
        (get("/v1/catalog/nodes?near=_agent"), get("/v1/catalog/service/web?near=_agent")),
        WEB,
    ),
    Case("near an unknown node", (get("/v1/catalog/nodes?near=zz"),), WEB),
)

MODES = tuple(
    Case(f"{endpoint} with {query}", (get(f"/v1/catalog/{endpoint}?{query}"),), (DB,))
    for endpoint in ("nodes", "service/db", "node/n1")
    for query in (
        "stale",
        "stale=",
        "stale=1",
        "consistent",
        "consistent=false",
        "leader",
        "max_stale=2s",
        "max_stale=x",
        "stale&consistent",
        "cached",
        "dc=dc1",
        "dc=zz",
        "index=0",
        "index=x",
        "wait=x",
        "wait=1s",
        "token=abc",
        "ns=default",
        "ns=",
        "pretty",
        "unknown=1",
    )
)

META = tuple(
    Case(
        f"{setting.name}: {endpoint} with {query}",
        (get(f"/v1/catalog/{endpoint}?{query}", look=TAGS),),
        WEB,
        setting,
    )
    for setting in (NODE_META, DEV)
    for endpoint in ("nodes", "services", "service/web")
    for query in (
        "node-meta=rack:r1",
        "node-meta=rack:r2",
        "node-meta=rack",
        "node-meta=rack:r1&node-meta=zone:z%201",
    )
)

FAMILY = Family(
    "catalog",
    (
        *READS,
        *MODES,
        *META,
        Case("a node with meta", (get("/v1/catalog/node/n1"), get("/v1/health/service/web")), WEB, NODE_META),
    ),
)
