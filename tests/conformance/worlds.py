"""What agents are told before a case: the services of contract section 3.5 and a few more, as
registrations.
"""

from __future__ import annotations

from tests.conformance.case import Request, put, register, register_check

TTL = "10m"
"""Long enough that no TTL check expires while a case runs."""


def ttl(status: str, **fields: object) -> dict[str, object]:
    return {"TTL": TTL, "Status": status, **fields}


WEB1 = register(
    "web", ID="web1", Port=80, Tags=["a", "b"], Weights={"Passing": 5, "Warning": 2}, Check=ttl("passing")
)
WEB2 = register(
    "web", ID="web2", Port=81, Address="10.0.0.2", Tags=["a", "c"], Check=ttl("warning"), Meta={"rack": "r2"}
)
WEB3 = register("web", ID="web3", Port=83, Address="10.0.0.3", Tags=["a"], Check=ttl("critical"))
WEB = (WEB1, WEB2, WEB3)

DB = register(
    "db",
    ID="db1",
    Port=5432,
    Tags=["primary", "v1.2"],
    Meta={"rack": "r1", "version": "12"},
    TaggedAddresses={
        "lan": {"Address": "10.0.0.9", "Port": 5432},
        "wan": {"Address": "192.0.2.9", "Port": 15432},
    },
    EnableTagOverride=True,
    Checks=[ttl("passing", Name="alive"), ttl("passing", CheckID="db-disk", Name="disk", Notes="free space")],
)
PLAIN = register("plain")
NODE_CHECK = register_check("memory", ID="mem", TTL=TTL, Status="passing", Notes="free memory")
SHOP = (*WEB, DB, PLAIN, NODE_CHECK)

V6 = register("v6", ID="v6-1", Port=82, Address="2001:db8::1")
BOTH = (
    register("both", ID="both-4", Port=84, Address="10.0.0.4"),
    register("both", ID="both-6", Port=84, Address="2001:db8::6"),
)
SEARCH = register("search", ID="search1", Port=8080, Address="www.example.com")
CNAME_INSIDE = register("cn", ID="cn1", Port=8081, Address="web.service.consul")
CNAME_AND_ADDRESS = (
    register("mixed", ID="mixed-name", Port=90, Address="www.example.com"),
    register("mixed", ID="mixed-ip", Port=91, Address="10.0.0.91"),
)
TWO_CNAMES = (
    register("names", ID="names-1", Port=92, Address="one.example.com"),
    register("names", ID="names-2", Port=93, Address="two.example.com"),
)
LOOP = (
    register("loop-a", Port=94, Address="loop-b.service.consul"),
    register("loop-b", Port=95, Address="loop-a.service.consul"),
)
SELF_NAMED = register("self", Port=96, Address="self.service.consul")
SAME_ADDRESS = (
    register("twins", ID="twins-1", Port=97, Address="10.0.0.97"),
    register("twins", ID="twins-2", Port=98, Address="10.0.0.97"),
    register("twins", ID="twins-3", Port=98, Address="10.0.0.97"),
)
MANY = tuple(
    register("many", ID=f"many-{number:02}", Port=7000 + number, Address=f"10.1.0.{number}")
    for number in range(1, 21)
)
MANY_ON_NODE = tuple(register("ports", ID=f"ports-{number:02}", Port=7100 + number) for number in range(1, 9))
ODD_NAMES = (
    register("My_Svc.X", Port=99),
    register("Camel", ID="Camel", Port=100, Tags=["Tag.Dotted", "UP"]),
)
NAMES = (
    *WEB,
    V6,
    *BOTH,
    SEARCH,
    CNAME_INSIDE,
    *CNAME_AND_ADDRESS,
    *TWO_CNAMES,
    *LOOP,
    SELF_NAMED,
    *SAME_ADDRESS,
    *MANY,
    *MANY_ON_NODE,
    *ODD_NAMES,
)


def check_passes(check: str) -> Request:
    return put(f"/v1/agent/check/pass/{check}")


def check_fails(check: str) -> Request:
    return put(f"/v1/agent/check/fail/{check}")


def deregister(service: str) -> Request:
    return put(f"/v1/agent/service/deregister/{service}")
