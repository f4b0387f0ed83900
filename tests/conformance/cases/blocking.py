"""Blocking queries: what wakes them, what must not, and how the index moves."""

from __future__ import annotations

from tests.conformance.case import Case, Family, Look, Request, Watch, get, put, register
from tests.conformance.worlds import (
    DB,
    NODE_CHECK,
    TTL,
    WEB,
    WEB1,
    check_fails,
    check_passes,
    deregister,
    ttl,
)

TAGS = Look(unordered=("body.*",))
GIVEN = (*WEB, DB, NODE_CHECK)
UNRELATED = (register("other", Port=9),)
WEB4 = (register("web", ID="web4", Port=84, Tags=["d"]),)


def wakes(target: str, why: str, *change: Request) -> Case:
    return Case(f"{target} on {why}", (Watch(target, change),), GIVEN)


TIMEOUTS = tuple(
    Case(f"{target} at the timeout", (Watch(target, body=True, look=TAGS),), GIVEN)
    for target in (
        "/v1/health/service/web",
        "/v1/catalog/nodes",
        "/v1/health/service/zz",
        "/v1/catalog/node/zz",
        "/v1/health/state/critical",
        "/v1/catalog/services?stale",
    )
)

CHANGES = tuple(
    wakes(target, why, *change)
    for target in (
        "/v1/health/service/web",
        "/v1/health/service/web?passing",
        "/v1/catalog/service/web",
        "/v1/health/checks/web",
        "/v1/health/node/n1",
        "/v1/health/state/any",
        "/v1/catalog/services",
        "/v1/catalog/node/n1",
        "/v1/catalog/node-services/n1",
        "/v1/catalog/nodes",
    )
    for why, change in (
        ("a new instance", WEB4),
        ("an instance gone", (deregister("web1"),)),
        ("an unrelated service", UNRELATED),
        ("a check of it", (check_fails("service:web1"),)),
        ("a check of another", (check_fails("service:db1:1"),)),
        ("a node check", (check_fails("mem"),)),
    )
)

MORE = (
    wakes("/v1/health/service/web", "the same registration again", WEB1),
    wakes("/v1/health/service/web", "a check that passes again", check_passes("service:web1")),
    wakes("/v1/health/service/web", "a new output only", put("/v1/agent/check/pass/service:web1?note=other")),
    wakes(
        "/v1/health/service/web",
        "new tags",
        register("web", ID="web1", Port=80, Tags=["z"], Check={"TTL": TTL}),
    ),
    wakes("/v1/health/service/zz", "its first instance", register("zz", Port=1)),
    wakes("/v1/health/service/zz", "another service's first instance", register("yy", Port=1)),
    wakes(
        "/v1/catalog/services", "the same tags on one more instance", register("web", ID="web5", Tags=["a"])
    ),
    wakes("/v1/catalog/services", "a new tag", register("web", ID="web5", Tags=["new"])),
    wakes("/v1/health/service/web", "maintenance", put("/v1/agent/service/maintenance/web1?enable=true")),
    wakes("/v1/health/service/web", "node maintenance", put("/v1/agent/maintenance?enable=true")),
    wakes("/v1/health/state/critical", "a check that turns critical", check_fails("service:web1")),
    wakes(
        "/v1/health/state/critical", "a check that turns warning", put("/v1/agent/check/warn/service:web1")
    ),
    wakes(
        "/v1/health/service/web?tag=c", "a change of an instance without the tag", check_fails("service:web1")
    ),
    Case(
        "the last instance goes: an empty list with a higher index",
        (Watch("/v1/health/service/solo", (deregister("solo"),), body=True),),
        (register("solo", Port=1),),
    ),
    Case(
        "an unknown service while another goes",
        (Watch("/v1/health/service/zz", (deregister("solo"),)),),
        (register("solo", Port=1),),
    ),
    Case("an index of the future", (Watch("/v1/health/service/web", ahead=1000),), GIVEN),
    Case("an old index returns at once", (Watch("/v1/health/service/web", ahead=-1),), GIVEN),
    Case(
        "with a filter",
        (Watch("/v1/health/service/web?filter=Service.Port==81", (check_fails("service:web1"),), body=True),),
        GIVEN,
    ),
    Case("index 0 does not block", (get("/v1/health/service/web?index=0&wait=5s"),), GIVEN),
    Case("a wait alone does not block", (get("/v1/health/service/web?wait=5s"),), GIVEN),
    Case("a negative index", (get("/v1/health/service/web?index=-1&wait=10ms"),), GIVEN),
    Case(
        "an index that is too long",
        (get("/v1/health/service/web?index=99999999999999999999&wait=10ms"),),
        GIVEN,
    ),
    Case("a wait without a unit", (get("/v1/health/service/web?index=1&wait=10"),), GIVEN),
    Case("a negative wait", (get("/v1/health/service/web?index=1&wait=-1s"),), GIVEN),
    Case("a short wait", (Watch("/v1/health/service/web", wait_ms=200),), GIVEN),
    Case("agent/service at the timeout", (Watch("/v1/agent/service/web1", by_hash=True, body=True),), GIVEN),
    Case(
        "agent/service on a change",
        (
            Watch(
                "/v1/agent/service/web1",
                (register("web", ID="web1", Port=8080, Check=ttl("passing")),),
                by_hash=True,
            ),
        ),
        GIVEN,
    ),
    Case(
        "agent/service on a change of another",
        (Watch("/v1/agent/service/web1", UNRELATED, by_hash=True),),
        GIVEN,
    ),
    Case(
        "agent/service when it goes",
        (Watch("/v1/agent/service/web1", (deregister("web1"),), by_hash=True),),
        GIVEN,
    ),
    Case("agent/service with an unknown hash", (get("/v1/agent/service/web1?hash=zz&wait=5s"),), GIVEN),
)

FAMILY = Family("blocking", TIMEOUTS + CHANGES + MORE)
