"""Methods, paths, headers, encodings and layout: what holds for every endpoint."""

from __future__ import annotations

from tests.conformance.case import Case, Family, Look, Request, Setting, get, put, send
from tests.conformance.worlds import MANY, WEB1

# Consul without -dev does not indent. A single server that may elect itself is the nearest thing to -dev.
PLAIN = Setting(
    "a single server",
    {
        "server": True,
        "bootstrap": True,
        "data_dir": "data",
        "client_addr": "127.0.0.1",
        "performance": {"raft_multiplier": 1},
    },
    arguments=(),
)
HEADERS = Setting(
    "response headers",
    {"http_config": {"response_headers": {"Access-Control-Allow-Origin": "*", "X-Mine": "1"}}},
)
BLOCKED = Setting(
    "blocked endpoints", {"http_config": {"block_endpoints": ["/v1/agent/self", "/v1/catalog"]}}, open=False
)
WRITES_FROM_ELSEWHERE = Setting(
    "writes from elsewhere", {"http_config": {"allow_write_http_from": ["10.0.0.0/8"]}}, open=False
)

READ = (
    "/v1/agent/self", "/v1/agent/services", "/v1/agent/service/web1", "/v1/agent/checks",
    "/v1/agent/members", "/v1/agent/metrics", "/v1/agent/host", "/v1/agent/monitor",
    "/v1/agent/health/service/id/web1", "/v1/agent/health/service/name/web", "/v1/catalog/datacenters",
    "/v1/catalog/nodes", "/v1/catalog/services", "/v1/catalog/service/web", "/v1/catalog/connect/web",
    "/v1/catalog/node/n1", "/v1/catalog/node-services/n1", "/v1/health/node/n1", "/v1/health/checks/web",
    "/v1/health/state/any", "/v1/health/service/web", "/v1/health/connect/web", "/v1/status/leader",
    "/v1/status/peers",
)  # fmt: skip
WRITE = (
    "/v1/agent/service/register", "/v1/agent/service/deregister/x", "/v1/agent/service/maintenance/x",
    "/v1/agent/check/register", "/v1/agent/check/deregister/x", "/v1/agent/check/pass/x",
    "/v1/agent/check/warn/x", "/v1/agent/check/fail/x", "/v1/agent/check/update/x", "/v1/agent/maintenance",
    "/v1/agent/reload", "/v1/agent/force-leave/x", "/v1/agent/join/x", "/v1/agent/leave",
    "/v1/agent/token/default",
)  # fmt: skip

WRONG = tuple(
    Case(f"{method} {path}", (send(method, path),), (WEB1,))
    for path in READ
    for method in ("PUT", "POST", "DELETE", "HEAD", "OPTIONS")
) + tuple(
    Case(f"{method} {path}", (send(method, path),), (WEB1,))
    for path in WRITE
    for method in ("GET", "DELETE", "HEAD", "OPTIONS")
)

PATHS = (
    Case(
        "an unknown path", (get("/v1/zz"), put("/v1/zz"), send("OPTIONS", "/v1/zz"), send("HEAD", "/v1/zz"))
    ),
    Case("the root without a page", (get("/", look=Look(only=("status",))),)),
    Case("a version nobody has", (get("/v2/status/leader"),)),
    Case("a doubled slash", (get("/v1//status/leader"), put("/v1/agent//service/deregister/x"))),
    Case("a dot segment", (get("/v1/catalog/../status/leader"),)),
    Case("an encoded slash in a name", (get("/v1/catalog/service/a%2Fb"),)),
    Case("an encoded space", (get("/v1/catalog/service/a%20b"),)),
    Case("a bad escape", (get("/v1/catalog/service/a%zz"),)),
    Case("an unprintable character", (get("/v1/catalog/service/a%01"), get("/v1/catalog/service/a%00b"))),
    Case("unicode in a path", (get("/v1/catalog/service/w%C3%A9b"),)),
    Case("a bad escape in the query", (get("/v1/catalog/service/web?tag=%zz"),), (WEB1,)),
    Case("a semicolon in the query", (get("/v1/health/service/web?passing;stale"),), (WEB1,)),
    Case(
        "a plus in the query is a space",
        (put("/v1/agent/service/maintenance/web1?enable=true&reason=a+b"), get("/v1/agent/checks")),
        (WEB1,),
    ),
    Case("a parameter twice", (get("/v1/health/service/web?passing=0&passing=1"),), (WEB1,)),
)

FORM = (
    Case(
        "gzip",
        (
            get("/v1/health/service/many", Accept_Encoding="gzip"),
            get("/v1/status/leader", Accept_Encoding="gzip"),
        ),
        MANY,
    ),
    Case("gzip among others", (get("/v1/health/service/many", Accept_Encoding="deflate, gzip;q=0.5"),), MANY),
    Case("gzip refused", (get("/v1/health/service/many", Accept_Encoding="gzip;q=0, identity"),), MANY),
    Case(
        "gzip of an error",
        (get("/v1/health/service/", Accept_Encoding="gzip"), get("/v1/zz", Accept_Encoding="gzip")),
    ),
    Case(
        "gzip of an empty answer", (put("/v1/agent/service/register", {"Name": "x"}, Accept_Encoding="gzip"),)
    ),
    Case(
        "a token in every place",
        (
            get("/v1/status/leader?token=x"),
            get("/v1/status/leader", X_Consul_Token="x"),
            get("/v1/status/leader", Authorization="Bearer x"),
        ),
    ),
    Case(
        "an unknown content type",
        (
            put("/v1/agent/service/register", {"Name": "x"}, Content_Type="text/plain"),
            get("/v1/agent/services"),
        ),
    ),
    Case(
        "a chunked body",
        (
            Request(
                "PUT",
                "/v1/agent/service/register",
                b'e\r\n{"Name":"web"}\r\n0\r\n\r\n',
                (("Transfer-Encoding", "chunked"),),
            ),
            get("/v1/agent/services"),
        ),
    ),
    Case("Expect: 100-continue", (put("/v1/agent/service/register", {"Name": "x"}, Expect="100-continue"),)),
    Case("a GET with a body", (send("GET", "/v1/status/leader", {"a": 1}),)),
    Case(
        "a body longer than any registration",
        (
            put(
                "/v1/agent/service/register",
                b'{"Name":"' + b"x" * 700_000 + b'"}',
                look=Look(only=("status",)),
            ),
        ),
    ),
)

LAYOUT = tuple(
    Case(f"layout of {target}", (get(target),), (WEB1,), PLAIN)
    for target in (
        "/v1/agent/services",
        "/v1/agent/services?pretty",
        "/v1/agent/services?pretty=false",
        "/v1/health/service/web",
        "/v1/health/service/web?pretty",
        "/v1/status/leader",
        "/v1/status/leader?pretty",
        "/v1/catalog/node/zz",
        "/v1/catalog/node/zz?pretty",
        "/v1/catalog/service/zz?pretty",
        "/v1/agent/service/zz",
    )
)

CONFIGURED = (
    Case(
        "response headers",
        (get("/v1/status/leader"), get("/v1/zz"), send("OPTIONS", "/v1/status/leader")),
        setting=HEADERS,
    ),
    Case(
        "a blocked endpoint",
        (get("/v1/agent/self"), get("/v1/catalog/nodes"), get("/v1/status/leader")),
        setting=BLOCKED,
    ),
    Case(
        "writes from elsewhere only",
        (
            put("/v1/agent/reload"),
            put("/v1/agent/service/register", {"Name": "x"}),
            get("/v1/status/leader"),
            send("OPTIONS", "/v1/agent/reload"),
        ),
        setting=WRITES_FROM_ELSEWHERE,
    ),
)

FAMILY = Family("methods", WRONG + PATHS + FORM + LAYOUT + CONFIGURED)
