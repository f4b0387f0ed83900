"""Checks as they run: which status, and the words of their output, which people read in their dashboards."""

from __future__ import annotations

from tests.conformance.case import OWN_HTTP, Case, Family, Look, Request, Setting, get, put, register
from tests.conformance.worlds import TTL, WEB1

SCRIPTS = Setting("scripts", {"enable_script_checks": True})
UNLIMITED = Setting("outputs", {"enable_script_checks": True, "check_output_max_size": 40})
OUTPUT_DISCARDED = Setting("discarded output", {"discard_check_output": True})
OWN_PAGE = f"http://{OWN_HTTP}/v1/status/leader"


def run(
    name: str, status: str, *, setting: Setting = SCRIPTS, look: Look | None = None, **check: object
) -> Case:
    """The check starts in another status than it will have, so that its first run shows."""
    initial = "critical" if status == "passing" else "passing"
    definition = {"Interval": "1s", "Timeout": "2s", "Status": initial, **check}
    read = get("/v1/agent/checks", until=f'"Status": "{status}"', look=look or Look())
    return Case(name, (register("x", Check=definition), read), setting=setting)


def exits(code: int) -> list[str]:
    return ["sh", "-c", f"echo out; echo err >&2; exit {code}"]


# Consul's text carries Go's own words for a timeout, which depend on where it struck.
STATUS_ONLY = Look(ignore=("body*.Output",))

RUNS = (
    run("HTTP 200", "passing", HTTP=OWN_PAGE),
    run("HTTP 404", "critical", HTTP=f"http://{OWN_HTTP}/v1/nothing"),
    run("HTTP 400 with a body", "critical", HTTP=f"http://{OWN_HTTP}/v1/catalog/service/"),
    run("HTTP with a wrong method", "critical", HTTP=OWN_PAGE, Method="DELETE"),
    run("HTTP refused", "critical", HTTP="http://127.0.0.1:1/"),
    run("HTTP of a name that does not exist", "critical", HTTP="http://nope.invalid/", look=STATUS_ONLY),
    run("HTTP of a bad URL", "critical", HTTP="http://127.0.0.1:bad/", look=STATUS_ONLY),
    run("HTTP with a short limit", "critical", HTTP=f"http://{OWN_HTTP}/v1/catalog/node/", OutputMaxSize=5),
    run("TCP", "passing", TCP=OWN_HTTP),
    run("TCP refused", "critical", TCP="127.0.0.1:1"),
    run("gRPC refused", "critical", GRPC="127.0.0.1:1", look=STATUS_ONLY),
    run("script 0", "passing", Args=exits(0)),
    run("script 1", "warning", Args=exits(1)),
    run("script 2", "critical", Args=exits(2)),
    run("script that does not exist", "critical", Args=["/nonexistent/program"]),
    run("script that hangs", "critical", Args=["sleep", "60"], Timeout="1s"),
    run("script killed by a signal", "critical", Args=["sh", "-c", "kill -9 $$"]),
    run("script with long output", "passing", Args=["sh", "-c", "printf '%05000d' 7"]),
    run("script with an output limit", "passing", Args=["printf", "0123456789"], OutputMaxSize=4),
    run("script with ScriptArgs", "passing", ScriptArgs=exits(0)),
    run("script with bytes that are no text", "passing", Args=["printf", "a\\377b\\000c"], look=STATUS_ONLY),
    run(
        "script under the agent's output limit", "passing", setting=UNLIMITED, Args=["printf", "%0100d", "7"]
    ),
    run("success before passing", "passing", Args=exits(0), SuccessBeforePassing=2),
    run("failures before critical", "critical", Args=exits(2), FailuresBeforeCritical=2),
    run("output discarded", "passing", setting=OUTPUT_DISCARDED, HTTP=OWN_PAGE),
)


def ttl_runs_out(name: str, *meanwhile: Request) -> Case:
    start = register("x", Check={"TTL": "400ms", "Status": "passing"})
    return Case(name, (start, *meanwhile, get("/v1/agent/checks", until="TTL expired")))


TTLS = (
    ttl_runs_out("a TTL runs out"),
    ttl_runs_out("a TTL runs out after a note", put("/v1/agent/check/pass/service:x?note=all%20well")),
    ttl_runs_out("a TTL runs out after a failure", put("/v1/agent/check/fail/service:x?note=ouch")),
)

ALIASES = tuple(
    Case(
        f"an alias of a service that is {status}",
        (
            register("shadow", Check={"AliasService": "web1"}),
            put(f"/v1/agent/check/{verb}/service:web1?note=n"),
            get("/v1/agent/checks", until=until, look=Look(ignore=("catalog follows",))),
        ),
        (WEB1,),
    )
    for verb, status, until in (
        ("pass", "passing", "All checks passing."),
        ("warn", "warning", "Aliased check"),
        ("fail", "critical", "Aliased check"),
    )
)
MORE_ALIASES = (
    Case(
        "an alias of a service without checks",
        (
            register("bare", ID="bare"),
            register("shadow", Check={"AliasService": "bare"}),
            get("/v1/agent/checks", until="No checks found."),
        ),
    ),
    Case(
        "an alias of an unknown service",
        (
            register("shadow", Check={"AliasService": "nope"}),
            get("/v1/agent/checks", until="could not be found"),
        ),
    ),
)
FIRST_STATUS = (
    Case(
        "a check that has not run has its first status",
        (register("x", Check={"TCP": "127.0.0.1:1", "Interval": "10h"}), get("/v1/agent/checks")),
    ),
    Case(
        "a TTL check that nobody reported has no output",
        (register("x", Check={"TTL": TTL}), get("/v1/agent/checks")),
    ),
)

FAMILY = Family("checks running", RUNS + TTLS + ALIASES + MORE_ALIASES + FIRST_STATUS)
