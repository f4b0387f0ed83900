"""/v1/agent/check/* and /v1/agent/checks."""

from __future__ import annotations

from tests.conformance.case import Case, Family, get, put, register_check, send
from tests.conformance.worlds import SHOP, TTL, WEB1, check_fails, check_passes

CHECKS = get("/v1/agent/checks")
NODE = get("/v1/health/node/n1")
TTL_CHECK = register_check("memory", ID="mem", TTL=TTL)


def refused(name: str, **fields: object) -> Case:
    return Case(f"refused: {name}", (register_check("x", **fields), CHECKS))


def registered(name: str, **fields: object) -> Case:
    return Case(name, (register_check("check", **fields), CHECKS, NODE))


REGISTERING = (
    Case("checks of an empty agent", (CHECKS,)),
    Case("checks", (CHECKS,), SHOP),
    registered("a TTL check", TTL=TTL),
    registered("a TTL check with everything", ID="c1", TTL=TTL, Notes="why", Status="passing", Token="t"),
    registered("CheckID for ID", CheckID="c1", TTL=TTL),
    registered(
        "an HTTP check", HTTP="http://127.0.0.1:1/", Interval="1h", Header={"X": ["1"]}, Method="POST"
    ),
    registered(
        "an HTTP check with a body", HTTP="http://127.0.0.1:1/", Interval="1h", Body="b", Timeout="5s"
    ),
    registered("a TCP check", TCP="127.0.0.1:1", Interval="1h"),
    registered("a gRPC check", GRPC="127.0.0.1:1/svc", Interval="1h", GRPCUseTLS=True),
    Case(
        "an alias of a node",
        # Once it was looked at: Consul's is then failing, ours passing.
        (
            register_check("check", ID="shadow", AliasNode="n1"),
            get("/v1/agent/checks", until="ing"),
            NODE,
        ),
    ),
    registered("thresholds", TTL=TTL, SuccessBeforePassing=3, FailuresBeforeCritical=3),
    registered("deregistration of a node check is ignored", TTL=TTL, DeregisterCriticalServiceAfter="2m"),
    Case(
        "a check of a service carries its name and tags",
        (
            register_check("extra", ID="extra", ServiceID="web1", TTL=TTL),
            CHECKS,
            get("/v1/health/service/web"),
        ),
        (WEB1,),
    ),
    Case(
        "registering a check again keeps its status",
        (check_passes("mem?note=n"), register_check("memory", ID="mem", TTL="20m", Notes="new"), CHECKS),
        (TTL_CHECK,),
    ),
    Case(
        "registering a check again with a status",
        (check_passes("mem"), register_check("memory", ID="mem", TTL=TTL, Status="warning"), CHECKS),
        (TTL_CHECK,),
    ),
)

REFUSALS = (
    Case("refused: no name", (put("/v1/agent/check/register", {"TTL": "10s"}), CHECKS)),
    refused("an unknown service", TTL=TTL, ServiceID="nope"),
    refused("a status", TTL=TTL, Status="fine"),
    refused("no kind"),
    refused("no interval", HTTP="http://127.0.0.1:1/"),
    refused("TTL and interval", TTL="10s", Interval="10s"),
    refused("a script while scripts are off", Args=["true"], Interval="10s"),
    refused("a script while scripts are off, old spelling", ScriptArgs=["true"], Interval="10s"),
    refused("docker while scripts are off", DockerContainerID="c", Args=["true"], Interval="10s"),
    refused("a negative output size", TTL="10s", OutputMaxSize=-1),
    refused("an unknown kind of check", UnknownKind="x", Interval="10s"),
)

REPORTING = (
    Case("pass", (check_passes("mem"), CHECKS, NODE), (TTL_CHECK,)),
    Case("pass with a note", (put("/v1/agent/check/pass/mem?note=all%20well"), CHECKS, NODE), (TTL_CHECK,)),
    Case("warn with a note", (put("/v1/agent/check/warn/mem?note=hm"), CHECKS, NODE), (TTL_CHECK,)),
    Case("fail with a note", (put("/v1/agent/check/fail/mem?note=ouch"), CHECKS, NODE), (TTL_CHECK,)),
    Case("an empty note", (put("/v1/agent/check/pass/mem?note="), CHECKS), (TTL_CHECK,)),
    Case(
        "a note clears the one before", (check_passes("mem?note=x"), check_fails("mem"), CHECKS), (TTL_CHECK,)
    ),
    Case("pass with POST", (send("POST", "/v1/agent/check/pass/mem"),), (TTL_CHECK,)),
    Case("pass with GET", (get("/v1/agent/check/pass/mem"),), (TTL_CHECK,)),
    Case("pass of a service check", (check_passes("service:web1"), CHECKS), (WEB1,)),
    Case(
        "update",
        (put("/v1/agent/check/update/mem", {"Status": "warning", "Output": "half full"}), CHECKS, NODE),
        (TTL_CHECK,),
    ),
    Case(
        "update in lower case",
        (put("/v1/agent/check/update/mem", {"status": "passing", "output": "o"}), CHECKS),
        (TTL_CHECK,),
    ),
    Case(
        "update without output",
        (put("/v1/agent/check/update/mem", {"Status": "passing"}), CHECKS),
        (TTL_CHECK,),
    ),
    Case("update with a bad status", (put("/v1/agent/check/update/mem", {"Status": "xx"}),), (TTL_CHECK,)),
    Case("update without a status", (put("/v1/agent/check/update/mem", {}),), (TTL_CHECK,)),
    Case("update without a body", (put("/v1/agent/check/update/mem"),), (TTL_CHECK,)),
    Case("update with bad JSON", (put("/v1/agent/check/update/mem", "{"),), (TTL_CHECK,)),
    Case(
        "update with a long output",
        (put("/v1/agent/check/update/mem", {"Status": "passing", "Output": "0123456789" * 500}), CHECKS),
        (TTL_CHECK,),
    ),
    Case("a long note", (put("/v1/agent/check/pass/mem?note=" + "0123456789" * 500), CHECKS), (TTL_CHECK,)),
    Case(
        "an output limit of its own",
        (put("/v1/agent/check/pass/mem?note=0123456789"), CHECKS),
        (register_check("memory", ID="mem", TTL=TTL, OutputMaxSize=4),),
    ),
    Case("pass of an unknown check", (check_passes("zz"),), SHOP),
    Case("update of an unknown check", (put("/v1/agent/check/update/zz", {"Status": "passing"}),), SHOP),
    Case(
        "pass of a check without a TTL",
        (register_check("t", ID="t", TCP="127.0.0.1:1", Interval="1h"), check_passes("t"), check_fails("t")),
    ),
    Case("pass without an id", (put("/v1/agent/check/pass/"),), SHOP),
    Case("update without an id", (put("/v1/agent/check/update/", {"Status": "passing"}),), SHOP),
    Case("check ids are matched exactly", (check_passes("MEM"),), (TTL_CHECK,)),
)

LEAVING = (
    Case("deregister", (put("/v1/agent/check/deregister/mem"), CHECKS, NODE), (TTL_CHECK,)),
    Case("deregister an unknown check", (put("/v1/agent/check/deregister/zz"),), (TTL_CHECK,)),
    Case("deregister without an id", (put("/v1/agent/check/deregister/"),), (TTL_CHECK,)),
    Case("deregister a service's check", (put("/v1/agent/check/deregister/service:web1"), CHECKS), (WEB1,)),
    Case(
        "deregister a check with a slash",
        (register_check("x", ID="a/b", TTL=TTL), put("/v1/agent/check/deregister/a/b"), CHECKS),
    ),
)

FAMILY = Family("agent checks", REGISTERING + REFUSALS + REPORTING + LEAVING)
