"""/v1/status/* and the few other addresses people try first."""

from __future__ import annotations

from tests.conformance.case import Case, Family, Look, get

STATUS_ONLY = Look(only=("status",))

FAMILY = Family(
    "status",
    (
        Case("leader", (get("/v1/status/leader"),)),
        Case("peers", (get("/v1/status/peers"),)),
        Case("leader of this datacenter", (get("/v1/status/leader?dc=dc1"),)),
        Case("leader of an unknown datacenter", (get("/v1/status/leader?dc=zz"),)),
        Case("peers of an unknown datacenter", (get("/v1/status/peers?dc=zz"),)),
        Case("leader with a trailing slash", (get("/v1/status/leader/"),)),
        Case("an unknown path", (get("/v1/bogus"),)),
        Case("an unknown path below a known one", (get("/v1/agent/bogus"),)),
        Case("a path in capitals", (get("/V1/status/leader"),)),
        Case("coordinates", (get("/v1/coordinate/datacenters", look=STATUS_ONLY),)),
        Case("coordinates of nodes", (get("/v1/coordinate/nodes", look=STATUS_ONLY),)),
    ),
)
